"""What a backend is given and what it hands back. A backend is a function from the one to the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import torch

from tensorfarm.compiler.pipeline import Pipeline
from tensorfarm.compiler.sequence import Decided
from tensorfarm.contract.graph import Graph
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.switches import Switches


class UnsupportedByBackend(Refusal):
    """The program is legal and this backend cannot build it. Ends a candidate as ``compile_failure``, unsupported."""

    def __init__(self, fact: str, *, limit: str = "", next_step: str = "") -> None:
        super().__init__(fact, limit=limit, next_step=next_step, exit_code=11)


@dataclass(frozen=True)
class Task:
    """One candidate to build. ``scratch`` is an empty folder that lives until the artifact is written.

    ``toolchain`` holds versions by name.
    """

    program: Program
    candidate_id: str
    mode: str
    pipeline: Pipeline
    target: str
    scratch: Path
    toolchain: Mapping[str, str]
    switches: Switches = field(default_factory=Switches)


@dataclass(frozen=True)
class Lowered:
    """What goes into the artifact. ``decided`` becomes the manifest, its wall times beside it."""

    runtime: str
    graph: Graph
    weights: Mapping[str, torch.Tensor]
    decided: Sequence[Decided]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    runtime_files: Mapping[str, Path] = field(default_factory=dict[str, Path])


Backend: TypeAlias = Callable[[Task], Lowered]
