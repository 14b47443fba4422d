"""The ``fx`` backend: passes over the captured graph, which then runs operator by operator. Every target has it."""

from __future__ import annotations

from tensorfarm.compiler.passes.fold_constants import evaluated
from tensorfarm.compiler.pipeline import resolved
from tensorfarm.compiler.sequence import run_passes
from tensorfarm.compiler.task import Lowered, Task
from tensorfarm.contract.ir_contract import folded_constants
from tensorfarm.contract.refusal import Refusal


def lower(task: Task) -> Lowered:
    """Run the pipeline's passes. Raises Refusal for a backend option, for there is none."""
    if task.pipeline.backend.options:
        key = task.pipeline.backend.options[0][0]
        raise Refusal(f"backend fx has no option {key!r}", limit="known: none", next_step="remove it from the pipeline")
    captured = task.program.graph
    graph = captured.copy()
    decided = run_passes(graph, resolved(task.pipeline), task.switches)
    folded = {weight.name: evaluated(captured, weight.target) for weight in folded_constants(captured, graph)}
    weights = {name: folded[name] if name in folded else task.program.weights[name] for name in graph.weights}
    return Lowered("graph", graph, weights, decided)
