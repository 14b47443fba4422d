"""What a sweep is going to do: its cells, a pure function of the normalised sweep file.

A cell is one program under one pipeline. It exists before its candidate has an identity, and is what events are about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlannedProgram:
    """``source`` is a factory or an export file; ``mode`` is ``inference`` or ``training``."""

    name: str
    source: str
    mode: str
    pipelines: tuple[str, ...]

    def cells(self) -> list[Cell]:
        """The program's cells, in the order of its pipelines."""
        return [Cell(self, pipeline) for pipeline in self.pipelines]


@dataclass(frozen=True, slots=True)
class Cell:
    program: PlannedProgram
    pipeline: str

    @property
    def id(self) -> str:
        return f"{self.program.name}/{self.pipeline}"

    @property
    def backend(self) -> str:
        return self.pipeline.partition(":")[0].partition("{")[0]


@dataclass(frozen=True, slots=True)
class BisectPlan:
    """``width`` probes a round, 0 for no bisections; the first ``most`` failing cells of a sweep are bisected."""

    width: int = 0
    most: int = 8


@dataclass(frozen=True)
class Plan:
    """All programs of a sweep, in file order. Without ``measured`` an admitted cell ends as soon as it is admitted."""

    programs: Sequence[PlannedProgram]
    bisect: BisectPlan = BisectPlan()
    measured: bool = True
