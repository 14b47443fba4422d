"""The oracle: the reference eager, then in float64, then in float64 with noise, and what that says of every value.

Runs before anything of a candidate is loaded, so nothing a candidate does can change it. Trials whose values are the
same, in another layout or another session, share its runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tensorfarm.contract.digest import sha256_json
from tensorfarm.contract.exchange import CallReport
from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.contract.refusal import one_line
from tensorfarm.contract.tensors import storage_sha256, tensor_sha256
from tensorfarm.gate import between, devices, other_streams, residuals
from tensorfarm.gate.calling import Values, differentiable, evaluate, observed, seed_generators
from tensorfarm.gate.cotangents import cotangents_of, tangents_of
from tensorfarm.gate.expand import Expanded
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.noise import Noise, Perturbed
from tensorfarm.gate.observation import Observation, spoken
from tensorfarm.gate.operator_classes import Watched
from tensorfarm.gate.recorded import Recorded, Recording
from tensorfarm.gate.reference import ModuleCallee, Reference
from tensorfarm.gate.reused import with_overwritten
from tensorfarm.gate.roundoff import roundoff_of
from tensorfarm.gate.spread import Spread, draws
from tensorfarm.gate.tentative import Tentative
from tensorfarm.gate.trial import Call, Depth, Derivative, Trial
from tensorfarm.gate.widen import Widened, wide_defaults, widened

_DEFAULT_DTYPE = torch.float32


def expectations(
    reference: Reference, trials: Iterable[Trial], contract: NumericalContract, seed: int
) -> dict[str, tuple[Expectation, ...]]:
    """Run the reference as each trial asks: once, or ``2 + samples`` times. Widens it for good.

    Nothing of a tentative trial that the original does not answer.
    """
    asked = [trial for trial in trials if not trial.tentative or _answers(reference, trial)]
    eager = {trial.name: _eager(reference, trial, seed) for trial in asked}
    keys = {trial.name: _content(trial, eager[trial.name]) for trial in asked if trial.depth >= Depth.EXACT}
    # Of trials that the oracle answers alike, the one that asks for most stands for all.
    deepest = {keys[trial.name]: trial for trial in sorted(asked, key=lambda trial: trial.depth) if trial.name in keys}
    for trial in asked:
        if trial.name in keys and not _alike(eager[trial.name], eager[deepest[keys[trial.name]].name]):
            keys[trial.name] += f" {trial.name}"
            deepest[keys[trial.name]] = trial
    grains = {key: _grain(reference, trial, eager[trial.name]) for key, trial in deepest.items()}
    reference.widen()
    known = {
        key: _wide_calls(reference, trial, eager[trial.name], grains[key], contract, seed)
        for key, trial in deepest.items()
    }
    found: dict[str, tuple[Expectation, ...]] = {}
    for trial in asked:
        calls = eager[trial.name]
        wide = known[keys[trial.name]] if trial.name in keys else [_Wide() for _ in calls]
        found[trial.name] = tuple(_joined(call, value) for call, value in zip(calls, wide, strict=True))
    return found


def _alike(calls: Sequence[Expectation], others: Sequence[Expectation]) -> bool:
    """Whether the original answered both alike; of equal values it may not, where it reads how they lie in memory."""
    return all(
        bool(one.eager.report.error) == bool(other.eager.report.error)
        and not any(_is_another(one, key, value) for key, value in other.eager.tensors.items())
        for one, other in zip(calls, others, strict=True)
    )


def _answers(reference: Reference, trial: Trial) -> bool:
    nothing = Expectation(Observation({}, CallReport()))
    runs = _run(reference, trial, [nothing] * len(trial.calls), Tentative(), wide=False)
    return not any(error for _, error in runs)


@dataclass(frozen=True)
class _Grain:
    """The coarsest floating dtype that the original computes in, and, where it computes in several, in which when.

    ``ways``: by call and tensor, the classes of the operators that made it. ``unsteady``: an output of the last call
    that this second run of the original gave another value of.
    """

    coarsest: torch.dtype
    recorded: Recorded | None
    ways: Sequence[Mapping[str, frozenset[str]]]
    unsteady: str


def _grain(reference: Reference, trial: Trial, calls: Sequence[Expectation]) -> _Grain:
    produced, begun = _Produced(), other_streams.position()
    runs = _run(reference, trial, calls, produced, wide=False)
    unsteady = _unsteady(calls, runs)
    if not unsteady and other_streams.position() != begun:
        unsteady = _elsewhere(reference, trial, calls)
    ways = [{key: produced.way_to(value) for key, value in values.items()} for values, _ in runs]
    coarsest = max(produced.found, key=lambda dtype: torch.finfo(dtype).eps, default=_DEFAULT_DTYPE)
    if trial.depth < Depth.BUDGET or len(produced.found) < 2:
        return _Grain(coarsest, None, ways, unsteady)
    recording = Recording()
    with Expanded(coarsest):
        _run(reference, trial, calls, recording, wide=False)
    return _Grain(coarsest, recording.recorded(), ways, unsteady)


def _unsteady(calls: Sequence[Expectation], runs: Sequence[tuple[Mapping[str, torch.Tensor], str]]) -> str:
    # What earlier calls gave may be views of what later ones wrote to.
    return next((key for key, value in runs[-1][0].items() if _is_another(calls[-1], key, value)), "")


def _elsewhere(reference: Reference, trial: Trial, calls: Sequence[Expectation]) -> str:
    """An output that hangs on where streams are that the gate does not seed."""
    for _ in other_streams.positions():
        found = _unsteady(calls, _run(reference, trial, calls, _Produced(), wide=False))
        if found:
            return found
    return ""


def _is_another(first: Expectation, key: str, again: torch.Tensor) -> bool:
    """Whether an output is another one and not the same otherwise rounded: it differs in more than half its digits."""
    seen = first.eager.tensors.get(key)
    if seen is None or not key.startswith("output:"):
        return False
    if (seen.shape, seen.dtype) != (again.shape, again.dtype) or not (again.is_floating_point() or again.is_complex()):
        return not torch.equal(seen, again.detach())
    half = math.sqrt(torch.finfo(again.dtype).eps)
    finite = seen[seen.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 0.0
    return not torch.allclose(seen, again.detach(), rtol=half, atol=half * scale, equal_nan=True)


class _Produced(Watched):
    """Notes the floating dtypes of results, complex ones by their parts, and how they came about."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        for item in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(item, torch.Tensor) and (item.is_floating_point() or item.is_complex()):
                self.found.add(item.dtype.to_real())
        return result


@dataclass(frozen=True)
class _Wide:
    """A call's float64 tensors and their spread, or why there are none."""

    exact: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    sigma: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    error: str = ""
    way: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    unsteady: str = ""


def _eager(reference: Reference, trial: Trial, seed: int) -> list[Expectation]:
    """The original as it is, with the cotangents that fit its outputs."""
    callee = reference.fresh(trial.variant, changes=_changes(trial))
    found: list[Expectation] = []
    for number, call in enumerate(trial.calls):
        if call.between:
            between.apply(callee.module, call.between, number)
        drawn: dict[int, torch.Tensor] = {}

        def vectors(
            values: Sequence[Any], call: Call = call, drawn: dict[int, torch.Tensor] = drawn
        ) -> Mapping[int, torch.Tensor]:
            made = _vectors(values, call, seed)
            drawn.update(made)
            return made

        leaves = reference.arguments(call.inputs, call.literals, wide=False)
        held = {f"input:{name}": value for name, value in leaves.items() if isinstance(value, torch.Tensor)}
        held |= {f"buffer:{name}": value for name, value in callee.buffers.items()}
        before = {key: storage_sha256(value) for key, value in held.items()}
        seed_generators(call.seed)
        stream = torch.get_rng_state()
        seen = observed(callee, leaves, call.derivative, vectors, call.seed)
        random = not torch.equal(stream, torch.get_rng_state())
        changed = {
            key for key, sha256 in before.items() if key in seen.tensors and storage_sha256(seen.tensors[key]) != sha256
        }
        found.append(Expectation(seen, cotangents=drawn, changed=frozenset(changed), random=random))
    seen = with_overwritten([call.eager for call in found])
    return [replace(call, eager=eager) for call, eager in zip(found, seen, strict=True)]


def _vectors(values: Sequence[Any], call: Call, seed: int) -> Mapping[int, torch.Tensor]:
    if call.derivative is Derivative.JVP:
        return tangents_of(values, seed)
    return cotangents_of(values, differentiable(values), call.cotangent, seed)


def _changes(trial: Trial) -> bool:
    return any(call.between for call in trial.calls)


def _wide_calls(
    reference: Reference,
    trial: Trial,
    calls: Sequence[Expectation],
    grain: _Grain,
    contract: NumericalContract,
    seed: int,
) -> list[_Wide]:
    samples = contract.monte_carlo.samples if trial.depth is Depth.BUDGET else 0
    noise = Noise(
        roundoff_of(grain.coarsest),
        seed + contract.monte_carlo.seed,
        grain.recorded,
        contract.accumulate,
        running_products=devices.adds_products_one_by_one(contract),
    )
    with Expanded(grain.coarsest), wide_defaults():
        mode = Widened()
        exact = _run(reference, trial, calls, mode, wide=True)
        noise.has_steps = mode.jumps
        spreads = [Spread(values) for values, _ in exact]
        for draw in draws(samples, seed, mode.jumps):
            noise.restart(draw.seed, draw.amplification, draw.zero, overflows=draw.overflows)
            for spread, (values, _) in zip(
                spreads, _run(reference, trial, calls, Perturbed(noise), wide=True), strict=True
            ):
                spread.add(values, draw)
    return [
        _Wide(values, spread.sigma(), error, way, grain.unsteady)
        for (values, error), spread, way in zip(exact, spreads, grain.ways, strict=True)
    ]


def _run(
    reference: Reference, trial: Trial, calls: Sequence[Expectation], mode: TorchDispatchMode, *, wide: bool
) -> list[tuple[dict[str, torch.Tensor], str]]:
    """Every call's tensors under a mode, and why it raised; calls after the first that raises go on."""
    callee = reference.fresh(trial.variant, changes=_changes(trial))
    found: list[tuple[dict[str, torch.Tensor], str]] = []
    for number, (call, eager) in enumerate(zip(trial.calls, calls, strict=True)):
        if call.between:
            between.apply(callee.module, call.between, number)
            if wide:
                callee.module.double()
        leaves = reference.arguments(call.inputs, call.literals, wide=wide)
        values, error = Values(), ""
        seed_generators(call.seed)
        try:
            with mode:
                evaluate(callee, leaves, call.derivative, lambda _, given=eager.cotangents: given, values)
        except (Exception, SystemExit) as raised:
            error = one_line(raised)
        found.append((_kept(values, callee, leaves) if wide else values.tensors, error))
    return found


def _kept(values: Values, callee: ModuleCallee, leaves: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    found = dict(values.tensors)
    found |= {f"input:{name}": value for name, value in leaves.items() if isinstance(value, torch.Tensor)}
    state = {f"buffer:{name}": value for name, value in callee.buffers.items()}
    places = {value.untyped_storage().data_ptr() for value in (*state.values(), *callee.parameters.values())}
    # What is part of the module's state is put back before the next run.
    found = {
        key: value.detach().clone() if value.untyped_storage().data_ptr() in places else value.detach()
        for key, value in (found | state).items()
    }
    return {key: widened(value) for key, value in found.items()}


def _joined(eager: Expectation, wide: _Wide) -> Expectation:
    shapes = {key: value.shape for key, value in eager.eager.tensors.items()}
    other = next((key for key, value in wide.exact.items() if shapes.get(key, value.shape) != value.shape), "")
    if other and not wide.error:
        wide = replace(wide, error=f"{spoken(other)} comes in another shape there")
    seen = eager.eager.tensors
    exact, sigma = ({}, {}) if other else (wide.exact, wide.sigma)
    sigma = {key: residuals.rounded_up(seen[key], value) if key in seen else value for key, value in sigma.items()}
    found = replace(eager, exact=exact, sigma=sigma, oracle_error=wide.error)
    return replace(found, made_by=wide.way, unsteady=wide.unsteady)


def _content(trial: Trial, calls: Sequence[Expectation]) -> str:
    """Alike for trials that the oracle answers alike: values, derivatives, changes; strides only where they matter."""
    told: list[Any] = [trial.variant]
    for call, expected in zip(trial.calls, calls, strict=True):
        values = {name: tensor_sha256(value) for name, value in call.inputs.items()}
        places = [value.untyped_storage().data_ptr() for value in call.inputs.values()]
        strides = {name: list(value.stride()) for name, value in call.inputs.items()}
        shared = len(set(places)) < len(places) or any(0 in stride for stride in strides.values())
        cotangents = {str(position): tensor_sha256(value) for position, value in expected.cotangents.items()}
        literals = {name: repr(value) for name, value in call.literals.items()}
        layout = strides if expected.changed or shared else {}
        layout = {**layout, "places": [places.index(place) for place in places]} if layout else {}
        told.append([values, call.derivative, call.between, call.seed, cotangents, literals, layout])
    return sha256_json(told)
