"""F3, special values: where NaN, infinities, zeros of either sign and subnormal numbers stand, and ties of a rounding.

Equality of values cannot see -0, normal inputs never hold an infinity, and a budget of a few roundoffs forgives a tie
that was rounded to the wrong side. Everything here is required only where the eager original and the rounded float64
value say the same. Beyond positions, two things are:

- on wide exponents a value that is not zero, and whose limit does not reach zero, may not come as zero;
- on ties a value is required bit for bit where no noise reached it, or where it lies half-way between two numbers of
  its dtype, as do most of those that were rounded, and the original rounded the whole tensor correctly: then one
  rounding made it, and half goes to even. A few ties come by luck, among sums whose terms may be rounded apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.contract.outcome import Status
from tensorfarm.gate.agreement import Rule, as_real, mismatch
from tensorfarm.gate.checks import conditioning
from tensorfarm.gate.compared import Place, is_floating, walk, worst_of
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expected
from tensorfarm.gate.finding import Finding, inapplicable
from tensorfarm.gate.inputs import example, special_values, ties, wide_exponent
from tensorfarm.gate.planted import lost_special, made_nan, planted, turned_zero
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.special_agreement import special_agreement
from tensorfarm.gate.trial import Trial

NAME = "special_values"
FAMILY = "F3"
LEVEL = Level.QUICK
COST = 12

_NAMES = (example.NAME, *special_values.NAMES, ties.NAME, wide_exponent.NAME)


def trials(setting: Setting) -> list[Trial]:
    """The example has special values too; from the standard level on they are planted."""
    found = [example.trial(setting)]
    if setting.level >= Level.STANDARD:
        found += special_values.trials(setting)
        found += [trial for trial in conditioning.trials(setting) if trial.name in (ties.NAME, wide_exponent.NAME)]
    return found


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each floating output of each trial."""

    def compare(place: Place) -> Iterable[Finding]:
        return _of_call(place, evidence.setting.contract)

    done = walk(evidence, NAME, _NAMES, compare)
    if not done.found and done.asked > done.silent:
        return [inapplicable(NAME, f"{NAME}: no output is floating")]
    return done.settled()


def canary(evidence: Evidence) -> Evidence | None:
    """The sign of one zero if one is required, else one special value lost, else one made."""
    changes = (lost_special, made_nan)
    if evidence.setting.contract.signed_zero == "exact":
        changes = (turned_zero, *changes)
    found = (planted(evidence, _NAMES, ("output",), change) for change in changes)
    return next((item for item in found if item is not None), None)


def _of_call(place: Place, contract: NumericalContract) -> Iterator[Finding]:
    for name, expected in place.wanted.all_expected("output"):
        if not is_floating(expected):
            continue
        what, seen = place.what("output", name), place.given.tensors.get(f"output:{name}")
        if place.trial.name == example.NAME and mismatch(NAME, what, seen, expected) is not None:
            continue  # of another shape or dtype, or absent: said by forward and metadata
        finding = special_agreement(NAME, what, seen, expected, contract, contract.outputs)
        if finding.status is Status.FAIL or seen is None:
            yield finding
            continue
        given, plain = as_real(seen.detach(), expected)
        wrong = torch.zeros_like(given, dtype=torch.bool)
        if place.trial.name == wide_exponent.NAME:
            wrong = _vanished(given, plain, contract)
        elif place.trial.name == ties.NAME:
            wrong = _exactly(plain) & (given != plain.eager)
        # An element that is not special has shown that it stayed so.
        yield worst_of(NAME, what, wrong, plain.eager, given, given.numel())


def _vanished(seen: torch.Tensor, expected: Expected, contract: NumericalContract) -> torch.Tensor:
    if expected.sigma is None:
        return torch.zeros_like(seen, dtype=torch.bool)
    limit = Rule(contract.outputs, seen.dtype, subnormals=contract.subnormals).limit(expected.exact, expected.sigma)
    return (seen == 0) & (expected.eager != 0) & expected.eager.isfinite() & (expected.exact.abs() > limit)


def _exactly(expected: Expected) -> torch.Tensor:
    """Where no noise came, and where one rounding decided a tie."""
    eager, exact = expected.eager, expected.exact
    finite = eager.isfinite() & exact.isfinite()
    alike = (eager == exact.to(eager.dtype)) & finite
    quiet = torch.zeros_like(alike) if expected.sigma is None else expected.sigma == 0
    if not bool((alike | ~finite).all()):
        return alike & quiet
    step = torch.ldexp(torch.full_like(exact, torch.finfo(eager.dtype).eps), torch.frexp(eager.double()).exponent - 1)
    tied = ((exact - eager).abs() == step / 2) & (eager != 0) & finite
    if 2 * int(tied.sum()) < int(((exact != eager) & finite).sum()):
        return alike & quiet
    return alike & (quiet | tied)
