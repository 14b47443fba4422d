"""What a call should give: computed by the original and the oracle, kept in a file, read by every verdict on a program.

Invariant: nothing in it depends on a candidate, and the file is whole or absent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch

from tensorfarm.contract.bundle import Bundle, pack
from tensorfarm.contract.digest import canonical_json
from tensorfarm.contract.exchange import CallReport
from tensorfarm.contract.program import read_member
from tensorfarm.contract.tensors import write_tensors
from tensorfarm.gate.observation import Observation

FORMAT = "tensorfarm.expectation/2"


@dataclass(frozen=True)
class Expected:
    """One tensor. ``eager`` is what the original gave in its own dtype and strides, ``exact`` the oracle's value.

    ``sigma`` is the spread of the perturbed runs, per element, None where none was asked for. That of a complex tensor
    is for ``view_as_real`` of it; that of integers and booleans is non-zero where a perturbed run gave another value.
    """

    eager: torch.Tensor
    exact: torch.Tensor
    sigma: torch.Tensor | None = None


@dataclass(frozen=True)
class Expectation:
    """``eager`` is the original's call, ``exact`` and ``sigma`` the oracle's tensors by the same keys, empty where the
    trial asks for less or the oracle raised (``oracle_error``).

    ``cotangents`` are those of the call by output position. ``changed`` are the keys (``input:x``, ``buffer:b``) that
    the original writes to. ``random`` says that it drew random numbers: then values cannot be compared one by one.
    """

    eager: Observation
    exact: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    sigma: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    cotangents: Mapping[int, torch.Tensor] = field(default_factory=dict[int, torch.Tensor])
    changed: frozenset[str] = frozenset()
    random: bool = False
    oracle_error: str = ""

    def expected(self, key: str) -> Expected | None:
        """One tensor; None where the original or the oracle gives none under this key."""
        if key not in self.eager.tensors or key not in self.exact:
            return None
        return Expected(self.eager.tensors[key], self.exact[key], self.sigma.get(key))

    def all_expected(self, kind: str) -> Iterator[tuple[str, Expected]]:
        """Every tensor of a kind (``output``, ``gradient`` …) that the oracle has a value of, by name."""
        for name in self.eager.named(kind):
            found = self.expected(f"{kind}:{name}")
            if found is not None:
                yield name, found


def save(path: Path, trials: Mapping[str, tuple[Expectation, ...]]) -> str:
    """Write atomically and return the sha256; whoever writes the same expectations writes the same bytes."""
    tensors: dict[str, torch.Tensor] = {}
    header: dict[str, list[dict[str, object]]] = {}
    for name, calls in trials.items():
        header[name] = [
            {
                # Wall time is no part of what is expected, and equal expectations are equal bytes.
                "report": asdict(replace(call.eager.report, seconds=0.0)),
                "changed": sorted(call.changed),
                "random": call.random,
                "oracle_error": call.oracle_error,
            }
            for call in calls
        ]
        for number, call in enumerate(calls):
            parts = {"eager": call.eager.tensors, "exact": call.exact, "sigma": call.sigma}
            parts["cotangent"] = {str(position): value for position, value in call.cotangents.items()}
            for part, values in parts.items():
                tensors |= {f"{name}|{number}|{part}|{key}": value for key, value in values.items()}
    scratch = path.with_name(f"{path.name}.{os.getpid()}.tensors")
    write_tensors(scratch, tensors)
    try:
        text = canonical_json({"format": FORMAT, "trials": header}).encode()
        return pack(path, {"expectation.json": text, "values.tensors": scratch})
    finally:
        scratch.unlink()


def load(path: Path, sha256: str) -> dict[str, tuple[Expectation, ...]]:
    """Read the bytes with this sha256. Refuses any other."""
    bundle = Bundle(path, sha256)
    header = json.loads(bundle.read("expectation.json"))["trials"]
    parts: dict[tuple[str, int, str], dict[str, torch.Tensor]] = {}
    for key, value in read_member(bundle, "values.tensors").items():
        name, number, part, rest = key.split("|", 3)
        parts.setdefault((name, int(number), part), {})[rest] = value

    def call(name: str, number: int) -> Expectation:
        told = header[name][number]
        report = told["report"]
        report["aliases"] = tuple((left, right) for left, right in report["aliases"])
        cotangents = parts.get((name, number, "cotangent"), {})
        return Expectation(
            eager=Observation(parts.get((name, number, "eager"), {}), CallReport(**report)),
            exact=parts.get((name, number, "exact"), {}),
            sigma=parts.get((name, number, "sigma"), {}),
            cotangents={int(position): value for position, value in cotangents.items()},
            changed=frozenset(told["changed"]),
            random=told["random"],
            oracle_error=told["oracle_error"],
        )

    return {name: tuple(call(name, number) for number in range(len(calls))) for name, calls in header.items()}
