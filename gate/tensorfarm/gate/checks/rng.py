"""F20, random numbers: programs that draw them are compared by their stream, their statistics, and with themselves.

Under ``same_stream_as_reference`` the same seed gives the original's values, and the generator ends where the
original's ends. Under ``seeded_own_stream`` as many elements are kept, those that are kept hold the original's values,
and sizes agree within six sigma. Under both the same seed gives the same values, another seed others, and a backward
pass uses the mask of its forward pass. Whatever the original does not do itself is not asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import mean, stdev

import torch

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.checks import determinism
from tensorfarm.gate.compared import differing, identical, worst_of
from tensorfarm.gate.copies import snapshot
from tensorfarm.gate.devices import main_device
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.finding import Finding, failed, inapplicable, not_run, passed
from tensorfarm.gate.inputs import example
from tensorfarm.gate.nearness import near
from tensorfarm.gate.observation import Observation, spoken
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.stream import KINDS, SAME_STREAM, near_all, same_stream, size_of
from tensorfarm.gate.trial import Depth, Trial

NAME, FAMILY, LEVEL, COST = "rng", "F20", Level.QUICK, 45
SEEDS = "seeds"
_SIGMAS = 6.0
_MANY_SEEDS = 8
_OTHER_NUMBERS = (
    "it draws other random numbers than the original, which this contract does not allow: judge the program in eval(), "
    "set torch._inductor.config.fallback_random, or declare rng.policy seeded_own_stream in the contract"
)
Pairs = Sequence[tuple[Expectation, Observation]]


def trials(setting: Setting) -> list[Trial]:
    """The example; from the standard level on with one seed twice and with another, at the full level with eight more,
    for the moments."""
    found = [example.trial(setting)]
    if setting.level >= Level.STANDARD:
        found.append(determinism.repeated(setting))
    if setting.level is Level.FULL:
        seeds = range(setting.seed + 2, setting.seed + 2 + _MANY_SEEDS)
        calls = tuple(replace(example.trial(setting).calls[0], seed=seed) for seed in seeds)
        found.append(Trial(SEEDS, calls, Depth.EAGER))
    return found


def check(evidence: Evidence) -> list[Finding]:
    pairs = [(wanted, given) for _, wanted, given in evidence.pairs(_compared(evidence))]
    if _compared(evidence) == determinism.REPEAT:
        # The example is the first of two calls with one seed, in a subject of its own.
        first = [(wanted, given) for _, wanted, given in evidence.pairs(example.NAME)][:1]
        pairs = [*first, *reversed(pairs)]
    pairs = [(wanted, given) for wanted, given in pairs if not (wanted.eager.report.error or given.report.error)]
    if not any(wanted.random for wanted, _ in pairs):
        return [inapplicable(NAME, "rng: the original draws no random numbers")]
    contract, several = evidence.setting.contract, _compared(evidence) == determinism.REPEAT
    if contract.rng == SAME_STREAM and not same_stream(contract):
        fact = f"rng: {main_device(contract)} has a generator of its own"
        return [not_run(NAME, "stream", fact, "declare rng.policy seeded_own_stream there")]
    if several and len(pairs) < 3:
        return [Finding(NAME, determinism.REPEAT, Status.NOT_RUN, "repeat: the subject did not get that far")]
    found = list(_mask_reused(pairs))
    if several:
        found += [*_same_seed(pairs), *_other_seed(pairs)]
    if same_stream(contract):
        found += _same_stream(pairs)
    elif several:
        found += [*_kept(pairs), *_moments(evidence)]
    else:
        fact = "rng: a stream of its own takes several calls to judge"
        found.append(not_run(NAME, "own stream", fact, "examine it at the level standard"))
    return found or [inapplicable(NAME, "rng: no output or gradient hangs on what is drawn")]


def canary(evidence: Evidence) -> Evidence | None:
    """A second call with the same seed that draws anew: its values are those of the call with another seed. Of one call
    alone: a generator that ends elsewhere."""
    if _compared(evidence) == example.NAME:
        return _elsewhere(evidence)
    calls = list(evidence.pairs(determinism.REPEAT))
    if len(calls) < 2 or any(wanted.eager.report.error or given.report.error for _, wanted, given in calls):
        return None
    other, again = calls[0][2], calls[1][2]
    tensors = snapshot(again.tensors) | {
        key: value for key, value in other.tensors.items() if key.partition(":")[0] in KINDS
    }
    return evidence.with_seen(determinism.REPEAT, 1, replace(again, tensors=tensors))


def _compared(evidence: Evidence) -> str:
    return determinism.REPEAT if determinism.REPEAT in evidence.trials else example.NAME


def _elsewhere(evidence: Evidence) -> Evidence | None:
    if not same_stream(evidence.setting.contract):
        return None
    for number, _, given in evidence.pairs(example.NAME):
        report = replace(given.report, stream="planted")
        return evidence.with_seen(example.NAME, number, replace(given, report=report))
    return None


def _same_seed(pairs: Pairs) -> Iterator[Finding]:
    (wanted, given), (wanted_again, given_again) = pairs[:2]
    for key in _keys(wanted.eager):
        eager, eager_again = wanted.eager.tensors[key], wanted_again.eager.tensors.get(key)
        if not identical(eager, eager_again):
            continue
        what = f"{spoken(key)} with the same seed"
        first, again = given.tensors.get(key), given_again.tensors.get(key)
        if first is None or again is None or first.shape != again.shape or first.dtype != again.dtype:
            yield failed(NAME, what, "it is there in one call alone, or of another shape")
        else:
            yield worst_of(NAME, what, differing(first, again), first, again, first.numel())


def _other_seed(pairs: Pairs) -> Iterator[Finding]:
    """Masks of two calls are distinct where the original's are."""
    if len(pairs) < 3:
        return
    (wanted, given), (wanted_other, given_other) = pairs[0], pairs[2]
    for key in _keys(wanted.eager):
        eager, other = wanted.eager.tensors[key], wanted_other.eager.tensors.get(key)
        first, second = given.tensors.get(key), given_other.tensors.get(key)
        if other is None or first is None or second is None or identical(eager, other):
            continue
        what = f"{spoken(key)} with another seed"
        if identical(first, second):
            yield failed(NAME, what, "it is the same bit for bit, the original's is another")
        else:
            yield passed(NAME, what, first.numel())


def _mask_reused(pairs: Pairs) -> Iterator[Finding]:
    """A gradient is zero exactly where an output is zero, for each such pair of the original's."""
    for number, (wanted, given) in enumerate(pairs):
        outputs, gradients = wanted.eager.named("output"), wanted.eager.named("gradient")
        for position, output in outputs.items():
            for name, gradient in gradients.items():
                if not _masked_alike(output, gradient):
                    continue
                seen, back = given.tensors.get(f"output:{position}"), given.tensors.get(f"gradient:{name}")
                if seen is None or back is None or seen.shape != back.shape:
                    continue
                what = f"mask of output {position} in gradient {name}, call {number + 1}"
                count = int(((seen == 0) != (back == 0)).sum())
                message = f"{count} of {seen.numel()} elements are zero in one of the two alone"
                yield failed(NAME, what, message) if count else passed(NAME, what, seen.numel())


def _masked_alike(output: torch.Tensor, gradient: torch.Tensor) -> bool:
    if output.shape != gradient.shape or not output.is_floating_point():
        return False
    zero = output == 0
    return bool(zero.any()) and not bool(zero.all()) and torch.equal(zero, gradient == 0)


def _same_stream(pairs: Pairs) -> Iterator[Finding]:
    for number, (wanted, given) in enumerate(pairs):
        what = f"stream after call {number + 1}"
        if wanted.eager.report.stream == given.report.stream:
            yield passed(NAME, what, 1)
        else:
            moved = failed(NAME, what, "the generator is not where the original leaves it")
            yield replace(moved, next_step=_OTHER_NUMBERS)
        yield from near_all(NAME, f"call {number + 1}", wanted, given)


def _kept(pairs: Pairs) -> Iterator[Finding]:
    """Outputs that are masked element by element: how many are kept, and the exact value of those."""
    if len(pairs) < 3:
        return
    (wanted, given), (wanted_other, _) = pairs[0], pairs[2]
    for position, eager in wanted.eager.named("output").items():
        other, seen = wanted_other.eager.tensors.get(f"output:{position}"), given.tensors.get(f"output:{position}")
        if other is None or seen is None or seen.shape != eager.shape or not _elementwise(eager, other):
            continue
        known = torch.where(eager != 0, eager, other)
        kept = (seen != 0) & (known != 0)
        values = torch.where(kept, seen, known)
        yield near(NAME, f"scale of output {position}", values, known)
        yield _keep_rate(f"keep rate of output {position}", eager != 0, other != 0, seen != 0)


def _elementwise(eager: torch.Tensor, other: torch.Tensor) -> bool:
    """Where both of the original's calls keep an element they hold the same value, and some they do not keep."""
    both = (eager != 0) & (other != 0)
    masks_differ = bool(((eager != 0) != (other != 0)).any())
    return eager.is_floating_point() and masks_differ and torch.equal(eager[both], other[both])


def _keep_rate(what: str, first: torch.Tensor, second: torch.Tensor, seen: torch.Tensor) -> Finding:
    """Binomial: the rate is estimated from the original's two masks, so the difference has the variance of both."""
    count = seen.numel()
    rate, found = float((first.double() + second.double()).mean()) / 2, float(seen.double().mean())
    sigma = math.sqrt(max(rate * (1 - rate), 1.0 / count) * (1 / count + 1 / (2 * count)))
    if abs(found - rate) <= _SIGMAS * sigma:
        return passed(NAME, what, count)
    return failed(NAME, what, f"{found:.6g} of the elements are kept, the original keeps {rate:.6g}")


def _moments(evidence: Evidence) -> Iterator[Finding]:
    """The size of each output over many seeds, where its spread from seed to seed is known from the original."""
    pairs = [(wanted, given) for _, wanted, given in evidence.pairs(SEEDS)]
    if len(pairs) < _MANY_SEEDS or any(wanted.eager.report.error or given.report.error for wanted, given in pairs):
        return
    for key in _keys(pairs[0][0].eager):
        wanted = [size_of(pair[0].eager.tensors[key]) for pair in pairs]
        given = [size_of(pair[1].tensors[key]) for pair in pairs if key in pair[1].tensors]
        if len(given) < len(wanted) or not all(map(math.isfinite, wanted)):
            continue
        own_spread = stdev(given) if all(map(math.isfinite, given)) else 0.0
        spread = math.sqrt((stdev(wanted) ** 2 + own_spread**2) / _MANY_SEEDS)
        limit = _SIGMAS * spread + math.sqrt(torch.finfo(torch.float32).eps) * mean(wanted)
        if abs(mean(given) - mean(wanted)) <= limit:
            yield passed(NAME, f"size of {spoken(key)}", len(given))
        else:
            told = f"its mean size over {len(given)} seeds is {mean(given):.6g}, the original's {mean(wanted):.6g}"
            yield failed(NAME, f"size of {spoken(key)}", told)


def _keys(eager: Observation) -> list[str]:
    return [key for key in eager.tensors if key.partition(":")[0] in KINDS]
