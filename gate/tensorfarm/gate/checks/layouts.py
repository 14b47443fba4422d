"""F14, layouts: the example's values in other memory layouts give the same values, and strides as the original's.

Kernels that assume the example's strides, or that a storage begins with the tensor, are right on the example alone. A
subject of fixed layouts may refuse others loudly; a wrong value is never a refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch

from tensorfarm.gate.compared import Place, agreements, walk
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding, failed
from tensorfarm.gate.inputs import layouts
from tensorfarm.gate.planted import past_its_limit, planted
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.stream import out_of_stream, stream_for_stream
from tensorfarm.gate.trial import Depth, Trial

NAME = "layouts"
FAMILY = "F14"
LEVEL = Level.STANDARD
COST = 70


def trials(setting: Setting) -> list[Trial]:
    """The oracle answers a layout of the example's values with the example's run, so a budget costs nothing."""
    return [replace(trial, depth=Depth.BUDGET) for trial in layouts.trials(setting)]


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each output and gradient of each layout, and one for each output whose strides are others."""

    def compare(place: Place) -> Iterator[Finding]:
        yield from agreements(evidence, NAME, place, ("output", "gradient"))
        yield from _strides(evidence, place)

    done = walk(evidence, NAME, _names(evidence), compare)
    done.found += stream_for_stream(evidence, NAME, _names(evidence))
    return done.settled()


def canary(evidence: Evidence) -> Evidence | None:
    found = planted(evidence, _names(evidence), ("output",), past_its_limit(evidence.setting.contract))
    return found or out_of_stream(evidence, _names(evidence))


def _names(evidence: Evidence) -> list[str]:
    declared = evidence.setting.contract.layouts
    laid = {name: trial for name, trial in evidence.trials.items() if name.startswith(layouts.PREFIX)}
    return [name for name, trial in laid.items() if trial.layout in declared]


def _strides(evidence: Evidence, place: Place) -> Iterable[Finding]:
    """A subject of fixed layouts was built for the example's strides, and gives those it was built for."""
    if evidence.setting.contract.strides != "as_reference" or evidence.setting.facts.fixed_layouts:
        return
    for name, eager in place.wanted.eager.named("output").items():
        seen = place.given.tensors.get(f"output:{name}")
        if seen is not None and seen.shape == eager.shape and _steps(seen) != _steps(eager):
            told = f"expected strides {list(eager.stride())}, seen {list(seen.stride())}"
            yield failed(NAME, place.what("output", name), told)


def _steps(tensor: torch.Tensor) -> list[int]:
    """Strides that mean something: those of size one, and of empty tensors, do not."""
    if not tensor.numel():
        return []
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1]
