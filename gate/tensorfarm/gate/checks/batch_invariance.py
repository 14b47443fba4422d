"""F15, batch invariance: a row's result is the same, bit for bit, in every batch that the row stands in.

Asked only where the contract declares it. Which rows it holds of is the original's say: those that the float64 oracle
gives alike in both batches. A program that mixes rows has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch

from tensorfarm.gate.checks import ladder
from tensorfarm.gate.compared import Place, differing, walk, worst_of
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding, inapplicable
from tensorfarm.gate.inputs import batches
from tensorfarm.gate.inputs.ladder import name_of, sizes
from tensorfarm.gate.planted import next_value, with_tensor
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Depth, Trial

NAME = "batch_invariance"
FAMILY = "F15"
LEVEL = Level.STANDARD
COST = 85

# Two float64 runs of one row differ by their own order of summation.
_ALIKE = 1e-9


def trials(setting: Setting) -> list[Trial]:
    """The ladder's, as its own family calls them, and some rows alone, called like those."""
    if not setting.contract.batch_invariant:
        return []
    laddered = {trial.name: trial for trial in ladder.trials(setting)}
    if not laddered:
        return []
    derivative = next(iter(laddered.values())).calls[0].derivative
    found: list[Trial] = []
    for trial in batches.trials(setting):
        alone = replace(trial, calls=tuple(replace(call, derivative=derivative) for call in trial.calls))
        found.append(laddered.get(trial.name, replace(alone, depth=Depth.EXACT)))
    return found


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each output of each batch whose rows stand in the largest batch too."""
    if not evidence.setting.contract.batch_invariant:
        return [inapplicable(NAME, f"{NAME}: the contract declares none")]

    def compare(place: Place) -> Iterable[Finding]:
        return _rows(evidence, place)

    done = walk(evidence, NAME, _names(evidence), compare)
    if not done.found and done.asked > done.silent:
        return [inapplicable(NAME, f"{NAME}: no row of an output is the same in two batches of the original")]
    return done.settled()


def canary(evidence: Evidence) -> Evidence | None:
    """The last bit of one element of one row."""
    for name in _names(evidence):
        for number, wanted, given in evidence.pairs(name):
            for key, _, alike in _alike_rows(evidence, name, Place(evidence.trials[name], number, wanted, given)):
                where = torch.zeros(wanted.eager.tensors[key].shape, dtype=torch.bool)
                for at in alike.values():
                    where[at] = True
                changed = next_value(given.tensors.get(key), where)
                if changed is not None:
                    return with_tensor(evidence, name, number, key, changed)
    return None


def _names(evidence: Evidence) -> list[str]:
    largest = _largest(evidence.setting)
    return [name for name in batches.places(evidence.setting) if name in evidence.trials and name != largest]


def _largest(setting: Setting) -> str:
    return name_of(max(sizes(setting), default=0))


def _rows(evidence: Evidence, place: Place) -> Iterator[Finding]:
    for key, whole, alike in _alike_rows(evidence, place.trial.name, place):
        seen, what = place.given.tensors.get(key), f"{place.what('output', key.removeprefix('output:'))}"
        if seen is None or seen.shape[1:] != whole.shape[1:] or seen.dtype != whole.dtype:
            continue  # the ladder family fails what is not of the original's shape
        rows, others = list(alike.values()), list(alike)
        expected, given = whole[others], seen[rows]
        finding = worst_of(NAME, what, differing(given, expected), expected, given, expected.numel())
        yield replace(finding, what=f"{what} in {place.trial.name}")


def _alike_rows(evidence: Evidence, name: str, place: Place) -> Iterator[tuple[str, torch.Tensor, dict[int, int]]]:
    """Outputs by key, as the subject gave them in the largest batch, with the rows to compare: there, and here."""
    largest = _largest(evidence.setting)
    whole = next(iter(evidence.pairs(largest)), None)
    if whole is None or whole[1].eager.report.error or whole[2].report.error:
        return
    placed = batches.places(evidence.setting)[name]
    for position, expected in place.wanted.all_expected("output"):
        key = f"output:{position}"
        there, seen = whole[1].exact.get(key), whole[2].tensors.get(key)
        here = expected.exact
        if there is None or seen is None or not here.dim() or here.shape[1:] != there.shape[1:]:
            continue
        if seen.shape != there.shape or here.shape[0] != len(placed) or there.shape[0] <= max(placed):
            continue
        alike = {row: at for row, at in placed.items() if _same_row(there[row], here[at])}
        if alike:
            yield key, seen, alike


def _same_row(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.allclose(left.double(), right.double(), rtol=_ALIKE, atol=0.0, equal_nan=True)
