"""Live objects, judged in the process that holds them: no walls, so it is said that there were none.

The oracle runs on a copy before the compiled object is called, and what they share is put back after each trial. A
compiled object that patches torch can still deceive what runs after it, which only a process of its own rules out.
Invariant: no trial sees what an earlier one wrote.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from tensorfarm.contract.capture import split_inputs
from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.contract.program import MODES
from tensorfarm.contract.refusal import Refusal, one_line
from tensorfarm.gate import between
from tensorfarm.gate.attestation import Certificate, certified, gate_version, in_place
from tensorfarm.gate.caller import undisturbed
from tensorfarm.gate.calling import Returned, observed
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.examination import examined, required_of, trials_of
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.finding import inapplicable
from tensorfarm.gate.kept_module import KeptModules, named_tensors
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.oracle import expectations
from tensorfarm.gate.packed import call_packed
from tensorfarm.gate.reference import Reference, reference_of_module
from tensorfarm.gate.reused import with_overwritten
from tensorfarm.gate.second_oracle import with_tie_breaks
from tensorfarm.gate.setting import Facts, Leaf, Level, Setting
from tensorfarm.gate.trial import MAIN, Trial
from tensorfarm.gate.verdict import Verdict, verdict_of
from tensorfarm.gate.witness import unfit_answers, unfit_inputs, unfit_parameters, unsteady

KIND = "live"
_FUNCTION_ORIGINAL = "_torchdynamo_orig_callable"
_NO_LIMIT = 1 << 20
_LOAD_GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_NEED_A_PROCESS = {
    "determinism": "fresh processes and other numbers of threads",
    "toolchains": "another compiler of C++",
}


@dataclass(frozen=True)
class LiveCallee:
    """The compiled object, called by leaves. ``holder`` has the tensors that both it and the original are made of;
    ``is_the_module``: it is the original's module, compiled, so that what is changed in that changes it."""

    target: Callable[..., Any]
    holder: torch.nn.Module
    names: frozenset[str]
    in_spec: pytree.TreeSpec
    is_the_module: bool

    @property
    def parameters(self) -> Mapping[str, torch.Tensor]:
        return {name: value for name, value in self.holder.named_parameters() if name in self.names}

    @property
    def buffers(self) -> Mapping[str, torch.Tensor]:
        return {name: value for name, value in self.holder.named_buffers() if name in self.names}

    def call(self, leaves: Mapping[str, Any]) -> Returned:
        return call_packed(self.target, leaves, self.in_spec)


def judged_in_place(
    reference: Callable[..., Any],
    compiled: Callable[..., Any],
    inputs: Any,
    contract: NumericalContract,
    mode: str | None,
    level: Level,
    seed: int,
) -> Certificate:
    """The verdict on ``compiled``. Refuses an original that cannot be a witness, and what is no such pair at all."""
    _refuse(reference, compiled, inputs)
    module = reference if isinstance(reference, torch.nn.Module) else _Function(reference)
    with undisturbed(), _every_recompilation():
        try:
            original = reference_of_module(module, *split_inputs(inputs))
        except Exception as error:
            raise Refusal(
                f"the original cannot be copied: {one_line(error)}",
                limit="certify judges by a copy that nothing compiled can reach",
                next_step='give import strings, "package.module:factory"',
            ) from error
        _refuse_devices(module, original.leaves)
        subject = _callee(compiled, module, original)
        asked = mode or _mode(module, original.leaves)
        setting = Setting(contract, original.leaves, _facts(subject), asked, level, seed)
        verdict = _judged(setting, original, subject, module)
    return certified(verdict, seed, gate_version(), in_place(contract, level))


def _judged(setting: Setting, original: Reference, subject: LiveCallee, module: torch.nn.Module) -> Verdict:
    parameters = {name: value.dtype for name, value in module.named_parameters()}
    outside = unfit_inputs(setting) or unfit_parameters(setting.contract, parameters)
    if outside:
        return verdict_of(outside, ())
    trials = {name: replace(trial, sessions=(MAIN,)) for name, trial in trials_of(setting).items() if not trial.variant}
    expected = expectations(original, trials.values(), setting.contract, setting.seed)
    unfit = unsteady(expected["example"])
    if unfit:
        return verdict_of(unfit, ())
    kept = KeptModules([module, subject.holder])
    seen: dict[str, tuple[Observation, ...]] = {}
    for name, trial in ((name, trial) for name, trial in trials.items() if name in expected):
        try:
            seen[name] = _called(original, subject, trial, expected[name])
        finally:
            kept.put_back()
    evidence = Evidence(setting, trials, expected, {MAIN.name: seen})
    findings = unfit_answers(setting.contract, expected["example"])
    findings += with_tie_breaks(examined(evidence), evidence, original.unwidened())
    if setting.level is Level.FULL:
        reason = "it needs a process of its own, and a live object has none"
        findings += [inapplicable(name, f"{name} in {what}: {reason}") for name, what in _NEED_A_PROCESS.items()]
    return verdict_of(findings, required_of(setting))


def _called(
    original: Reference, subject: LiveCallee, trial: Trial, expected: Sequence[Expectation]
) -> tuple[Observation, ...]:
    found: list[Observation] = []
    for number, (call, wanted) in enumerate(zip(trial.calls, expected, strict=True)):
        if call.between:
            between.apply(subject.holder, call.between, number)
        leaves = original.arguments(call.inputs, call.literals, wide=False)

        def vectors(values: Sequence[Any], wanted: Expectation = wanted) -> Mapping[int, torch.Tensor]:
            return {position: vector for position, vector in wanted.cotangents.items() if position < len(values)}

        with undisturbed():  # what one call leaves behind is told of that call alone
            found.append(observed(subject, leaves, call.derivative, vectors, call.seed))
    return tuple(with_overwritten(found))


def _callee(compiled: Callable[..., Any], module: torch.nn.Module, original: Reference) -> LiveCallee:
    """A module that ``torch.compile`` wraps is looked through, so that its tensors have the original's names."""
    inner = getattr(compiled, "_orig_mod", compiled)
    names = frozenset(_names(module))
    if not isinstance(inner, torch.nn.Module) or not names <= _names(inner):
        return LiveCallee(compiled, module, names, original.in_spec, is_the_module=False)
    same = type(inner) is type(module) and names == frozenset(_names(inner))
    return LiveCallee(compiled, inner, names, original.in_spec, is_the_module=same)


def _facts(subject: LiveCallee) -> Facts:
    """A traced graph is built for the shapes that it was traced with, and may refuse others."""
    built = isinstance(subject.target, torch.fx.GraphModule)
    return Facts(
        KIND,
        fixed_shapes=built,
        fixed_layouts=built,
        isolated=False,
        module=subject.is_the_module,
        guarded=not built,
        dynamo=hasattr(subject.target, "_orig_mod"),
    )


def _names(module: torch.nn.Module) -> set[str]:
    return {name for name, _ in (*module.named_parameters(), *module.named_buffers())}


def _mode(module: torch.nn.Module, leaves: Sequence[Leaf]) -> str:
    """Training where the module is in it and something wants a gradient."""
    wants = any(value.requires_grad for value in module.parameters()) or any(leaf.requires_grad for leaf in leaves)
    inference, training = MODES
    return training if module.training and wants else inference


class _Function(torch.nn.Module):
    """A function as a module without tensors."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def _refuse(reference: Any, compiled: Any, inputs: Any) -> None:
    for name, value in (("reference", reference), ("compiled", compiled)):
        if not callable(value):
            raise Refusal(
                f"{name} is {type(value).__name__}, which cannot be called",
                limit="two callables with one signature, or import strings for both",
                next_step="pass program.module() of an exported program" if name == "compiled" else "pass the module",
            )
    if hasattr(reference, "_orig_mod") or hasattr(reference, _FUNCTION_ORIGINAL):
        raise Refusal(
            "the reference is itself compiled",
            limit="an eager original",
            next_step="pass what was compiled as reference",
        )
    if isinstance(reference, torch.nn.Module) and any(map(is_lazy, named_tensors(reference).values())):
        raise Refusal(
            "the reference has parameters that get their shape in its first call",
            limit="parameters that are there",
            next_step="call it once with the example inputs before it is compiled",
        )
    if inputs is None:
        raise Refusal("there are no example inputs", next_step="give them: a tuple for positions, a dict for keywords")
    held = _held_module(reference)
    if held:
        raise Refusal(
            f"the reference is a function that uses the module {held!r}",
            limit="what it uses cannot be copied for the oracle",
            next_step="pass the module itself, or a module that has it as a part",
        )
    if torch.is_autocast_enabled("cpu"):
        raise Refusal(
            "certify was called under autocast, which would change the oracle too",
            next_step="put autocast into the forward passes, or leave the block first",
        )


def _held_module(reference: Any) -> str:
    """The name of a module with tensors that a function takes from around it; empty where there is none."""
    if not inspect.isfunction(reference):
        return ""
    cells = inspect.getclosurevars(reference).nonlocals
    named = {**reference.__globals__, **cells}
    used = dict.fromkeys((*_loaded_globals(reference.__code__), *cells))
    modules = {name: named[name] for name in used if isinstance(named.get(name), torch.nn.Module)}
    return next((name for name, value in modules.items() if any(True for _ in value.parameters())), "")


def _loaded_globals(code: CodeType) -> Iterator[str]:
    """Also those of functions and classes within. ``inspect.getclosurevars`` takes attributes' names for globals."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in _LOAD_GLOBALS:
            yield str(instruction.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _loaded_globals(inner)


def _refuse_devices(module: torch.nn.Module, leaves: Sequence[Leaf]) -> None:
    tensors = [*module.parameters(), *module.buffers(), *(leaf.example for leaf in leaves if leaf.example is not None)]
    away = next((value.device for value in tensors if value.device.type != MAIN.device), None)
    if away is not None:
        raise Refusal(
            f"a tensor of the original is on {away}",
            limit="live objects are judged on the cpu",
            next_step="give import strings and list the device in the contract",
        )


def _every_recompilation() -> AbstractContextManager[Any]:
    """Trials ask for many shapes and strides: past dynamo's limit it would run the original, and be judged by it."""
    config = sys.modules.get("torch._dynamo.config")
    if config is None:
        return nullcontext()
    return config.patch(recompile_limit=_NO_LIMIT, accumulated_recompile_limit=_NO_LIMIT)
