"""The numerical contract: what counts as equal, declared before compiling and hashed into every key.

Read from YAML. A field that is not known is refused, and so is one that is missing: nothing has a silent default.
The hash covers what is enforced; the header (id, author, date) is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema

from tensorfarm.contract.digest import sha256_json
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.yaml_file import read_yaml

FORMAT = "tensorfarm.contract/1"


@dataclass(frozen=True)
class Budget:
    """Limit for an element: ``c * u * |y64| + k * sigma``; u is the unit roundoff of the output's dtype."""

    c: float
    k: float


@dataclass(frozen=True)
class MonteCarlo:
    """How sigma is sampled: float64 runs with every intermediate perturbed by one unit roundoff."""

    samples: int
    seed: int


@dataclass(frozen=True)
class NumericalContract:
    """``digits_undecidable_below``: a budget wider than 10**-digits of the value leaves nothing to decide."""

    id: str
    version: int
    monte_carlo: MonteCarlo
    outputs: Budget
    gradients: Budget
    digits_undecidable_below: float
    hash: str


def schema() -> dict[str, Any]:
    """The JSON schema of a contract file."""
    text = resources.files("tensorfarm.contract").joinpath("numerics.schema.json").read_text()
    return json.loads(text)


def read_contract(path: Path) -> NumericalContract:
    """Read a contract file. Refuses what cannot be read, has an unknown or missing field, or a value out of range."""
    return parse_contract(read_yaml(path, "contract"), str(path))


def parse_contract(value: Any, place: str = "contract") -> NumericalContract:
    """Validate and freeze an already parsed contract; ``place`` names it in errors."""
    refuse_invalid(value, schema(), place)
    enforced = {key: item for key, item in value.items() if key != "contract"}
    sampling, budgets = value["oracle"]["monte_carlo"], value["budgets"]
    return NumericalContract(
        id=value["contract"]["id"],
        version=value["contract"]["version"],
        monte_carlo=MonteCarlo(int(sampling["samples"]), int(sampling["seed"])),
        outputs=Budget(float(budgets["outputs"]["c"]), float(budgets["outputs"]["k"])),
        gradients=Budget(float(budgets["gradients"]["c"]), float(budgets["gradients"]["k"])),
        digits_undecidable_below=float(value["oracle"]["digits_undecidable_below"]),
        hash=sha256_json({"format": FORMAT, "fields": _plain(enforced)}),
    )


def refuse_invalid(value: Any, against: Mapping[str, Any], place: str) -> None:
    """Raise a Refusal that names the first wrong field of ``value`` and what would be right."""
    errors = sorted(jsonschema.Draft202012Validator(against).iter_errors(value), key=lambda error: list(error.path))
    if not errors:
        return _refuse_nan(value, place)
    error = errors[0]
    field = ".".join(map(str, error.absolute_path)) or "the file"
    known = ", ".join(error.schema.get("properties", {})) if error.validator == "additionalProperties" else ""
    raise Refusal(
        f"{place}: {field}: {error.message}",
        limit=f"known here: {known}" if known else "",
        next_step="correct that field",
    )


def _refuse_nan(value: Any, place: str) -> None:
    """A schema's limits let NaN through, and no value is outside a budget of NaN."""
    for item in value.values():
        if isinstance(item, Mapping):
            _refuse_nan(item, place)
        elif isinstance(item, float) and math.isnan(item):
            raise Refusal(f"{place}: a number is NaN", next_step="write the number that is meant")


def _plain(value: Any) -> Any:
    """Numbers as exact text, so that ``4`` and ``4.0`` hash alike."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return float(value).hex() if isinstance(value, (int, float)) and not isinstance(value, bool) else value
