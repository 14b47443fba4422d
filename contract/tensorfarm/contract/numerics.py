"""The numerical contract: what counts as equal, declared before compiling and hashed into every key.

Read from YAML. A field that is not known is refused, and so is one that is missing: nothing has a silent default. What
cannot vary has one allowed word, so that the file says what is enforced. The hash covers that; the header (id, author,
date) and the governance (audits, justifications of widenings) are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from tensorfarm.contract.digest import sha256_json
from tensorfarm.contract.field_errors import refuse_invalid as refuse_invalid
from tensorfarm.contract.numerics_sense import refuse_senseless
from tensorfarm.contract.yaml_file import read_yaml

FORMAT = "tensorfarm.contract/2"
NOT_ENFORCED = ("format", "contract", "governance")


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
class Dtypes:
    """Floating dtypes that the program is declared for, ``any`` where they are not limited."""

    inputs: str
    params: str
    outputs: str


@dataclass(frozen=True)
class MetadataRule:
    """Each is ``exact`` or ``ignore``. ``arity``: how many outputs there are and in which containers."""

    dtype: str
    shape: str
    requires_grad: str
    is_leaf: str
    arity: str


@dataclass(frozen=True)
class ShapeLadder:
    """``batch``: sizes of the batch axis, ascending. ``declared_dynamic``: names of axes that may vary."""

    batch: tuple[int, ...]
    declared_dynamic: tuple[str, ...]


@dataclass(frozen=True)
class NumericalContract:
    """Each field is one of the file, under the words of the schema; what each means is in ``docs/contract.md``.

    ``digits_undecidable_below``: a budget wider than 10**-digits of the value leaves nothing to decide. ``accumulate``
    is by dtype of the operands, else ``default``; ``determinism`` by op class. ``ranges`` holds the least and the
    greatest finite value of ``floating`` and ``integer`` inputs.
    """

    id: str
    version: int
    monte_carlo: MonteCarlo
    outputs: Budget
    gradients: Budget
    digits_undecidable_below: float
    dtypes: Dtypes
    accumulate: Mapping[str, str]
    reduction_order: str
    fma: bool
    tf32: bool
    subnormals: str
    nan_positions: bool
    inf_positions: bool
    signed_zero: str
    forbidden_identities: tuple[str, ...]
    integers_exact: bool
    bools_exact: bool
    index_outputs: str
    determinism: Mapping[str, str]
    batch_invariant: bool
    gradgrad: str
    forward_ad: str
    cotangents: tuple[str, ...]
    rng: str
    aliasing: str
    mutation: str
    strides: str
    layouts: tuple[str, ...]
    metadata: MetadataRule
    errors: str
    shapes: ShapeLadder
    suites: tuple[str, ...]
    exact_integer_bits: int
    ranges: Mapping[str, tuple[float, float]]
    devices: tuple[str, ...]
    hash: str


def schema() -> dict[str, Any]:
    """The JSON schema of a contract file. ``widens`` in it says which change of a field accepts more."""
    text = resources.files("tensorfarm.contract").joinpath("numerics.schema.json").read_text()
    return json.loads(text)


def read_contract(path: Path) -> NumericalContract:
    """Read a contract file. Refuses what cannot be read, has an unknown or missing field, or a value out of range."""
    return parse_contract(read_yaml(path, "contract"), str(path))


def read_contract_fields(path: Path) -> dict[str, Any]:
    """The fields of a contract file as plain JSON. Refuses what ``read_contract`` refuses."""
    return validated(read_yaml(path, "contract"), str(path))


def validated(value: Any, place: str = "contract") -> dict[str, Any]:
    """An already parsed contract as plain JSON; ``place`` names it in errors. Raises Refusal for the first fault."""
    fields = plain(value)
    refuse_senseless(fields, schema(), place)
    return fields


def parse_contract(value: Any, place: str = "contract", *, valid: str = "") -> NumericalContract:
    """Validate and freeze an already parsed contract; ``place`` names it in errors. ``valid`` is the hash of a contract
    that was validated before: one that has it is taken as it is."""
    fields = plain(value)
    proved = bool(valid) and contract_hash(fields) == valid
    if not proved:
        refuse_senseless(fields, schema(), place)
    return NumericalContract(
        id=fields["contract"]["id"],
        version=int(fields["contract"]["version"]),
        **_accuracy(fields),
        **_arithmetic(fields["numerics"]),
        **_discrete(fields),
        **_derivatives(fields["gradients"]),
        **_surroundings(fields),
        **_tried(fields),
        hash=valid if proved else contract_hash(fields),
    )


def contract_hash(fields: Mapping[str, Any]) -> str:
    """Hex sha256 of the enforced fields of a valid contract."""
    enforced = {key: item for key, item in fields.items() if key not in NOT_ENFORCED}
    return sha256_json({"format": FORMAT, "fields": _exact(enforced)})


def _accuracy(fields: Mapping[str, Any]) -> dict[str, Any]:
    oracle, budgets = fields["oracle"], fields["budgets"]
    sampling = oracle["monte_carlo"]
    return {
        "monte_carlo": MonteCarlo(int(sampling["samples"]), int(sampling["seed"])),
        "outputs": Budget(float(budgets["outputs"]["c"]), float(budgets["outputs"]["k"])),
        "gradients": Budget(float(budgets["gradients"]["c"]), float(budgets["gradients"]["k"])),
        "digits_undecidable_below": float(oracle["digits_undecidable_below"]),
    }


def _arithmetic(numerics: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "dtypes": Dtypes(**numerics["dtypes"]),
        "accumulate": dict(numerics["accumulate"]),
        "reduction_order": numerics["reduction_order"],
        "fma": numerics["contraction"]["fma"] == "allowed",
        "tf32": numerics["contraction"]["tf32"] == "allowed",
        "subnormals": numerics["subnormals"],
        "nan_positions": numerics["nan"]["positions"] == "exact",
        "inf_positions": numerics["inf"]["positions"] == "exact",
        "signed_zero": numerics["signed_zero"],
        "forbidden_identities": tuple(numerics["identities_forbidden"]),
    }


def _discrete(fields: Mapping[str, Any]) -> dict[str, Any]:
    determinism = fields["determinism"]
    return {
        "integers_exact": fields["integers"]["exact"],
        "bools_exact": fields["bools"]["exact"],
        "index_outputs": fields["index_outputs"],
        "determinism": dict(determinism["classes"]),
        "batch_invariant": determinism["batch_invariant"],
    }


def _derivatives(gradients: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "gradgrad": gradients["gradgrad"],
        "forward_ad": gradients["forward_ad"],
        "cotangents": tuple(gradients["cotangents"]),
    }


def _surroundings(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "rng": fields["rng"]["policy"],
        "aliasing": fields["aliasing"]["outputs_alias_inputs"],
        "mutation": fields["aliasing"]["input_mutation"],
        "strides": fields["layout"]["outputs"]["stride"],
        "metadata": MetadataRule(**fields["metadata"]),
        "errors": fields["errors"]["reference_raises"],
    }


def _tried(fields: Mapping[str, Any]) -> dict[str, Any]:
    shapes, inputs = fields["shapes"], fields["inputs"]
    return {
        "layouts": tuple(fields["layout"]["inputs"]),
        "shapes": ShapeLadder(tuple(int(size) for size in shapes["batch"]), tuple(shapes["declared_dynamic"])),
        "suites": tuple(inputs["suites"]),
        "exact_integer_bits": int(inputs["exact_integers"]["int_bits"]),
        "ranges": {kind: (least, most) for kind, (least, most) in inputs["ranges"].items()},
        "devices": tuple(fields["devices"]),
    }


def plain(value: Any) -> Any:
    """A parsed file as JSON has it: YAML's dates become text, the rest is plain already."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def _exact(value: Any) -> Any:
    """Numbers as exact text, so that ``4`` and ``4.0`` hash alike."""
    if isinstance(value, Mapping):
        return {str(key): _exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_exact(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    return float(value).hex() if float(value) == value else str(value)
