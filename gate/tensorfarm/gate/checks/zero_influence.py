"""F8, zero influence: what a program does not use changes nothing, whatever it holds.

Two kinds, neither of which needs a limit. Memory around an input, in the gaps of a strided view and before and after
it, holds NaN in one trial and zeros in its twin: everything the subject gives must be the same bit for bit. And some
elements of the inputs are poisoned, the last rows and what a mask hides: wherever the original and its float64 oracle
give the very same element as before, so must the subject.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import torch

from tensorfarm.gate.compared import Place, differing, walk, worst_of
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.finding import Finding, failed, inapplicable
from tensorfarm.gate.inputs import example, poison
from tensorfarm.gate.inputs.ladder import batch_axis, moving_together
from tensorfarm.gate.inputs.refill import copied, floats
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.planted import next_value, with_tensor
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Call, Depth, Derivative, Trial

NAME = "zero_influence"
FAMILY = "F8"
LEVEL = Level.STANDARD
COST = 50

DEAD = "poison:dead"
_KINDS = ("output", "gradient")


def trials(setting: Setting) -> list[Trial]:
    """The poisoned trials and their twins, and one whose first call is the example and whose others are poisoned."""
    found = poison.trials(setting)
    calls = [_call(setting, inputs) for inputs in poisoned_elements(setting)]
    if calls:
        first = replace(example.trial(setting).calls[0], derivative=Derivative.NONE)
        found.append(Trial(DEAD, (first, *calls), Depth.EXACT, suite="poison"))
    return found


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each output and gradient that something without influence was changed under."""
    twins = {poisoned.name: clean.name for poisoned, clean in poison.pairs(evidence.setting)}

    def compare(place: Place) -> Iterable[Finding]:
        return _dead(evidence, place) if place.trial.name == DEAD else _gaps(evidence, place, twins[place.trial.name])

    done = walk(evidence, NAME, (*twins, DEAD), compare)
    if not done.found and done.asked > done.silent:
        return [inapplicable(NAME, f"{NAME}: every element of every input that was poisoned has influence")]
    return done.settled()


def canary(evidence: Evidence) -> Evidence | None:
    """The last bit of one element that had to stay as it was."""
    for poisoned, clean in poison.pairs(evidence.setting):
        for number, _, given in evidence.pairs(poisoned.name):
            for key, other in _compared(given, _twin(evidence, clean.name, number)):
                changed = next_value(given.tensors.get(key), torch.ones(other.shape, dtype=torch.bool))
                if changed is not None:
                    return with_tensor(evidence, poisoned.name, number, key, changed)
    for number, wanted, given in evidence.pairs(DEAD):
        for key, still in _unmoved(evidence, wanted).items() if number else ():
            changed = next_value(given.tensors.get(key), still)
            if changed is not None:
                return with_tensor(evidence, DEAD, number, key, changed)
    return None


def poisoned_elements(setting: Setting) -> Iterator[dict[str, torch.Tensor]]:
    """Inputs in which some elements hold NaN, or at the full level a huge number: the last of the first axis, the last
    of the second, and where a leaf of zeros and ones that fits is zero, or one."""
    fillings = (torch.nan, poison.HUGE) if setting.level is Level.FULL else (torch.nan,)
    floating = floats(setting)
    chosen: list[dict[str, torch.Tensor]] = []
    for axis, names in ((0, list(batch_axis(setting))), (1, moving_together(setting, 1))):
        where = {name: _last(floating[name], axis) for name in names if name in floating}
        chosen.append({name: mask for name, mask in where.items() if bool(mask.any()) and not bool(mask.all())})
    for leaf, mask in _masks(setting):
        fitting = [name for name, value in floating.items() if value.shape[: mask.dim()] == mask.shape and name != leaf]
        for hidden in (~mask, mask):
            chosen.append({name: _spread(hidden, floating[name]) for name in fitting})
    for where in chosen:
        for filling in fillings if where else ():
            yield _filled(setting, where, filling)


def _call(setting: Setting, inputs: Mapping[str, torch.Tensor]) -> Call:
    return Call(inputs, seed=setting.seed)


def _filled(setting: Setting, where: Mapping[str, torch.Tensor], filling: float) -> dict[str, torch.Tensor]:
    inputs = copied(setting)
    for name, mask in where.items():
        value = inputs[name].detach()
        bounded = filling if filling != filling else min(filling, torch.finfo(value.dtype).max)
        inputs[name] = torch.where(mask, torch.full_like(value, bounded), value).requires_grad_(
            inputs[name].requires_grad
        )
    return inputs


def _last(value: torch.Tensor, axis: int) -> torch.Tensor:
    mask = torch.zeros(value.shape, dtype=torch.bool)
    if value.dim() > axis and value.shape[axis] > 1:
        mask.select(axis, value.shape[axis] - 1).fill_(True)
    return mask


def _masks(setting: Setting) -> Iterator[tuple[str, torch.Tensor]]:
    """Leaves that hold zeros and ones, and both."""
    for name, value in setting.tensors.items():
        if value.numel() > 1 and not value.is_complex() and bool(((value == 0) | (value == 1)).all()):
            mask = value.detach() == 1
            if bool(mask.any()) and not bool(mask.all()):
                yield name, mask


def _spread(mask: torch.Tensor, over: torch.Tensor) -> torch.Tensor:
    return mask.reshape(*mask.shape, *[1] * (over.dim() - mask.dim())).expand(over.shape)


def _gaps(evidence: Evidence, place: Place, clean: str) -> Iterator[Finding]:
    twin = _twin(evidence, clean, place.number)
    for key, other in _compared(place.given, twin):
        kind, _, name = key.partition(":")
        what = f"{place.what(kind, name)} in {place.trial.name}"
        seen = place.given.tensors.get(key)
        if seen is None or seen.shape != other.shape or seen.dtype != other.dtype:
            yield failed(NAME, what, "it is there, or of its shape, only when the memory around the inputs holds zeros")
        else:
            yield worst_of(NAME, what, differing(seen, other), other, seen, other.numel())


def _twin(evidence: Evidence, clean: str, number: int) -> Observation | None:
    calls = evidence.ran(clean)
    return calls[number] if number < len(calls) and not calls[number].report.error else None


def _compared(given: Observation, twin: Observation | None) -> Iterator[tuple[str, torch.Tensor]]:
    if twin is None or given.report.error:
        return
    for kind in _KINDS:
        for name, other in twin.named(kind).items():
            yield f"{kind}:{name}", other


def _dead(evidence: Evidence, place: Place) -> Iterator[Finding]:
    if not place.number:
        return
    before = evidence.ran(DEAD)[0]
    for key, still in _unmoved(evidence, place.wanted).items():
        seen, other = place.given.tensors.get(key), before.tensors.get(key)
        what = place.what("output", key.removeprefix("output:"))
        if seen is None or other is None or seen.shape != still.shape or other.shape != still.shape:
            continue  # the forward family and the error family fail what is not there
        yield worst_of(NAME, what, differing(seen, other) & still, other, seen, int(still.sum()))


def _unmoved(evidence: Evidence, wanted: Expectation) -> dict[str, torch.Tensor]:
    """Where the original and the oracle give the same as in the first call, of outputs that have such elements."""
    first = evidence.expected[DEAD][0]
    found: dict[str, torch.Tensor] = {}
    if first.eager.report.error or evidence.ran(DEAD)[0].report.error:
        return found
    for name, expected in wanted.all_expected("output"):
        key, before = f"output:{name}", first.expected(f"output:{name}")
        if before is None or before.eager.shape != expected.eager.shape or expected.eager.is_complex():
            continue
        still = ~differing(before.eager, expected.eager) & ~differing(before.exact, expected.exact)
        if bool(still.any()):
            found[key] = still
    return found
