"""How something built for one graph is called: its tensors in order, and no other shapes, dtypes or literals.

An artifact is built for these alone. Invariant: what it was not built for is refused, never computed wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tensorfarm.contract.graph import Graph, WeightKind
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.calling import Returned
from tensorfarm.gate.subject.load import Tensors

_NEXT_STEP = "compile the program again with such inputs"


def of_graph(
    graph: Graph, call: Callable[..., Sequence[Any]], structure: str = ""
) -> Callable[[Mapping[str, Any]], Returned]:
    """``call`` takes the graph's tensor inputs in order and returns its user outputs."""

    def run(leaves: Mapping[str, Any]) -> Returned:
        return Returned(tuple(call(*tensors_for(graph, leaves))), structure)

    return run


def tensors_for(graph: Graph, leaves: Mapping[str, Any]) -> list[torch.Tensor]:
    """The graph's tensor inputs in order. Refuses leaves that the graph does not compute with."""
    if len(leaves) != len(graph.inputs):
        raise Refusal(f"the artifact was given {len(leaves)} inputs", limit=f"it takes {len(graph.inputs)}")
    found: list[torch.Tensor] = []
    for item, (name, value) in zip(graph.inputs, leaves.items(), strict=True):
        if item.spec is None:
            refuse_another_literal(name, value, item.literal)
            continue
        if not isinstance(value, torch.Tensor):
            raise Refusal(f"input {name} is {type(value).__name__}", limit="a tensor", next_step=_NEXT_STEP)
        if value.dtype != item.spec.dtype or tuple(value.shape) != item.spec.shape:
            raise Refusal(
                f"input {name} is {value.dtype} of shape {list(value.shape)}",
                limit=f"the artifact was built for {item.spec.dtype} of shape {list(item.spec.shape)}",
                next_step=_NEXT_STEP,
            )
        found.append(value)
    return found


def tensors_in_order(leaves: Mapping[str, Any], asked: Sequence[Mapping[str, Any]]) -> list[torch.Tensor]:
    """The leaves that are tensors. Refuses a literal that is not the request's: what was built holds that one."""
    literals = {item["name"]: item.get("literal") for item in asked}
    for name, value in leaves.items():
        if not isinstance(value, torch.Tensor) and name in literals:
            refuse_another_literal(name, value, literals[name])
    return [value for value in leaves.values() if isinstance(value, torch.Tensor)]


def refuse_another_literal(name: str, value: Any, literal: Any) -> None:
    if repr(value) != repr(literal):  # tells 1 from 1.0 and -0.0 from 0.0, and a NaN is itself
        raise Refusal(f"input {name} is {value!r}", limit=f"it was built for {literal!r}", next_step=_NEXT_STEP)


def refuse_another_device(own: str, device: str) -> None:
    if device != own:
        raise Refusal(f"this subject runs on {own}", limit=f"{device} was asked for", next_step="correct the contract")


def tensors_of_graph(graph: Graph, places: Mapping[str, torch.Tensor]) -> Tensors:
    """By qualified name; ``places`` is by the graph weight's name. Folded and other constants are not among them."""
    kinds: dict[WeightKind, dict[str, torch.Tensor]] = {kind: {} for kind in WeightKind}
    for name, weight in graph.weights.items():
        if name in places:
            kinds[weight.kind][weight.target] = places[name]
    return Tensors(kinds[WeightKind.PARAMETER], kinds[WeightKind.BUFFER])
