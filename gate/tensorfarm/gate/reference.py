"""The reference: the original eager module, or the un-decomposed exported program, called by its leaves.

Never the captured graph: a fault in capture would then be in both. Invariant: before a trial's first call every
parameter and buffer is as it was built, and where a program names its weights it holds the program's bytes.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tensorfarm.contract.capture import built
from tensorfarm.contract.graph import WeightKind
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.tensors import tensor_sha256
from tensorfarm.gate.calling import Returned
from tensorfarm.gate.copies import as_one, laid_out
from tensorfarm.gate.kept_module import KeptModules, named_tensors
from tensorfarm.gate.packed import call_packed, name_of
from tensorfarm.gate.setting import Leaf
from tensorfarm.gate.variant import varied
from tensorfarm.gate.widen import default_dtype, widened


@dataclass(frozen=True)
class ModuleCallee:
    """A module that is called by leaves. ``names`` maps what gradients and buffers are called to the module's own
    qualified names; empty means that these are the names."""

    module: torch.nn.Module
    in_spec: pytree.TreeSpec
    parameter_names: Sequence[str] | None = None
    buffer_names: Sequence[str] | None = None

    @property
    def parameters(self) -> Mapping[str, torch.Tensor]:
        if self.parameter_names is None:
            return dict(self.module.named_parameters())
        places = named_tensors(self.module)
        return {name: places[name] for name in self.parameter_names if name in places}

    @property
    def buffers(self) -> Mapping[str, torch.Tensor]:
        if self.buffer_names is None:
            return dict(self.module.named_buffers())
        places = named_tensors(self.module)
        return {name: places[name] for name in self.buffer_names if name in places}

    def call(self, leaves: Mapping[str, Any]) -> Returned:
        return call_packed(self.module, leaves, self.in_spec)


class Reference:
    """Makes callees of the original; ``build`` gives a fresh module, with its weights."""

    def __init__(
        self,
        build: Callable[[], torch.nn.Module],
        leaves: tuple[Leaf, ...],
        in_spec: pytree.TreeSpec,
        *,
        parameter_names: Sequence[str] | None = None,
        buffer_names: Sequence[str] | None = None,
    ) -> None:
        self.build = build
        self.leaves = leaves
        self.in_spec = in_spec
        self._names = (parameter_names, buffer_names)
        self._wide = False
        self._default = torch.get_default_dtype()
        self._held: tuple[torch.nn.Module, KeptModules] | None = None

    def widen(self) -> None:
        """From here on parameters and buffers are float64, complex ones complex128."""
        self._wide = True
        self._held = None

    def unwidened(self) -> Reference:
        """Another that makes the original's callees in their own dtypes."""
        parameters, buffers = self._names
        return Reference(self.build, self.leaves, self.in_spec, parameter_names=parameters, buffer_names=buffers)

    def fresh(self, variant: str, changes: bool) -> ModuleCallee:
        """A callee in its first state. ``changes``: its module will be changed between calls, so it is a new one."""
        if not variant and not changes:
            return ModuleCallee(self._restored(), self.in_spec, *self._names)
        module = self._built()
        names = self._names if not variant else (None, None)
        return ModuleCallee(varied(module, variant) if variant else module, self.in_spec, *names)

    def arguments(
        self, inputs: Mapping[str, torch.Tensor], literals: Mapping[str, Any], *, wide: bool
    ) -> dict[str, Any]:
        """Leaves by name, in order: tensors of their own, in float64 where ``wide``, that alias where ``inputs`` do."""
        made = _fresh(inputs, wide)
        flags = {leaf.name: leaf.requires_grad for leaf in self.leaves}
        found: dict[str, Any] = {}
        for leaf in self.leaves:
            if leaf.name in made:
                value = made[leaf.name]
                found[leaf.name] = value.requires_grad_(
                    flags[leaf.name] and (value.is_floating_point() or value.is_complex())
                )
            else:
                found[leaf.name] = literals.get(leaf.name, leaf.literal)
        return as_one(found)

    def state(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers as they are built, by qualified name."""
        module = self.build()
        named = (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False))
        return {name: value.detach() for group in named for name, value in group}

    def _built(self) -> torch.nn.Module:
        with default_dtype(self._default):
            module = self.build()
        if self._wide:
            module.double()
            for value in named_tensors(module).values():
                if value.is_complex():
                    value.data = widened(value.detach())
        return module

    def _restored(self) -> torch.nn.Module:
        if self._held is None:
            module = self._built()
            self._held = module, KeptModules([module])
        module, kept = self._held
        kept.put_back()
        return module


def reference_of_program(program: Program) -> Reference:
    """Refuses a factory that no longer builds what the program's weights fit."""
    weights = program.graph.weights.values()

    def build() -> torch.nn.Module:
        module = _original(program)
        _load_weights(program, module)
        return module

    return Reference(
        build,
        leaves_of_program(program),
        pytree.treespec_loads(program.in_spec),
        parameter_names=[weight.target for weight in weights if weight.requires_grad],
        buffer_names=[weight.target for weight in weights if weight.kind is WeightKind.BUFFER],
    )


def leaves_of_program(program: Program) -> tuple[Leaf, ...]:
    return tuple(
        Leaf(item.name, None, item.literal)
        if item.spec is None
        else Leaf(item.name, program.inputs[item.name], None, item.requires_grad)
        for item in program.graph.inputs
    )


def reference_of_source(source: str) -> Reference:
    """Of a factory, ``package.module:name`` or ``path.py:name``, which is called once: it need not be seeded."""
    torch.manual_seed(0)
    module, args, kwargs = built(source)
    leaves, in_spec = leaves_of(args, kwargs)
    tensors = [*named_tensors(module).values(), *(leaf.example for leaf in leaves if leaf.example is not None)]
    away = next((value.device for value in tensors if value.device.type != "cpu"), None)
    if away is not None:
        raise Refusal(
            f"{source} makes tensors on {away}",
            limit="the original is made on the cpu, where its oracle runs",
            next_step=f"make them there, and list {away.type} in the contract's devices: the subject is moved",
        )
    return Reference(lambda: _copied(module), leaves, in_spec)


def reference_of_module(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Reference:
    """Of a live module, which is copied now and not touched again."""
    leaves, in_spec = leaves_of(args, kwargs)
    pristine = _copied(module)
    return Reference(lambda: _copied(pristine), leaves, in_spec)


def _copied(module: torch.nn.Module) -> torch.nn.Module:
    """A deep copy. Its parameters keep the hooks on their gradients, which a copy of a parameter drops (torch 2.13)."""
    made = copy.deepcopy(module)
    for old, new in zip(module.parameters(), made.parameters(), strict=True):
        for hook in (old._backward_hooks or {}).values():  # pyright: ignore[reportPrivateUsage]
            new.register_hook(hook)
    return made


def leaves_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Leaf, ...], pytree.TreeSpec]:
    """The flat inputs of a call, named by their place (``args[0]``, ``kwargs['mask']``), and how to pack them."""
    found, in_spec = pytree.tree_flatten_with_path((tuple(args), dict(kwargs)))
    return tuple(_leaf(pytree.keystr(path), value) for path, value in found), in_spec


def _leaf(path: str, value: Any) -> Leaf:
    name = name_of(path)
    if isinstance(value, torch.Tensor):
        return Leaf(name, value.detach(), None, value.requires_grad)
    return Leaf(name, None, value)


def _fresh(inputs: Mapping[str, torch.Tensor], wide: bool) -> dict[str, torch.Tensor]:
    """Copies, one for each storage, so that what aliases goes on to."""
    plain = {name: value.detach().resolve_conj().resolve_neg() for name, value in inputs.items()}
    whole: dict[tuple[int, torch.dtype], torch.Tensor] = {}
    memories: dict[str, torch.Tensor] = {}
    for name, value in plain.items():
        flat = torch.empty(0, dtype=value.dtype, device=value.device).set_(value.untyped_storage())  # type: ignore[arg-type]
        key = (flat.data_ptr() or -1 - len(memories), value.dtype)
        if key not in whole:
            whole[key] = (widened(flat) if wide else flat).clone()
        memories[name] = whole[key]
    return laid_out(plain, memories)


def _load_weights(program: Program, module: torch.nn.Module) -> None:
    places = named_tensors(module)
    for weight in program.graph.weights.values():
        place = places.get(weight.target)
        if place is None and weight.kind is WeightKind.CONSTANT:
            continue  # a literal in the module's own code: the reference makes it itself
        with torch.no_grad():
            if place is not None and place.shape == weight.spec.shape and place.dtype == weight.spec.dtype:
                place.copy_(program.weights[weight.name])
        if place is None or tensor_sha256(place) != weight.sha256:
            raise Refusal(
                f"{program.source} builds no {weight.kind.value} {weight.target} that can hold the program's",
                limit=f"{weight.spec.dtype} of shape {list(weight.spec.shape)}",
                next_step="capture the program again from the factory as it is now",
            )


def _original(program: Program) -> torch.nn.Module:
    if program.exported is None:
        return built(program.source)[0]
    return torch.export.load(io.BytesIO(program.exported)).module()
