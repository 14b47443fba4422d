"""The oracle: the reference eager, then in float64, then in float64 with noise, and what that says of every value.

Runs before anything of a candidate is loaded, so nothing a candidate does can change it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tensorfarm.contract.graph import Graph
from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.contract.program import Program
from tensorfarm.contract.tensors import storage_sha256
from tensorfarm.gate.expand import Expanded
from tensorfarm.gate.expectation import Expectation, Expected
from tensorfarm.gate.noise import Noise, Perturbed
from tensorfarm.gate.reference import Reference, Run, differentiable
from tensorfarm.gate.widen import Widened, wide_defaults, widened

_DEFAULT_DTYPE = torch.float32


def expectation_of(program: Program, contract: NumericalContract, mode: str, seed: int) -> Expectation:
    """Run the reference ``2 + samples`` times. ``mode`` is ``training`` (with gradients) or ``inference``."""
    reference = Reference(program)
    before = reference.fresh_inputs(wide=False)
    stream = torch.get_rng_state()
    eager, cotangents = _eager(reference, mode == "training", seed)
    random = not torch.equal(stream, torch.get_rng_state())
    narrow = computing_dtype(program.graph)
    reference.widen()
    with Expanded(narrow), wide_defaults():
        exact = _wide_run(reference, Widened(), cotangents)
        noise = Noise(torch.finfo(narrow).eps / 2, seed + contract.monte_carlo.seed)
        spread = _Spread(exact)
        for sample in range(contract.monte_carlo.samples):
            noise.restart(1_000_003 * (sample + 1) + seed)
            spread.add(_wide_run(reference, Perturbed(noise), cotangents))
    return _assembled(program, before, eager, exact, spread, cotangents or {}, random)


def computing_dtype(graph: Graph) -> torch.dtype:
    """The floating dtype with the largest roundoff that a node of the graph produces; float32 where none does."""
    found = {
        spec.dtype.to_real()
        for node in graph.nodes.values()
        for spec in node.results
        if spec is not None and (spec.dtype.is_floating_point or spec.dtype.is_complex)
    }
    return max(found, key=lambda dtype: torch.finfo(dtype).eps, default=_DEFAULT_DTYPE)


def _eager(reference: Reference, training: bool, seed: int) -> tuple[Run, dict[int, torch.Tensor] | None]:
    """The original as it is, and the cotangents that fit its outputs."""
    if not training:
        return reference.call(reference.fresh_inputs(wide=False), None), None
    forward = reference.call(reference.fresh_inputs(wide=False), {})
    cotangents = drawn_cotangents(forward.outputs, seed)
    return reference.call(reference.fresh_inputs(wide=False), cotangents), cotangents


def drawn_cotangents(outputs: Sequence[Any], seed: int) -> dict[int, torch.Tensor]:
    """One of normal numbers, contiguous, for every differentiable output, by its position."""
    generator = torch.Generator().manual_seed(seed)
    return {position: _normal(outputs[position], generator) for position in differentiable(outputs)}


def _normal(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    dtype = torch.complex128 if like.is_complex() else torch.float64
    return torch.randn(like.shape, generator=generator, dtype=dtype).to(like.dtype)


def _wide_run(reference: Reference, mode: Widened, cotangents: Mapping[int, torch.Tensor] | None) -> Run:
    inputs = reference.fresh_inputs(wide=True)
    with mode:
        return reference.call(inputs, cotangents)


def _named(run: Run) -> dict[tuple[str, Any], torch.Tensor]:
    """Every tensor of a run by kind and name; what is absent or no tensor is left out."""
    found: dict[tuple[str, Any], torch.Tensor] = {
        ("output", position): value for position, value in enumerate(run.outputs) if isinstance(value, torch.Tensor)
    }
    found |= {("gradient", name): value for name, value in run.gradients.items() if value is not None}
    found |= {("input", name): value for name, value in run.inputs.items()}
    found |= {("buffer", name): value for name, value in run.buffers.items()}
    return {key: value.detach() for key, value in found.items()}


def _real(run: Run) -> dict[tuple[str, Any], torch.Tensor]:
    """The floating tensors of a run, complex ones as pairs of real numbers."""
    parts = {
        key: torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
        for key, value in _named(run).items()
    }
    return {key: value for key, value in parts.items() if value.is_floating_point()}


class _Spread:
    """Root mean square distance of the perturbed runs from the exact one, element by element."""

    def __init__(self, exact: Run) -> None:
        self.exact = _real(exact)
        self.squares = {key: torch.zeros_like(value) for key, value in self.exact.items()}
        self.count = 0

    def add(self, run: Run) -> None:
        """A sample that is special where the exact value is finite makes that element's spread infinite."""
        self.count += 1
        for key, value in _real(run).items():
            if key in self.exact:
                distance = value - self.exact[key]
                self.squares[key].addcmul_(distance, distance)

    def sigma(self, key: tuple[str, Any]) -> torch.Tensor | None:
        if key not in self.squares:
            return None
        found = (self.squares[key] / self.count).sqrt()
        found[~self.exact[key].isfinite()] = 0.0
        return torch.nan_to_num(found, nan=torch.inf, posinf=torch.inf)


def _assembled(
    program: Program,
    before: Mapping[str, torch.Tensor],
    eager: Run,
    exact: Run,
    spread: _Spread,
    cotangents: Mapping[int, torch.Tensor],
    random: bool,
) -> Expectation:
    eager_values, exact_values = _named(eager), _named(exact)

    def expected(key: tuple[str, Any], requires_grad: bool = False) -> Expected:
        return Expected(eager_values[key], widened(exact_values[key]), spread.sigma(key), requires_grad)

    weights = program.graph.weights
    return Expectation(
        outputs=tuple(
            expected(("output", position), value.requires_grad) if isinstance(value, torch.Tensor) else value
            for position, value in enumerate(eager.outputs)
        ),
        gradients={
            name: None if value is None else expected(("gradient", name)) for name, value in eager.gradients.items()
        },
        inputs={
            name: expected(("input", name))
            for name, value in eager.inputs.items()
            if storage_sha256(value) != storage_sha256(before[name])
        },
        buffers={
            weights[name].target: expected(("buffer", name))
            for name, value in eager.buffers.items()
            if storage_sha256(value) != storage_sha256(program.weights[name])
        },
        cotangents=cotangents,
        random=random,
    )
