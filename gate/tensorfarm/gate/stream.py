"""Programs that draw random numbers, compared stream for stream: from the same seed the original's very draws.

In float64 other numbers are drawn, so no oracle has a value or a spread of such a call, and the original itself is
compared with, by half of the digits. Invariant: where the contract allows a stream of its own, nothing is compared
here; the random-number family judges its statistics.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

import torch

from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.gate.agreement import root_mean_square
from tensorfarm.gate.devices import main_device
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.nearness import near
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.planted import copied, with_tensor
from tensorfarm.gate.trial import MAIN

SAME_STREAM = "same_stream_as_reference"
KINDS = ("output", "gradient")
_TIMES = 3.0


def same_stream(contract: NumericalContract) -> bool:
    """Whether draws must be the original's. Its generator is the CPU's, and no other kind of device can follow it."""
    return contract.rng == SAME_STREAM and main_device(contract) == MAIN.device


def stream_for_stream(
    evidence: Evidence, check_name: str, names: Iterable[str], kinds: Sequence[str] = KINDS
) -> Iterator[Finding]:
    """Outputs and gradients of calls that draw, of the trials of these names."""
    if not same_stream(evidence.setting.contract):
        return
    for name in (name for name in names if name in evidence.trials):
        for number, wanted, given in evidence.pairs(name):
            if wanted.random and not (wanted.eager.report.error or given.report.error):
                for finding in near_all(check_name, f"{name} call {number + 1}", wanted, given, kinds):
                    yield finding.at(evidence.trials[name])


def out_of_stream(evidence: Evidence, names: Iterable[str], kind: str = "output") -> Evidence | None:
    """The canary of ``stream_for_stream``: the largest element of a tensor of a call that draws, further off."""
    for name in names if same_stream(evidence.setting.contract) else ():
        for number, wanted, given in evidence.pairs(name):
            if not wanted.random or wanted.eager.report.error or given.report.error:
                continue
            typical = max([size_of(value) for value in wanted.eager.named(kind).values()], default=0.0)
            for key, seen in given.tensors.items():
                if key.startswith(f"{kind}:") and seen.is_floating_point() and bool(seen.isfinite().any()):
                    return with_tensor(evidence, name, number, key, _further_off(seen, typical))
    return None


def near_all(
    check_name: str, place: str, wanted: Expectation, given: Observation, kinds: Sequence[str] = KINDS
) -> Iterator[Finding]:
    """Every tensor of these kinds that the original gave in one call."""
    sizes = {key: size_of(value) for key, value in wanted.eager.tensors.items()}
    for kind in kinds:
        typical = median([size for key, size in sizes.items() if key.startswith(kind)] or [0.0])
        for name, eager in wanted.eager.named(kind).items():
            told = f"{kind} {name} of {place}"
            yield near(check_name, told, given.tensors.get(f"{kind}:{name}"), eager, scale=typical)


def size_of(value: torch.Tensor) -> float:
    """The root mean square of any tensor, of a complex one that of its parts."""
    plain = value.detach().resolve_conj()
    return root_mean_square(torch.view_as_real(plain).double() if plain.is_complex() else plain.double())


def _further_off(seen: torch.Tensor, typical: float) -> torch.Tensor:
    changed = copied(seen)
    at = torch.unravel_index(changed.nan_to_num(0.0, 0.0, 0.0).abs().argmax(), changed.shape)
    limit = math.sqrt(torch.finfo(seen.dtype).eps / 2) * (changed[at].abs() + typical)
    changed[at] += _TIMES * limit if limit else 1.0  # where all is zero, any other value is wrong
    return changed
