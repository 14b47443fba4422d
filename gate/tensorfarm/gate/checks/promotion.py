"""F21, promotion: which dtype a mixture of dtypes becomes, and what later arithmetic makes of it.

One floating input at a time is given in another dtype, or as a number without axes, and all as halves of two kinds.
The original says what the result's dtype is, or that it does not take such an input.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch

from tensorfarm.gate.compared import Place, agreements, walk
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expected
from tensorfarm.gate.finding import Finding, inapplicable
from tensorfarm.gate.inputs import promotion
from tensorfarm.gate.planted import planted
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import Depth, Trial

NAME = "promotion"
FAMILY = "F21"
LEVEL = Level.FULL
COST = 140

_PREFIX = f"{promotion.NAME}:"


def trials(setting: Setting) -> list[Trial]:
    """Values need a spread, since what is fused may keep a wider dtype in between."""
    return [replace(trial, depth=Depth.BUDGET) for trial in promotion.trials(setting)]


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each output of each mixture that the original takes."""
    if not evidence.setting.facts.guarded:
        return [inapplicable(NAME, f"{NAME}: the subject is made for its example's dtypes")]

    def compare(place: Place) -> Iterable[Finding]:
        for finding in agreements(evidence, NAME, place, ("output",)):
            yield replace(finding, what=f"{finding.what} with {place.trial.name.removeprefix(_PREFIX)}")

    return walk(evidence, NAME, _names(evidence), compare).settled()


def canary(evidence: Evidence) -> Evidence | None:
    return planted(evidence, _names(evidence), ("output",), _promoted)


def _names(evidence: Evidence) -> list[str]:
    return [name for name in evidence.trials if name.startswith(_PREFIX)]


def _promoted(expected: Expected, seen: torch.Tensor) -> torch.Tensor | None:
    """The same values in another dtype."""
    if not seen.is_floating_point():
        return seen.to(torch.uint8 if seen.dtype is torch.bool else torch.float32)
    return seen.to(torch.float64 if seen.dtype is not torch.float64 else torch.float32)
