"""The element that a gate found outside its limit: which value of the program it belongs to, and what was allowed.

Invariant: what a reproducer compares is exactly this element against exactly this limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tensorfarm.contract.graph import Graph, Output, OutputKind
from tensorfarm.contract.refusal import Refusal

# Suite and layout of the inputs that a script has; a row of an older store may name none.
EXAMPLE = ("example", "as_captured")


class ValueKind(StrEnum):
    OUTPUT = "output"
    WRITTEN = "written"
    GRADIENT = "gradient"


@dataclass(frozen=True)
class Failure:
    """``position`` is that of the value among the graph's outputs; ``name`` what a gradient is taken by, else empty.

    ``index`` is the element's (of a complex value: of its real view); ``limit`` is absolute and 0 where bits count.
    """

    kind: ValueKind
    what: str
    position: int
    name: str
    index: tuple[int, ...]
    limit: float
    seed: int

    @staticmethod
    def of(finding: Mapping[str, Any], graph: Graph) -> Failure:
        """From a failing row of a verdict on this captured graph. Refuses one that no element explains."""
        what, index = str(finding["what"]), tuple(map(int, finding["worst_index"]))
        kind, position, name = _value(what, graph)
        elsewhere = (finding.get("input_suite"), finding.get("layout")) not in (
            (None, None),
            ("example", "as_captured"),
        )
        if kind is None or elsewhere or not int(finding["n_bad"]):
            raise Refusal(
                f"check {finding['check_name']} found: {finding['message']}",
                limit="an element that is outside its limit on the example inputs",
                next_step="reproduce it from the program and the artifact",
            )
        return Failure(kind, what, position, name, index, float(finding["limit_abs"]), int(finding["seed"]))

    @property
    def element(self) -> str:
        return f"{self.what}[{', '.join(map(str, self.index))}]" if self.index else self.what


def _value(what: str, graph: Graph) -> tuple[ValueKind | None, int, str]:
    head, _, rest = what.partition(" ")
    positions = [at for at, output in enumerate(graph.outputs) if output.kind is OutputKind.USER]
    if head == "output" and rest.isdigit() and int(rest) < len(positions):
        return ValueKind.OUTPUT, positions[int(rest)], ""
    if head == "gradient":
        by_target = {weight.target: weight.name for weight in graph.weights.values()}
        return ValueKind.GRADIENT, -1, by_target.get(rest, rest.removeprefix("input:"))
    written = {
        f"{_HEAD[output.kind]} {output.target}": at for at, output in enumerate(graph.outputs) if _writes(output)
    }
    return (ValueKind.WRITTEN, written[what], "") if what in written else (None, -1, "")


_HEAD = {OutputKind.MUTATES_BUFFER: "buffer", OutputKind.MUTATES_INPUT: "input"}


def _writes(output: Output) -> bool:
    return output.kind is not OutputKind.USER
