"""What a program should give: computed once by the oracle, kept in a file, read by every verdict on that program.

Invariant: nothing in it depends on a candidate, and the file is whole or absent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract.bundle import Bundle, pack
from tensorfarm.contract.digest import canonical_json
from tensorfarm.contract.program import read_member
from tensorfarm.contract.tensors import write_tensors

FORMAT = "tensorfarm.expectation/1"


@dataclass(frozen=True)
class Expected:
    """One tensor. ``eager`` is what the original gave in its own dtype and strides, ``exact`` the oracle's value.

    ``sigma`` is the spread of the perturbed runs, per element; None for integers and booleans. That of a complex tensor
    is for ``view_as_real`` of it.
    """

    eager: torch.Tensor
    exact: torch.Tensor
    sigma: torch.Tensor | None
    requires_grad: bool = False


@dataclass(frozen=True)
class Expectation:
    """``outputs`` by position (a literal where the program returns no tensor there); a gradient is None where the
    reference has none. ``inputs`` and ``buffers`` hold only those that the reference writes to, buffers by qualified
    name. ``random`` says that the original drew random numbers: then values cannot be compared one by one.
    """

    outputs: tuple[Expected | Any, ...]
    gradients: Mapping[str, Expected | None]
    inputs: Mapping[str, Expected]
    buffers: Mapping[str, Expected]
    cotangents: Mapping[int, torch.Tensor]
    random: bool = False

    def save(self, path: Path) -> str:
        """Write atomically and return the sha256; whoever writes the same expectation writes the same bytes."""
        tensors: dict[str, torch.Tensor] = {}
        header = {
            "format": FORMAT,
            "outputs": [
                _stored(f"output:{position}", value, tensors) if isinstance(value, Expected) else {"literal": value}
                for position, value in enumerate(self.outputs)
            ],
            "gradients": _stored_all("gradient", self.gradients, tensors),
            "inputs": _stored_all("input", self.inputs, tensors),
            "buffers": _stored_all("buffer", self.buffers, tensors),
            "cotangents": list(self.cotangents),
            "random": self.random,
        }
        tensors |= {f"cotangent:{position}": value for position, value in self.cotangents.items()}
        scratch = path.with_name(f"{path.name}.{os.getpid()}.tensors")
        write_tensors(scratch, tensors)
        try:
            return pack(path, {"expectation.json": canonical_json(header).encode(), "values.tensors": scratch})
        finally:
            scratch.unlink()

    @staticmethod
    def load(path: Path, sha256: str) -> Expectation:
        """Read the bytes with this sha256. Refuses any other."""
        bundle = Bundle(path, sha256)
        header = json.loads(bundle.read("expectation.json"))
        tensors = read_member(bundle, "values.tensors")
        return Expectation(
            outputs=tuple(
                item["literal"] if "literal" in item else _loaded(item, tensors) for item in header["outputs"]
            ),
            gradients={name: _loaded(item, tensors) if item else None for name, item in header["gradients"].items()},
            inputs={name: _loaded(item, tensors) for name, item in header["inputs"].items()},
            buffers={name: _loaded(item, tensors) for name, item in header["buffers"].items()},
            cotangents={position: tensors[f"cotangent:{position}"] for position in header["cotangents"]},
            random=header["random"],
        )


def _stored_all(
    kind: str, values: Mapping[str, Expected | None] | Mapping[str, Expected], tensors: dict[str, torch.Tensor]
) -> dict[str, Any]:
    return {
        name: None if value is None else _stored(f"{kind}:{name}", value, tensors) for name, value in values.items()
    }


def _stored(key: str, value: Expected, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    tensors[f"eager:{key}"], tensors[f"exact:{key}"] = value.eager, value.exact
    if value.sigma is not None:
        tensors[f"sigma:{key}"] = value.sigma
    return {"key": key, "requires_grad": value.requires_grad}


def _loaded(item: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Expected:
    key = item["key"]
    return Expected(
        tensors[f"eager:{key}"], tensors[f"exact:{key}"], tensors.get(f"sigma:{key}"), item["requires_grad"]
    )
