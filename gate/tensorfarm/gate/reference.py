"""The reference: the original eager module, or the un-decomposed exported program, with the program's own weights.

Never the captured graph: a fault in capture would then be in both. Invariant: before the first call every parameter and
buffer that the program names holds the program's bytes, checked by sha256.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tensorfarm.contract.capture import built
from tensorfarm.contract.graph import WeightKind
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.tensors import tensor_sha256
from tensorfarm.gate.widen import widened


@dataclass(frozen=True)
class Run:
    """One call. ``outputs`` are flat; gradients and buffers by the graph weight's name, inputs by the input's."""

    outputs: list[Any]
    gradients: dict[str, torch.Tensor | None]
    inputs: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]


class Reference:
    """Runs the program's original. ``call`` leaves the module as it found it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.module = _original(program)
        self._places = _places(self.module)
        self._load_weights()
        self._state = {
            name: value.detach().clone()
            for name, value in self._places.items()
            if not isinstance(value, torch.nn.Parameter)
        }

    def widen(self) -> None:
        """Parameters and buffers become float64, complex ones complex128, in place and for good."""
        self.module.double()
        self._places = _places(self.module)
        for value in self._places.values():
            if value.is_complex():
                value.data = widened(value.detach())

    def call(self, inputs: Mapping[str, torch.Tensor], cotangents: Mapping[int, torch.Tensor] | None) -> Run:
        """Run forward, and backward where there are cotangents (by output position). Inputs are written to in place."""
        args, kwargs = self.arguments(inputs)
        with torch.set_grad_enabled(cotangents is not None):
            outputs = pytree.tree_leaves(self.module(*args, **kwargs))
        gradients = {} if cotangents is None else self._gradients(outputs, inputs, cotangents)
        buffers = {
            weight.name: self._places[weight.target].detach().clone()
            for weight in self.program.graph.weights.values()
            if weight.kind is WeightKind.BUFFER
        }
        outputs = self._apart(outputs)
        with torch.no_grad():
            for name, value in self._state.items():
                self._places[name].copy_(value)
        return Run(outputs, gradients, {name: value.detach() for name, value in inputs.items()}, buffers)

    def fresh_inputs(self, *, wide: bool) -> dict[str, torch.Tensor]:
        """The program's inputs as leaves of their own, in float64 where ``wide``."""
        made: dict[str, torch.Tensor] = {}
        for item in self.program.graph.inputs:
            if item.spec is not None:
                value = self.program.inputs[item.name].detach().clone(memory_format=torch.preserve_format)
                value = widened(value) if wide else value
                made[item.name] = value.requires_grad_(item.requires_grad)
        return made

    def arguments(self, inputs: Mapping[str, torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """``inputs`` as the module is called with them: positions and keywords, literals included."""
        leaves = [item.literal if item.spec is None else inputs[item.name] for item in self.program.graph.inputs]
        args, kwargs = pytree.tree_unflatten(leaves, pytree.treespec_loads(self.program.in_spec))
        return tuple(args), dict(kwargs)

    def differentiated(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """What gradients are taken by: trained weights by the graph weight's name, wanting inputs by the input's."""
        trained = {
            weight.name: self._places[weight.target]
            for weight in self.program.graph.weights.values()
            if weight.requires_grad
        }
        return trained | {item.name: inputs[item.name] for item in self.program.graph.inputs if item.requires_grad}

    def _apart(self, outputs: list[Any]) -> list[Any]:
        """Outputs that are part of the module's state as copies of their own, before that is put back or widened."""
        state = {value.untyped_storage().data_ptr() for value in self._places.values()}
        return [
            _copied(value) if isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() in state else value
            for value in outputs
        ]

    def _gradients(
        self, outputs: list[Any], inputs: Mapping[str, torch.Tensor], cotangents: Mapping[int, torch.Tensor]
    ) -> dict[str, torch.Tensor | None]:
        wanted = self.differentiated(inputs)
        if not wanted or not cotangents:
            return dict.fromkeys(wanted)
        roots = [outputs[position] for position in cotangents]
        seeds = [cotangents[position].to(outputs[position].dtype) for position in cotangents]
        found = torch.autograd.grad(roots, list(wanted.values()), seeds, allow_unused=True)
        return dict(zip(wanted, found, strict=True))

    def _load_weights(self) -> None:
        for weight in self.program.graph.weights.values():
            place = self._places.get(weight.target)
            if place is None and weight.kind is WeightKind.CONSTANT:
                continue  # a literal in the module's own code: the reference makes it itself
            with torch.no_grad():
                if place is not None and place.shape == weight.spec.shape and place.dtype == weight.spec.dtype:
                    place.copy_(self.program.weights[weight.name])
            if place is None or tensor_sha256(place) != weight.sha256:
                raise Refusal(
                    f"{self.program.source} builds no {weight.kind.value} {weight.target} that can hold the program's",
                    limit=f"{weight.spec.dtype} of shape {list(weight.spec.shape)}",
                    next_step="capture the program again from the factory as it is now",
                )


def _copied(value: torch.Tensor) -> torch.Tensor:
    """Equal in bytes, strides and ``requires_grad``. A mode that widens gives wide ones."""
    copied = value.detach().clone()
    if copied.dtype is value.dtype:
        storage = value.untyped_storage().clone()
        copied.set_(storage, value.storage_offset(), value.shape, value.stride())  # type: ignore[arg-type]
    return copied.requires_grad_(value.requires_grad)


def differentiable(outputs: Sequence[Any]) -> list[int]:
    """Positions of the outputs that a gradient can be asked of."""
    return [
        position for position, value in enumerate(outputs) if isinstance(value, torch.Tensor) and value.requires_grad
    ]


def _original(program: Program) -> torch.nn.Module:
    if program.exported is None:
        return built(program.source)[0]
    return torch.export.load(io.BytesIO(program.exported)).module()


def _places(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Every tensor of the module that has a qualified name, tied ones under each of theirs."""
    found: dict[str, torch.Tensor] = dict(module.named_parameters(remove_duplicate=False))
    found |= dict(module.named_buffers(remove_duplicate=False))
    for prefix, part in module.named_modules():
        for name, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                found[f"{prefix}.{name}" if prefix else name] = value
    return found
