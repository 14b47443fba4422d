"""A graph that runs by plain eager torch, operator by operator: no code is generated for what is called a few times.

Invariant: a call computes what ``contract.executable`` computes, and holds no value longer than it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tensorfarm.contract import ops
from tensorfarm.contract.graph import Argument, Graph, OutputKind, Ref, TargetDevice, WeightKind

_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class _Step:
    """One node. ``last`` are the values that nothing after it uses."""

    name: str
    operator: Callable[..., Any]
    args: Sequence[Argument]
    kwargs: Sequence[tuple[str, Argument]]
    last: Sequence[str]


class ByOperator:
    """Takes the graph's tensor inputs in order and returns its user outputs as a tuple, differentiable by autograd.

    ``weights`` are by the graph's names and taken as they are, not copied; ``places`` holds them, on ``device``, as
    parameters and plain tensors by those names. What is written back to inputs or buffers is copied there at the end.
    """

    def __init__(self, graph: Graph, weights: Mapping[str, torch.Tensor], device: str = "cpu") -> None:
        self._graph, self._device = graph, torch.device(device)
        names = {weight.target: weight.name for weight in graph.weights.values()}
        written = [output for output in graph.outputs if output.kind is not OutputKind.USER]
        self._written = [
            (output, names[output.target] if output.kind is OutputKind.MUTATES_BUFFER else output.target)
            for output in written
        ]
        self._steps = _steps(graph)
        self.places: dict[str, torch.Tensor] = {}
        for weight in graph.weights.values():
            tensor = weights[weight.name].detach().to(device)
            is_parameter = weight.kind is WeightKind.PARAMETER
            made = torch.nn.Parameter(tensor, requires_grad=weight.requires_grad) if is_parameter else tensor
            self.places[weight.name] = made

    @property
    def written_weights(self) -> list[str]:
        """Names of the weights that a call writes to."""
        return [name for _, name in self._written if name in self.places]

    def __call__(self, *inputs: torch.Tensor) -> tuple[Any, ...]:
        values: dict[str, Any] = {item.name: item.literal for item in self._graph.inputs if item.spec is None}
        names = [item.name for item in self._graph.inputs if item.spec is not None]
        values |= dict(zip(names, inputs, strict=True))
        values |= self.places
        places = self._kept_old(values)
        for step in self._steps:
            args = [actual(item, values, self._device) for item in step.args]
            kwargs = {key: actual(item, values, self._device) for key, item in step.kwargs}
            values[step.name] = step.operator(*args, **kwargs)
            del args, kwargs
            for name in step.last:
                del values[name]
        for (output, _), place in zip(self._written, places, strict=True):
            value = actual(output.value, values, self._device)
            place.copy_(value.detach() if output.kind is OutputKind.MUTATES_BUFFER else value)
        users = (output for output in self._graph.outputs if output.kind is OutputKind.USER)
        return tuple(actual(output.value, values, self._device) for output in users)

    def _kept_old(self, values: dict[str, Any]) -> list[torch.Tensor]:
        """The tensors that will be written to. ``values`` gets copies: autograd may save an old value for backward."""
        places: list[torch.Tensor] = []
        for _, name in self._written:
            places.append(values[name])
            values[name] = torch.ops.aten.clone.default(values[name])
        return places


def actual(argument: Argument, values: Mapping[str, Any], device: torch.device = _CPU) -> Any:
    """An argument of a graph with each reference replaced by its value; lists are lists again."""
    if isinstance(argument, Ref):
        return values[argument.name]
    if isinstance(argument, tuple):
        return [actual(item, values, device) for item in argument]
    return device if isinstance(argument, TargetDevice) else argument


def _steps(graph: Graph) -> list[_Step]:
    used_later = graph.output_names()
    steps: list[_Step] = []
    for node in reversed(graph.nodes.values()):
        last = [name for name in dict.fromkeys((*node.operands(), node.name)) if name not in used_later]
        used_later.update(last)
        steps.append(_Step(node.name, ops.resolve(node.op), node.args, node.kwargs, last))
    return steps[::-1]
