"""What Inductor decides while it compiles, as manifest entries: passes, post-grad nodes, kernels, fallbacks.

Inductor writes no such record, so its own functions are wrapped for the time of one compilation. Invariant: a graph
that a cache answered leaves no decisions, so the build folder is fresh; the caller checks that nothing was answered.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.graph import GraphLowering
from torch._inductor.scheduler import Scheduler
from torch._ops import OpOverload
from torch.fx.passes.graph_transform_observer import GraphTransformObserver

from tensorfarm.compiler.sequence import Decided
from tensorfarm.contract.digest import sha256_json
from tensorfarm.contract.manifest import Decision, Entry, EntryKind, Numerics

# Dynamo keeps the line of the module's generated code from which a node came; it assigns to the captured node's name.
_ASSIGNED = re.compile(r'File "<eval_with_key>[^\n]*\n\s+(\w+) = ')
_PLAIN = (bool, int, float, str, torch.dtype, torch.layout, torch.memory_format, torch.device, type(None))


class Recorder:
    """Collects decisions. ``captured`` are the names that origins may take; anything else is Inductor's own."""

    def __init__(self, captured: Iterable[str]) -> None:
        self.captured = frozenset(captured)
        self.decided: list[Decided] = []
        self.stage = "forward"
        self.origins: dict[str, tuple[str, ...]] = {}

    def passed(self, name: str, subsystem: str, before: str, after: str, wall_ns: int) -> None:
        entry = Entry(
            EntryKind.LOWERING,
            name,
            Decision.NO_OP if before == after else Decision.APPLIED,
            numerics=Numerics.REASSOCIATION,
            ir_hash_before=before,
            ir_hash_after=after,
            attributes={"what": "pass", "subsystem": subsystem},
        )
        self.decided.append(Decided(entry, wall_ns))

    def lowered(self, graph: torch.fx.Graph, stage: str) -> None:
        """The post-grad graph of one stage is about to become kernels."""
        self.stage = stage
        self.origins = {}
        for node in graph.nodes:
            if node.op != "call_function":
                continue
            lines = _ASSIGNED.findall(node.meta.get("stack_trace") or "")
            self.origins[node.name] = tuple(name for name in dict.fromkeys(lines) if name in self.captured)
            self._add(EntryKind.LOWERING, node.name, [node.name], what="node", op=str(node.target))

    def kernel(self, name: str, nodes: Iterable[Any]) -> None:
        self._add(EntryKind.KERNEL, name, _sources(node.node for node in nodes), what="generated")

    def extern(self, node: Any) -> None:
        if isinstance(node, ir.MultiOutput):
            return
        fallback = isinstance(node, ir.FallbackKernel)
        name = str(getattr(node, "python_kernel_name", None) or type(node).__name__)
        kind = EntryKind.FALLBACK if fallback else EntryKind.KERNEL
        self._add(kind, name, _sources([node]), what="fallback" if fallback else "extern", buffer=node.get_name())

    def _add(self, kind: EntryKind, name: str, nodes: Iterable[str], **attributes: str) -> None:
        names = list(nodes)
        origins = dict.fromkeys(origin for node in names for origin in self.origins.get(node, ()))
        said = {"graph": self.stage, "nodes": ",".join(names), "origins": ",".join(origins), **attributes}
        self.decided.append(Decided(Entry(kind, name, numerics=Numerics.REASSOCIATION, attributes=said)))


@contextmanager
def recording(recorder: Recorder) -> Generator[None]:
    """Record what Inductor decides in this block."""
    with ExitStack() as stack:
        for owner, name, wrapper in (
            (GraphTransformObserver, "__enter__", _pass_starts),
            (GraphTransformObserver, "__exit__", _pass_ends),
            (GraphLowering, "run", _lowers),
            (CppScheduling, "define_kernel", _generates),
            (Scheduler, "codegen_extern_call", _calls_extern),
        ):
            original = getattr(owner, name)
            setattr(owner, name, wrapper(original, recorder))
            stack.callback(setattr, owner, name, original)
        yield


def _pass_starts(original: Callable[..., Any], _recorder: Recorder) -> Callable[..., Any]:
    def enter(self: Any) -> Any:
        entered = original(self)
        self.farm_before = (fx_hash(self.gm.graph), time.perf_counter_ns())
        return entered

    return enter


def _pass_ends(original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    def leave(self: Any, *raised: Any) -> Any:
        answer = original(self, *raised)
        before, start = self.farm_before
        after, wall_ns = fx_hash(self.gm.graph), time.perf_counter_ns() - start
        recorder.passed(self.passname, self.subsystem or "", before, after, wall_ns)
        return answer

    return leave


def _lowers(original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    def run(self: Any, *arguments: Any) -> Any:
        recorder.lowered(self.module.graph, "backward" if self.is_backward else "forward")
        return original(self, *arguments)

    return run


def _generates(original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    def define_kernel(self: Any, source: str, nodes: Any, *rest: Any, **options: Any) -> Any:
        name = original(self, source, nodes, *rest, **options)
        recorder.kernel(name, nodes)
        return name

    return define_kernel


def _calls_extern(original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    def codegen_extern_call(self: Any, node: Any) -> Any:
        recorder.extern(node.node)
        return original(self, node)

    return codegen_extern_call


def _sources(buffers: Iterable[Any]) -> list[str]:
    """Names of the post-grad nodes that buffers were lowered from, in a fixed order."""
    return sorted({origin.name for buffer in buffers if buffer is not None for origin in buffer.origins})


def fx_hash(graph: torch.fx.Graph) -> str:
    """sha256 of an fx graph's nodes and arguments: chains Inductor's passes, comparable only with itself."""

    def spelled(value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return ["node", value.name]
        if isinstance(value, (tuple, list)):
            return [spelled(item) for item in value]
        if isinstance(value, dict):
            return [[str(key), spelled(item)] for key, item in value.items()]
        return f"{type(value).__name__} {value}" if isinstance(value, _PLAIN) else type(value).__name__

    return sha256_json(
        [[node.op, node.name, _target(node.target), spelled(node.args), spelled(node.kwargs)] for node in graph.nodes]
    )


def _target(target: object) -> str:
    """An operator by its full name; never ``repr``, which may hold an address."""
    return str(target) if isinstance(target, (str, OpOverload)) else getattr(target, "__name__", "")
