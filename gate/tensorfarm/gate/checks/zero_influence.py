"""F8, zero influence: what a program does not use changes nothing, whatever it holds.

Two kinds, neither of which needs a limit. Memory around an input, in the gaps of a strided view and before and after
it, holds NaN: no NaN may come of it, and where the strides are the example's everything must be as in the example bit
for bit. At the full level the same memory holds zeros and huge numbers too, and all must be alike. And some elements of
the inputs are poisoned, the last rows and what a mask hides: wherever the original and its float64 oracle give the very
same element as for the example, so must the subject.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from tensorfarm.gate.compared import Place, differing, identical, walk, worst_of
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.finding import Finding, failed, inapplicable
from tensorfarm.gate.inputs import dead_elements, example, layouts, poison
from tensorfarm.gate.inputs.refill import floats
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.planted import made_nan, next_value, planted, with_tensor
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Trial

NAME = "zero_influence"
FAMILY = "F8"
LEVEL = Level.STANDARD
COST = 50

_SURROUNDED = (layouts.OFFSET, layouts.GAPS)
_KINDS = ("output", "gradient")


def trials(setting: Setting) -> list[Trial]:
    """The poisoned trials and their twins, the example among them, and one whose every call is poisoned."""
    surrounded = [layouts.trial(setting, layout) for layout in _SURROUNDED] if _is_lean(setting) else []
    asked = [*poison.trials(setting), *surrounded, dead_elements.trial(setting)]
    return [example.trial(setting), *(trial for trial in asked if trial is not None)]


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each output and gradient that something without influence was changed under."""
    twins, surrounded = _twins(evidence), _surrounded(evidence)

    def compare(place: Place) -> Iterable[Finding]:
        name = place.trial.name
        if name == dead_elements.NAME:
            return _dead(evidence, place)
        return [
            *(_gaps(evidence, place, twins[name]) if name in twins else ()),
            *(_leaks(place) if name in surrounded else ()),
        ]

    done = walk(evidence, NAME, dict.fromkeys((*twins, *surrounded, dead_elements.NAME)), compare)
    if not done.found and done.asked > done.silent:
        return [inapplicable(NAME, f"{NAME}: every element of every input that was poisoned has influence")]
    return done.settled()


def canary(evidence: Evidence) -> Evidence | None:
    """The last bit of one element that had to stay as it was; else a NaN that was no influence's."""
    for poisoned, clean in _twins(evidence).items():
        for number, _, given in evidence.pairs(poisoned):
            for key, other in _compared(evidence, poisoned, given, clean, number):
                changed = next_value(given.tensors.get(key), torch.ones(other.shape, dtype=torch.bool))
                if changed is not None:
                    return with_tensor(evidence, poisoned, number, key, changed)
    for number, wanted, given in evidence.pairs(dead_elements.NAME):
        for key, still in _unmoved(evidence, wanted).items():
            changed = next_value(given.tensors.get(key), still)
            if changed is not None:
                return with_tensor(evidence, dead_elements.NAME, number, key, changed)
    return planted(evidence, _surrounded(evidence), _KINDS, made_nan)


def _is_lean(setting: Setting) -> bool:
    """Whether the layouts' memory has to do, which holds NaN around floating inputs."""
    return setting.level < Level.FULL and bool(floats(setting))


def _surrounded(evidence: Evidence) -> list[str]:
    names = map(layouts.name_of, _SURROUNDED)
    return [name for name in names if name in evidence.trials] if _is_lean(evidence.setting) else []


def _twins(evidence: Evidence) -> dict[str, str]:
    """By poisoned trial, the one that it has to be like. The example where no stride of an input is another one."""
    setting, moved = evidence.setting, layouts.name_of(layouts.OFFSET)
    if setting.level is Level.FULL:
        return {poisoned.name: clean.name for poisoned, clean in poison.pairs(setting)}
    if moved not in _surrounded(evidence):
        return {}
    given = evidence.trials[moved].calls[0].inputs
    alike = all(given[name].stride() == value.stride() for name, value in setting.tensors.items())
    return {moved: example.NAME} if alike else {}


def _gaps(evidence: Evidence, place: Place, clean: str) -> Iterator[Finding]:
    for key, other in _compared(evidence, place.trial.name, place.given, clean, place.number):
        kind, _, name = key.partition(":")
        what = f"{place.what(kind, name)} in {place.trial.name}"
        seen = place.given.tensors.get(key)
        if seen is None or seen.shape != other.shape or seen.dtype != other.dtype:
            yield failed(NAME, what, "it is there, or of its shape, only where the memory around the inputs is clean")
        else:
            yield worst_of(NAME, what, differing(seen, other), other, seen, other.numel())


def _twin(evidence: Evidence, clean: str, number: int) -> Observation | None:
    calls = evidence.ran(clean)
    return calls[number] if number < len(calls) and not calls[number].report.error else None


def _compared(
    evidence: Evidence, poisoned: str, given: Observation, clean: str, number: int
) -> Iterator[tuple[str, torch.Tensor]]:
    """What the twin gave, by key. The example, which other inputs of the user's may stand for, is a twin as far as the
    original says so, and its gradients are by another cotangent."""
    twin = _twin(evidence, clean, number)
    if twin is None or given.report.error:
        return
    for kind in _KINDS if clean != example.NAME else ("output",):
        for name, other in twin.named(kind).items():
            key = f"{kind}:{name}"
            eager = [evidence.expected[trial][number].eager.tensors.get(key) for trial in (poisoned, clean)]
            if clean != example.NAME or identical(*eager):
                yield key, other


def _leaks(place: Place) -> Iterator[Finding]:
    """What is not finite although the original's is, in memory that holds NaN."""
    for kind in _KINDS:
        for name, eager in place.wanted.eager.named(kind).items():
            seen = place.given.tensors.get(f"{kind}:{name}")
            if seen is None or (seen.shape, seen.dtype) != (eager.shape, eager.dtype) or not eager.is_floating_point():
                continue  # that it is another one is for the layouts to say
            what = f"{place.what(kind, name)} in {place.trial.name}"
            yield worst_of(NAME, what, ~seen.isfinite() & eager.isfinite(), eager, seen, eager.numel())


def _dead(evidence: Evidence, place: Place) -> Iterator[Finding]:
    before = _twin(evidence, example.NAME, 0)
    if before is None:
        return
    for key, still in _unmoved(evidence, place.wanted).items():
        seen, other = place.given.tensors.get(key), before.tensors.get(key)
        what = place.what("output", key.removeprefix("output:"))
        if seen is None or other is None or seen.shape != still.shape or other.shape != still.shape:
            continue  # the forward family and the error family fail what is not there
        yield worst_of(NAME, what, differing(seen, other) & still, other, seen, int(still.sum()))


def _unmoved(evidence: Evidence, wanted: Expectation) -> dict[str, torch.Tensor]:
    """Where the original and the oracle give the same as for the example, of outputs that have such elements."""
    first = evidence.expected[example.NAME][0]
    found: dict[str, torch.Tensor] = {}
    if first.eager.report.error:
        return found
    for name, expected in wanted.all_expected("output"):
        key, before = f"output:{name}", first.expected(f"output:{name}")
        if before is None or before.eager.shape != expected.eager.shape or expected.eager.is_complex():
            continue
        still = ~differing(before.eager, expected.eager) & ~differing(before.exact, expected.exact)
        if bool(still.any()):
            found[key] = still
    return found
