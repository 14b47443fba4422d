"""Sites of an Inductor compilation: wherever it asks whether an application may be left out, it is answered here.

Inductor asks ``CompilerBisector.disable_subsystem`` before each graph pass, each decomposition and each lowering of a
node. Invariant: sites are numbered in the order of asking over forward and backward, so with the first n on the
compilation is the full one up to its n-th site. Bisection as torch knows it stays off: it would bypass the caches.

A site is also known by what Inductor itself says when it asks: the subsystem, the text ``told``, and the ``occurrence``
of the two (the first is 0). Whoever compiles anew finds it by that, and needs no rules about what has a number.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch.fx.traceback
from torch._inductor import compile_fx
from torch._inductor.compiler_bisector import CompilerBisector
from torch._inductor.fx_passes import joint_graph, post_grad, pre_grad
from torch._inductor.lowering import fallbacks, lowerings
from torch.fx.passes.graph_transform_observer import GraphTransformObserver

from tensorfarm.compiler.fx_snapshot import Snapshot
from tensorfarm.compiler.inductor_decisions import Recorder
from tensorfarm.compiler.sequence import SWITCHED_OFF, Decided
from tensorfarm.contract.digest import sha256_json
from tensorfarm.contract.manifest import Decision, Entry, EntryKind, Numerics
from tensorfarm.contract.switches import Switches

DECOMPOSITION, LOWERINGS = "decomposition", "lowerings"
PASSES = ("pre_grad_passes", "joint_graph_passes", "post_grad_passes")
CUSTOM_PASS = "post_grad_custom_post_pass"
# Never off. These passes turn what others leave behind into something that can be lowered at all.
REQUIRED_PASSES = frozenset(
    {
        "decompose_auto_functionalized",
        "decompose_map_to_while_loop",
        "decompose_scan_to_while_loop",
        "decompose_triton_kernel_wrapper_functional",
        "fix_auto_functionalized_dtype_views",
        "stable_sort",
    }
)
# Inductor believes in other strides of these operators' results than they return.
REQUIRED_DECOMPOSITIONS = frozenset({"aten.hardswish_backward.default", "aten.roll.default"})
_OPERATOR = re.compile(r"<OpOverload\(op='(?P<op>[^']+)', overload='(?P<overload>[^']+)'\)>")


@dataclass
class _Pass:
    """A graph pass that is running. It has a number once Inductor has asked whether it may be left out."""

    before: Snapshot
    start_ns: int = field(default_factory=time.perf_counter_ns)
    asked: Mapping[str, str] | None = None
    ordinal: int | None = None
    off: bool = False


class Switchboard:
    """Answers Inductor's questions and writes each down. ``custom`` names the user's own post-grad pass."""

    def __init__(self, recorder: Recorder, switches: Switches, custom: str) -> None:
        self.recorder, self.switches, self.custom = recorder, switches, custom
        self.n_sites = 0
        self.running: list[_Pass] = []
        self.preparing = 0
        self.places = Counter[str]()
        self.questions = Counter[tuple[str, str]]()
        self.undecomposed = set[str]()

    def left_out(self, subsystem: str, told: str) -> bool:
        """Whether what Inductor is about to do is switched off. Anything that could never be is on, and no site."""
        if subsystem in PASSES:
            return self._pass(subsystem, told)
        # What a pass or a table of patterns traces for itself is part of that pass.
        if self.preparing or self.running:
            return False
        if subsystem == DECOMPOSITION:
            return self._decomposition(told)
        return subsystem == LOWERINGS and self._lowering(told)

    def _pass(self, subsystem: str, name: str) -> bool:
        current = self.running[-1]
        current.asked = self._asked(subsystem, name)
        if name not in REQUIRED_PASSES:
            current.ordinal, current.off = self._numbered()
        return current.off

    def _decomposition(self, told: str) -> bool:
        found = _OPERATOR.fullmatch(told)
        name = f"{found['op']}.{found['overload']}" if found else told
        ordinal, off = (None, False) if name in REQUIRED_DECOMPOSITIONS else self._numbered()
        if off:
            self.undecomposed.add(name)
        trace = torch.fx.traceback.get_current_meta().get("stack_trace") or ""
        origins = ",".join(self.recorder.named_in(trace))
        said = {"nodes": "", "origins": origins, **self._asked(DECOMPOSITION, told)}
        self._add(name, DECOMPOSITION, ordinal, off, said)
        return off

    def _lowering(self, node: str) -> bool:
        target = self.recorder.operators.get(node)
        name = str(target)
        # Without its decomposition this operator cannot be lowered: it follows from that site and is none itself.
        if name in self.undecomposed and target not in lowerings:
            return True
        # One that is always called as it is has nothing to switch but the strides that it was promised.
        called = target in fallbacks or target not in lowerings
        ordinal, off = (None, False) if called else self._numbered()
        origins = ",".join(self.recorder.origins.get(node, ()))
        said = {"nodes": node, "origins": origins, **self._asked(LOWERINGS, node)}
        self._add(name, LOWERINGS, ordinal, off, said)
        return off

    def _asked(self, subsystem: str, told: str) -> dict[str, str]:
        question = (subsystem, told)
        self.questions[question] += 1
        return {"told": told, "occurrence": str(self.questions[question] - 1)}

    def _numbered(self) -> tuple[int, bool]:
        ordinal = self.n_sites
        self.n_sites += 1
        return ordinal, not self.switches.on(ordinal)

    def pass_starts(self, graph: torch.fx.Graph) -> None:
        self.running.append(_Pass(Snapshot.of(graph)))

    def pass_ends(self, name: str, subsystem: str, graph: torch.fx.Graph) -> None:
        done, after = self.running.pop(), Snapshot.of(graph)
        wall_ns = time.perf_counter_ns() - done.start_ns
        decision = Decision.NO_OP if done.before.sha256 == after.sha256 else Decision.APPLIED
        hashes = {"ir_hash_before": done.before.sha256, "ir_hash_after": after.sha256}
        if done.asked is None:
            attributes = {"what": "pass", "subsystem": subsystem}
            entry = Entry(
                EntryKind.LOWERING, name, decision, numerics=Numerics.REASSOCIATION, attributes=attributes, **hashes
            )
            self.recorder.decided.append(Decided(entry, wall_ns))
            return
        nodes = done.before.changed(after)
        origins = ",".join(self.recorder.named_in("\n".join(nodes.values())))
        said = {"nodes": ",".join(nodes), "origins": origins, **done.asked}
        if name == CUSTOM_PASS:
            said["custom"] = self.custom
        self._add(name, subsystem, done.ordinal, done.off, said, decision, wall_ns, hashes)

    def _add(
        self,
        name: str,
        subsystem: str,
        ordinal: int | None,
        off: bool,
        attributes: Mapping[str, str],
        decision: Decision = Decision.APPLIED,
        wall_ns: int = 0,
        hashes: Mapping[str, str] | None = None,
    ) -> None:
        numbered = {"required": "yes"} if ordinal is None else {"ordinal": str(ordinal)}
        stage = "forward" if subsystem == PASSES[0] else self.recorder.stage
        said = {"subsystem": subsystem, "stage": stage, **numbered, **attributes}
        entry = Entry(
            EntryKind.SITE,
            name,
            Decision.REFUSED if off else decision,
            self._place(name, subsystem, stage, attributes["origins"]),
            SWITCHED_OFF if off else "",
            Numerics.REASSOCIATION,
            attributes=said,
            **(hashes or {}),
        )
        self.recorder.decided.append(Decided(entry, wall_ns))

    def _place(self, *place: str) -> str:
        key = "\n".join(place)
        self.places[key] += 1
        return sha256_json([*place, self.places[key]])[:16]


@contextmanager
def switching(board: Switchboard) -> Generator[None]:
    """Answer Inductor from ``board`` in this block."""
    with ExitStack() as stack:
        for owner, name, wrapper in (
            (CompilerBisector, "disable_subsystem", _asks),
            (GraphTransformObserver, "__enter__", _pass_starts),
            (GraphTransformObserver, "__exit__", _pass_ends),
            (compile_fx, "fx_codegen_and_compile", _compiles),
            *((module, "lazy_init", _prepares) for module in (joint_graph, post_grad, pre_grad)),
        ):
            original = vars(owner)[name]
            setattr(owner, name, wrapper(original, board))
            stack.callback(setattr, owner, name, original)
        yield


def _asks(_original: Any, board: Switchboard) -> Any:
    def disable_subsystem(_backend: str, subsystem: str, debug_info: Callable[[], str] | None = None) -> bool:
        return board.left_out(subsystem, debug_info() if debug_info else "")

    return staticmethod(disable_subsystem)


def _pass_starts(original: Callable[..., Any], board: Switchboard) -> Callable[..., Any]:
    def enter(self: Any) -> Any:
        entered = original(self)
        board.pass_starts(self.gm.graph)
        return entered

    return enter


def _pass_ends(original: Callable[..., Any], board: Switchboard) -> Callable[..., Any]:
    def leave(self: Any, *raised: Any) -> Any:
        answer = original(self, *raised)
        board.pass_ends(self.passname, self.subsystem or "", self.gm.graph)
        return answer

    return leave


def _compiles(original: Callable[..., Any], board: Switchboard) -> Callable[..., Any]:
    def fx_codegen_and_compile(*arguments: Any, **options: Any) -> Any:
        outside = board.recorder.stage
        board.recorder.stage = "backward" if options.get("is_backward") else "forward"
        try:
            return original(*arguments, **options)
        finally:
            board.recorder.stage = outside

    return fx_codegen_and_compile


def _prepares(original: Callable[..., Any], board: Switchboard) -> Callable[..., Any]:
    """Tables of patterns are traced once a process: no part of this compilation."""

    def lazy_init(*arguments: Any, **options: Any) -> Any:
        board.preparing += 1
        try:
            return original(*arguments, **options)
        finally:
            board.preparing -= 1

    return lazy_init
