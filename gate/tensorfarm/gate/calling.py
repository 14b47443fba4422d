"""One call of something by its leaves, and all that can be seen of it. The original and every subject are called here.

Invariant: whoever is called, the same is looked at; nothing here knows which of them is right.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch.autograd import forward_ad

from tensorfarm.contract.exchange import CallReport
from tensorfarm.contract.refusal import one_line
from tensorfarm.gate import other_streams
from tensorfarm.gate.aliases import aliases
from tensorfarm.gate.copies import snapshot
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.opaque import words_of
from tensorfarm.gate.process_state import process_state
from tensorfarm.gate.reused import held
from tensorfarm.gate.touched import marks, touched
from tensorfarm.gate.trial import Derivative

RECOMPILE_BLOCKED = "RecompileBlocked"
# Cotangents by the flat outputs, tangents by the flat inputs: positions to tensors.
Vectors = Callable[[Sequence[Any]], Mapping[int, torch.Tensor]]


@dataclass(frozen=True)
class Returned:
    """What a call gave: flat leaves, and the text of the structure that they came in. ``left``: by place, what it put
    into the containers among its arguments."""

    leaves: Sequence[Any]
    structure: str
    left: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Callee(Protocol):
    """``parameters`` and ``buffers`` are the live tensors by qualified name."""

    @property
    def parameters(self) -> Mapping[str, torch.Tensor]: ...
    @property
    def buffers(self) -> Mapping[str, torch.Tensor]: ...
    def call(self, leaves: Mapping[str, Any]) -> Returned: ...


@dataclass
class Values:
    """What a call gave so far; ``stage`` is where it is, so that an error can say where it was.
    ``grad_enabled`` is around the call itself: whoever called put back its own."""

    outputs: Sequence[Any] = ()
    structure: str = ""
    left: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tensors: dict[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    stage: str = "forward"
    grad_enabled: tuple[bool, bool] | None = None

    def add(self, key: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            # Forward mode says zeros without memory for what does not depend on anything.
            plain = (
                torch.zeros(value.shape, dtype=value.dtype, device=value.device) if value._is_zerotensor() else value
            )
            self.tensors[key] = plain if plain.layout is torch.strided else plain.to_dense()


def evaluate(callee: Callee, leaves: Mapping[str, Any], derivative: Derivative, vectors: Vectors, into: Values) -> None:
    """Forward, and the derivative asked for. Lets through whatever the callee raises."""
    if derivative is Derivative.JVP:
        _forward_mode(callee, leaves, vectors, into)
        return
    inputs = _wanting(leaves)
    differentiates = derivative is not Derivative.NONE
    with torch.set_grad_enabled(differentiates):
        returned = callee.call(leaves)
        into.grad_enabled = (differentiates, torch.is_grad_enabled())
    _keep_outputs(returned, into)
    if derivative in (Derivative.NONE, Derivative.GRAPH):
        return
    into.stage = "backward"
    wanted = _trained(callee) | inputs
    twice = derivative is Derivative.VJP_OF_VJP
    first = _gradients(returned.leaves, wanted, vectors(returned.leaves), create_graph=twice)
    for name, value in first.items():
        into.add(f"gradient:{name}", value)
    if twice:
        into.stage = "second backward"
        again = [value for value in first.values() if value is not None and value.requires_grad]
        for name, value in _accumulated(again, wanted).items():
            into.add(f"second:{name}", value)


def differentiated(callee: Callee, leaves: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """What gradients are taken by: parameters by qualified name, inputs as ``input:NAME``."""
    return _trained(callee) | _wanting(leaves)


def _trained(callee: Callee) -> dict[str, torch.Tensor]:
    return {name: value for name, value in callee.parameters.items() if value.requires_grad}


def _wanting(leaves: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Inputs that gradients are taken by, as ``input:NAME``. Asked before the call: one that is written to may come to
    want one."""
    inputs = {f"input:{name}": value for name, value in leaves.items() if isinstance(value, torch.Tensor)}
    return {name: value for name, value in inputs.items() if value.requires_grad}


def differentiable(outputs: Sequence[Any]) -> list[int]:
    """Positions of the outputs that a gradient can be asked of."""
    return [
        position for position, value in enumerate(outputs) if isinstance(value, torch.Tensor) and value.requires_grad
    ]


def observed(
    callee: Callee,
    leaves: Mapping[str, Any],
    derivative: Derivative,
    vectors: Vectors,
    seed: int,
    *,
    copied: bool = True,
) -> Observation:
    """Call and look. What the callee raises is in the report. ``copied``: tensors outlive the next call."""
    seed_generators(seed)
    parameters = callee.parameters
    inputs = {f"input:{name}": value for name, value in leaves.items() if isinstance(value, torch.Tensor)}
    marked, elsewhere = marks(parameters, inputs), other_streams.position()
    before, values = process_state(), Values()
    started = time.perf_counter()
    error: BaseException | None = None
    try:
        evaluate(callee, leaves, derivative, vectors, values)
    except (Exception, SystemExit) as raised:
        # Whoever exits in a call would end a live caller's process, and with 0 as if all were well.
        error = raised
    except BaseException as raised:
        # Inductor's caches swallow exceptions, so a compilation that is not allowed is no Exception.
        if type(raised).__name__ != RECOMPILE_BLOCKED:
            raise
        error = raised
    seconds = time.perf_counter() - started
    after = process_state()
    # Where these streams are is the process's own: an expectation holds no more than whether they moved.
    before["other_streams"], after["other_streams"] = "there", "there"
    if other_streams.position() != elsewhere:
        after["other_streams"] = "further on"
    if values.grad_enabled is not None:
        before["grad_enabled"], after["grad_enabled"] = values.grad_enabled
    given = {f"output:{position}": value for position, value in enumerate(values.outputs)}
    flags = {key: value for key, value in given.items() if isinstance(value, torch.Tensor)}
    buffers = {f"buffer:{name}": value for name, value in callee.buffers.items()}
    state = {**buffers, **{f"parameter:{name}": value for name, value in parameters.items()}}
    report = CallReport(
        error=one_line(error) if error else "",
        error_type=type(error).__name__ if error else "",
        stage=values.stage if error else "",
        structure=values.structure,
        literals={
            str(at): _plain(item) for at, item in enumerate(values.outputs) if not isinstance(item, torch.Tensor)
        },
        left={name: _plain(item) for name, item in values.left.items() if not isinstance(item, torch.Tensor)},
        requires_grad={key.removeprefix("output:"): value.requires_grad for key, value in flags.items()},
        is_leaf={key.removeprefix("output:"): value.is_leaf for key, value in flags.items()},
        aliases=aliases({**flags, **inputs}, state),
        touched=touched(marked, marks(parameters, inputs)),
        state_before=before,
        state_after=after,
        stream=stream(),
        seconds=seconds,
    )
    tensors = {key: value.detach() for key, value in {**values.tensors, **inputs, **buffers}.items()}
    return Observation(snapshot(tensors), report, held(tensors)) if copied else Observation(tensors, report)


def seed_generators(seed: int) -> None:
    """``torch.manual_seed``, which takes a millisecond for each kind of device that is absent: it keeps a traceback."""
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def stream() -> str:
    """A digest of where the default generator is."""
    return hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest()[:16]


def _plain(item: Any) -> Any:
    """A literal as JSON holds it; of anything else only what it is."""
    if item is None or isinstance(item, (bool, int, str)):
        return item
    return float(item).hex() if isinstance(item, float) else words_of(item)


def _keep_outputs(returned: Returned, into: Values) -> None:
    into.outputs, into.structure, into.left = returned.leaves, returned.structure, returned.left
    for position, value in enumerate(returned.leaves):
        into.add(f"output:{position}", value)
    for name, value in returned.left.items():
        into.add(f"left:{name}", value)


def _gradients(
    outputs: Sequence[Any],
    wanted: Mapping[str, torch.Tensor],
    cotangents: Mapping[int, torch.Tensor],
    *,
    create_graph: bool,
) -> dict[str, torch.Tensor | None]:
    """By name; None where there is none. An output without a graph is left out: its flag says so."""
    able = differentiable(outputs)
    roots = [position for position in cotangents if position in able]
    if not wanted or not roots:
        return dict.fromkeys(wanted)
    seeds = [cotangents[position].to(outputs[position].dtype) for position in roots]
    found = torch.autograd.grad(
        [outputs[position] for position in roots],
        list(wanted.values()),
        seeds,
        allow_unused=True,
        create_graph=create_graph,
    )
    return dict(zip(wanted, found, strict=True))


def _accumulated(roots: Sequence[torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor | None]:
    """Gradients of gradients, by a whole backward pass: ``autograd.grad`` leaves out what it finds no way through, so
    that a node which refuses to be differentiated twice is never asked (torch 2.13)."""
    kept = {name: value.grad for name, value in wanted.items()}
    try:
        for value in wanted.values():
            value.grad = None
        if roots:
            torch.autograd.backward(list(roots), [_pattern(value) for value in roots])
        return {name: value.grad for name, value in wanted.items()}
    finally:
        for name, value in wanted.items():
            value.grad = kept[name]


def _pattern(like: torch.Tensor) -> torch.Tensor:
    """Weights that are the same for every callee and have no symmetry."""
    return (
        torch.linspace(-1.0, 1.5, max(like.numel(), 1), dtype=torch.float64)[: like.numel()].view(like.shape).to(like)
    )


def _forward_mode(callee: Callee, leaves: Mapping[str, Any], vectors: Vectors, into: Values) -> None:
    tangents = vectors(list(leaves.values()))
    with forward_ad.dual_level():
        duals = {
            name: forward_ad.make_dual(value.detach(), tangents[position].to(value.dtype, copy=True))
            if position in tangents
            else value
            for position, (name, value) in enumerate(leaves.items())
        }
        returned = callee.call(duals)
        parts = [
            forward_ad.unpack_dual(value) if isinstance(value, torch.Tensor) else value for value in returned.leaves
        ]
        primal = [part[0] if isinstance(part, tuple) else part for part in parts]
        _keep_outputs(replace(returned, leaves=primal), into)
        for position, part in enumerate(parts):
            into.add(f"tangent:{position}", part[1] if isinstance(part, tuple) else None)
