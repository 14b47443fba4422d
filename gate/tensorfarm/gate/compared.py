"""What the value families share: a walk over the calls of trials, and the comparison of every tensor of a kind.

Invariant: a family that compared nothing says so. Calls that raised are the error family's business and are passed
over; what a made-up input leaves undecidable is said and keeps nothing from being admitted, since the program's owner
did not choose that input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median

import torch

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.agreement import agreement, index_of, place_of, root_mean_square
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation, Expected
from tensorfarm.gate.finding import Finding, drawn, failed, inapplicable, not_run, passed
from tensorfarm.gate.inputs import example
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.planted import budget_of
from tensorfarm.gate.trial import MAIN, Depth, Session, Trial

WORDS: Mapping[str, str] = {
    "output": "output",
    "gradient": "gradient",
    "second": "gradient of gradients",
    "tangent": "tangent",
}
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_NEXT_STEP = "give example inputs whose outputs are not empty"


@dataclass(frozen=True)
class Place:
    """Where a comparison is: a call of a trial, with what was expected of it and what came."""

    trial: Trial
    number: int
    wanted: Expectation
    given: Observation

    def what(self, kind: str, name: str) -> str:
        """``output 0``, ``gradient encoder.weight, call 2``."""
        word = f"{WORDS[kind]} {name.removeprefix('input:')}"
        return f"{word}, call {self.number + 1}" if len(self.trial.calls) > 1 else word


Compare = Callable[[Place], Iterable[Finding]]


@dataclass
class Walk:
    """What a walk found. ``silent`` counts the calls that raised."""

    check_name: str
    found: list[Finding] = field(default_factory=list[Finding])
    silent: int = 0
    asked: int = 0

    def decided(self) -> bool:
        """True where an element was compared, or something else said."""
        return any(finding.n_elements or finding.status is not Status.PASS for finding in self.found)

    def settled(self) -> list[Finding]:
        """The findings, with one more where they would prove nothing."""
        if self.decided():
            return self.found
        if not self.asked:
            return [inapplicable(self.check_name, f"{self.check_name}: no trial of it applies to these inputs")]
        if self.silent:
            return [*self.found, inapplicable(self.check_name, f"{self.check_name}: every call raised; see errors")]
        fact = f"{self.check_name}: not one element could be compared"
        return [*self.found, not_run(self.check_name, self.check_name, fact, _NEXT_STEP)]


def walk(evidence: Evidence, check_name: str, names: Iterable[str], compare: Compare, session: Session = MAIN) -> Walk:
    """``compare`` at every call of the named trials that neither the original nor the subject raised in."""
    done = Walk(check_name)
    for name in names:
        trial = evidence.trials.get(name)
        if trial is None or name not in evidence.expected:
            continue
        done.asked += 1
        if not evidence.ran(name, session.name):
            message = f"{name}: the subject did not get that far"
            done.found.append(Finding(check_name, name, Status.NOT_RUN, message).at(trial, session))
        for number, wanted, given in evidence.pairs(name, session.name):
            place = Place(trial, number, wanted, given)
            if wanted.eager.report.error or given.report.error:
                done.silent += 1
                continue
            found = _unjudgeable(check_name, place) or list(compare(place))
            done.found += [_lenient(item.at(trial, session)) for item in found]
    return done


def _unjudgeable(check_name: str, place: Place) -> list[Finding]:
    if place.wanted.random:
        # The random-number family compares such programs by their stream and their statistics.
        return [replace(drawn(check_name, f"{place.trial.name} call {place.number + 1}"), required=False)]
    if place.wanted.oracle_error and place.trial.depth >= Depth.EXACT:
        message = f"{place.trial.name}: the original raises in float64: {place.wanted.oracle_error}"
        return [Finding(check_name, place.trial.name, Status.NOT_RUN, message)]
    return []


def _lenient(finding: Finding) -> Finding:
    doubtful = finding.status in (Status.UNDECIDABLE, Status.NOT_RUN)
    return replace(finding, required=False) if doubtful and finding.input_suite != example.NAME else finding


def every(_expected: Expected) -> bool:
    return True


def is_floating(expected: Expected) -> bool:
    return expected.eager.is_floating_point() or expected.eager.is_complex()


def is_discrete(expected: Expected) -> bool:
    """Integers and booleans."""
    return not is_floating(expected)


def agreements(
    evidence: Evidence,
    check_name: str,
    place: Place,
    kinds: Sequence[str],
    wants: Callable[[Expected], bool] = every,
) -> Iterator[Finding]:
    """One finding for each tensor that the oracle has a value of; a derivative that only the subject has fails."""
    for kind in kinds:
        expected = dict(place.wanted.all_expected(kind))
        scale = _typical_size(evidence, expected.values()) if kind != "output" else 0.0
        for name, value in expected.items():
            if not wants(value):
                continue
            finding = _agreement(evidence, check_name, place, kind, name, value, scale)
            if finding.status is Status.UNDECIDABLE and kind == "gradient":
                size = max(scale, _size_of_terms(evidence, place, name))
                finding = _agreement(evidence, check_name, place, kind, name, value, size)
            yield finding
        if kind != "output":
            yield from _only_seen(check_name, place, kind)


def _agreement(
    evidence: Evidence, check_name: str, place: Place, kind: str, name: str, expected: Expected, scale: float
) -> Finding:
    contract = evidence.setting.contract
    seen, what = place.given.tensors.get(f"{kind}:{name}"), place.what(kind, name)
    limits = (budget_of(contract, kind), contract.digits_undecidable_below, scale)
    judged = partial(agreement, check_name, what, seen, expected, *limits, subnormals=contract.subnormals)
    about = (seen, expected.eager, expected.exact, expected.sigma)
    found = evidence.once(("agreement", what, *limits), about, judged)
    # A call that two families asked for is compared once, and said by both.
    return found if found.check_name == check_name else replace(found, check_name=check_name)


def _only_seen(check_name: str, place: Place, kind: str) -> Iterator[Finding]:
    """A gradient is None exactly where the reference's is."""
    for name in sorted(place.given.named(kind).keys() - place.wanted.eager.named(kind).keys()):
        yield failed(check_name, place.what(kind, name), "the reference has none there")


def _typical_size(evidence: Evidence, values: Iterable[Expected]) -> float:
    """Derivatives are parts of one vector: those that are zero in the reals hold nothing but rounding, and are decided
    by the size of the typical part."""
    sizes = [
        evidence.once(("size",), (value.exact,), partial(root_mean_square, value.exact))
        for value in values
        if is_floating(value)
    ]
    return median(sizes) if sizes else 0.0


def _size_of_terms(evidence: Evidence, place: Place, name: str) -> float:
    """What a gradient is made of may cancel: by a cotangent of ones that of a softmax is zero, and only rounding is
    left to see. It is decided by the size that it has by a cotangent without symmetry, and by what it would be if the
    terms of the result changed as an input does.
    """
    sizes = [0.0]
    if place.trial.suite == example.NAME:
        usual = next((wanted.exact.get(f"gradient:{name}") for _, wanted, _ in evidence.pairs(example.NAME)), None)
        if usual is not None:
            sizes.append(root_mean_square(usual))
    entered = place.wanted.exact.get(name)
    if entered is not None and bool(entered.isfinite().all()):
        terms = [
            float((place.wanted.exact[f"output:{position}"] * cotangent).abs().sum())
            for position, cotangent in place.wanted.cotangents.items()
            if f"output:{position}" in place.wanted.exact
        ]
        sizes.append(sum(terms) / max(float(entered.abs().sum()), 1.0))
    return max(size for size in sizes if math.isfinite(size))


def differing(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Where two tensors of one shape and dtype differ in bits. The sign of a zero counts, a NaN's payload does not."""
    left, right = (value.detach().resolve_conj().resolve_neg() for value in (left, right))
    if left.is_complex():
        left, right = torch.view_as_real(left), torch.view_as_real(right)
    if not left.is_floating_point():
        return left != right
    bits = _BITS[left.element_size()]
    if torch.equal(left.view(bits), right.view(bits)):
        return torch.zeros(left.shape, dtype=torch.bool, device=left.device)
    alike = (left == right) & (left.signbit() == right.signbit())
    return ~(alike | left.isnan() & right.isnan())


def identical(left: torch.Tensor | None, right: torch.Tensor | None) -> bool:
    """Whether both are there, of one shape and dtype, and nowhere ``differing``."""
    if left is None or right is None or (left.shape, left.dtype) != (right.shape, right.dtype):
        return False
    return not bool(differing(left, right).any())


def worst_of(
    check_name: str, what: str, bad: torch.Tensor, expected: torch.Tensor, seen: torch.Tensor, n_elements: int
) -> Finding:
    """Elements that had to be equal bit by bit: a failure that names the first of ``bad``, or a pass. ``n_elements`` is
    how many had to be."""
    count = int(bad.sum())
    if not count:
        return passed(check_name, what, n_elements)
    where = index_of(int(bad.reshape(-1).to(torch.uint8).argmax()), bad.shape)
    wanted, found = (_number(value, where) for value in (expected, seen))
    return Finding(
        check_name,
        what,
        Status.FAIL,
        f"{place_of(what, where)}: expected exactly {wanted:.9g}, seen {found:.9g} ({count} of {n_elements} elements)",
        observed_over_limit=math.inf,
        worst_index=where,
        worst_expected=wanted,
        worst_seen=found,
        n_elements=n_elements,
        n_bad=count,
    )


def _number(value: torch.Tensor, where: tuple[int, ...]) -> float:
    """One element as a number; of a complex one the size, unless ``where`` names its part."""
    if value.is_complex():
        parts = torch.view_as_real(value.resolve_conj())
        return float(parts[where]) if len(where) == parts.dim() else float(value[where].abs())
    return float(value[where])
