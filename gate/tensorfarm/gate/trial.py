"""A trial: calls of one fresh subject, each with its inputs, that a check asks for and several checks may share.

Reference, oracle and subject are all given the same trials. Invariant: two trials of one name are the same trial, so an
oracle's run is never made twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

import torch


class Depth(IntEnum):
    """What a trial is compared with; each includes those before.

    ``ITSELF``: other calls of the subject, but for whether the original raises. ``EAGER``: the original as it is.
    ``EXACT``: the original in float64. ``BUDGET``: with the spread of Monte-Carlo arithmetic around it.
    """

    ITSELF = 0
    EAGER = 1
    EXACT = 2
    BUDGET = 3


class Derivative(StrEnum):
    """``GRAPH`` is a forward pass that could be differentiated and is not; ``JVP`` is forward-mode differentiation,
    ``VJP_OF_VJP`` a gradient of a gradient."""

    NONE = ""
    GRAPH = "graph"
    VJP = "vjp"
    VJP_OF_VJP = "vjp_of_vjp"
    JVP = "jvp"


class Cotangent(StrEnum):
    """How the vectors of a vector-Jacobian product are drawn; the judge makes them once it knows the outputs.

    ``ONES_EXPANDED`` has stride 0, as ``sum().backward()`` gives; ``STRIDED`` is transposed in memory, or has steps.
    """

    NORMAL = "normal"
    ONES_EXPANDED = "ones_expanded"
    STRIDED = "strided"
    ONE_HOT = "one_hot"


@dataclass(frozen=True)
class Call:
    """``inputs`` holds every leaf that is a tensor, by name; two that alias share a storage. ``literals`` replace the
    example's other leaves. ``between`` names a change of the subject before this call (``between.py``)."""

    inputs: Mapping[str, torch.Tensor]
    derivative: Derivative = Derivative.NONE
    cotangent: Cotangent = Cotangent.NORMAL
    between: str = ""
    seed: int = 0
    literals: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Session:
    """A process that runs trials. ``device`` may carry an instruction-set level (``cpu/avx2``)."""

    name: str = "main"
    device: str = "cpu"
    threads: int = 1
    environment: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)


MAIN = Session()


@dataclass(frozen=True)
class Trial:
    """``suite`` and ``layout`` say what the inputs are (``example``, ``exact_integers``; ``as_captured``,
    ``transposed``); they become columns of the findings. ``variant`` asks for another form of the same program
    (``variant.py``), which only a subject that is compiled from a module can be given. A ``tentative`` one is a trial
    only where the original answers it: nobody else is asked, and nothing is expected (``tentative.py``)."""

    name: str
    calls: tuple[Call, ...]
    depth: Depth = Depth.BUDGET
    sessions: tuple[Session, ...] = (MAIN,)
    suite: str = "example"
    layout: str = "as_captured"
    variant: str = ""
    tentative: bool = False
