"""What a call should give: computed by the original and the oracle, kept in a file, read by every verdict on a program.

Invariant: nothing in it depends on a candidate, and the file is whole or absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch

from tensorfarm.contract.exchange import CallReport
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate import indexed_file, residuals
from tensorfarm.gate.indexed_file import IndexedFile
from tensorfarm.gate.observation import Observation

FORMAT = "tensorfarm.expectation/5"
_COTANGENT, _RESIDUAL = "cotangent", "residual"


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
    ``made_by`` holds, by key, the classes of the operators that the original makes a tensor with. ``unsteady`` is the
    key of an output that the original gave another value of when it was called again.
    """

    eager: Observation
    exact: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    sigma: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    cotangents: Mapping[int, torch.Tensor] = field(default_factory=dict[int, torch.Tensor])
    changed: frozenset[str] = frozenset()
    random: bool = False
    oracle_error: str = ""
    made_by: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    unsteady: str = ""

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
    """Write atomically and return the index's sha256; whoever writes the same expectations writes the same bytes."""
    tensors: dict[str, torch.Tensor] = {}
    told: dict[str, list[dict[str, object]]] = {}
    for name, calls in trials.items():
        told[name] = [
            {
                # Wall time is no part of what is expected, and equal expectations are equal bytes.
                "report": asdict(replace(call.eager.report, seconds=0.0)),
                "changed": sorted(call.changed),
                "random": call.random,
                "oracle_error": call.oracle_error,
                "made_by": {key: sorted(classes) for key, classes in call.made_by.items()},
                "unsteady": call.unsteady,
            }
            for call in calls
        ]
        for number, call in enumerate(calls):
            parts = {"eager": call.eager.tensors, **_narrowed(call)}
            parts[_COTANGENT] = {str(position): value for position, value in call.cotangents.items()}
            for part, values in parts.items():
                tensors |= {f"{name}|{number}|{part}|{key}": value for key, value in values.items()}
    return indexed_file.write(path, {"format": FORMAT, "trials": told}, tensors)


def load(
    path: Path, sha256: str, wants: Callable[[str, int], bool] = lambda name, number: True
) -> dict[str, tuple[Expectation, ...]]:
    """Read the file whose index has this sha256. Refuses any other, and bytes that the index does not tell of. Calls,
    by trial and number, that are not wanted have no tensors."""
    file = _opened(path)
    if file.sha256 != sha256:
        raise Refusal(f"the expectations in {path.name} are {file.sha256[:12]}", limit=f"{sha256[:12]} was asked for")

    def wanted(key: str) -> bool:
        name, number, _ = key.split("|", 2)
        return wants(name, int(number))

    told, parts = file.note["trials"], _by_call(file.tensors(wanted))

    def call(name: str, number: int) -> Expectation:
        about = told[name][number]
        report = about["report"]
        report["aliases"] = tuple((left, right) for left, right in report["aliases"])
        report["overwritten"] = tuple(report["overwritten"])
        return Expectation(
            eager=Observation(parts.get((name, number, "eager"), {}), CallReport(**report)),
            exact=_exact(*(parts.get((name, number, part), {}) for part in ("exact", "eager", _RESIDUAL))),
            sigma=parts.get((name, number, "sigma"), {}),
            cotangents=_by_position(parts.get((name, number, _COTANGENT), {})),
            changed=frozenset(about["changed"]),
            random=about["random"],
            oracle_error=about["oracle_error"],
            made_by={key: frozenset(classes) for key, classes in about["made_by"].items()},
            unsteady=about["unsteady"],
        )

    return {name: tuple(call(name, number) for number in range(len(calls))) for name, calls in told.items()}


def load_cotangents(path: Path) -> tuple[dict[str, tuple[Mapping[int, torch.Tensor], ...]], str]:
    """What a subject is given of the expectations, call by call, and the sha256 to ask for the rest by."""
    file = _opened(path)
    parts = _by_call(file.tensors(lambda name: name.split("|", 3)[2] == _COTANGENT))
    told = file.note["trials"].items()
    return {
        name: tuple(_by_position(parts.get((name, number, _COTANGENT), {})) for number in range(len(calls)))
        for name, calls in told
    }, file.sha256


def _narrowed(call: Expectation) -> dict[str, Mapping[str, torch.Tensor]]:
    """The oracle's tensors in as few bytes as tell them."""
    eager = call.eager.tensors
    lacking = {key: residuals.residual(eager[key], value) for key, value in call.exact.items() if key in eager}
    kept = {key: value for key, value in lacking.items() if value is not None}
    return {
        _RESIDUAL: kept,
        "exact": {key: value for key, value in call.exact.items() if key not in kept},
        "sigma": call.sigma,
    }


def _exact(
    whole: Mapping[str, torch.Tensor], eager: Mapping[str, torch.Tensor], lacking: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    return {**whole, **{key: residuals.restored(eager[key], value) for key, value in lacking.items()}}


def _opened(path: Path) -> IndexedFile:
    file = IndexedFile(path)
    if not isinstance(file.note, dict) or cast("dict[str, Any]", file.note).get("format") != FORMAT:
        raise Refusal(f"{path.name} holds no expectations", limit=FORMAT)
    return file


def _by_call(tensors: Mapping[str, torch.Tensor]) -> dict[tuple[str, int, str], dict[str, torch.Tensor]]:
    parts: dict[tuple[str, int, str], dict[str, torch.Tensor]] = {}
    for key, value in tensors.items():
        name, number, part, rest = key.split("|", 3)
        parts.setdefault((name, int(number), part), {})[rest] = value
    return parts


def _by_position(tensors: Mapping[str, torch.Tensor]) -> dict[int, torch.Tensor]:
    return {int(position): value for position, value in tensors.items()}
