"""What Inductor decides while it compiles, as manifest entries: post-grad nodes, kernels, fallbacks.

Inductor writes no such record, so its own functions are wrapped for the time of one compilation. Invariant: a graph
that a cache answered leaves no decisions, so the build folder is fresh; the caller checks that nothing was answered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.graph import GraphLowering
from torch._inductor.scheduler import Scheduler

from tensorfarm.compiler.sequence import Decided
from tensorfarm.contract.manifest import Entry, EntryKind, Numerics

# Dynamo keeps the line of the module's generated code from which a node came; it assigns to the captured node's name.
_ASSIGNED = re.compile(r'File "<eval_with_key>[^\n]*\n\s+(\w+) = ')


class Recorder:
    """Collects decisions. ``captured`` are the names that origins may take; anything else is Inductor's own.

    ``stage`` is the graph at hand: forward, backward, or joint before the two are parted. ``origins`` and ``operators``
    are of its post-grad nodes, by name.
    """

    def __init__(self, captured: Iterable[str], stage: str) -> None:
        self.captured = frozenset(captured)
        self.stage = stage
        self.decided: list[Decided] = []
        self.origins: dict[str, tuple[str, ...]] = {}
        self.operators: dict[str, Any] = {}

    def named_in(self, trace: str) -> tuple[str, ...]:
        """Captured nodes that a stack trace names."""
        return tuple(name for name in dict.fromkeys(_ASSIGNED.findall(trace)) if name in self.captured)

    def lowered(self, graph: torch.fx.Graph) -> None:
        """The post-grad graph of one stage is about to become kernels."""
        calls = [node for node in graph.nodes if node.op == "call_function"]
        self.origins = {node.name: self.named_in(node.meta.get("stack_trace") or "") for node in calls}
        self.operators = {node.name: node.target for node in calls}
        for name, op in self.operators.items():
            self._add(EntryKind.LOWERING, name, [name], what="node", op=str(op))

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
            (GraphLowering, "run", _lowers),
            (CppScheduling, "define_kernel", _generates),
            (Scheduler, "codegen_extern_call", _calls_extern),
        ):
            original = getattr(owner, name)
            setattr(owner, name, wrapper(original, recorder))
            stack.callback(setattr, owner, name, original)
        yield


def _lowers(original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    def run(self: Any, *arguments: Any) -> Any:
        recorder.lowered(self.module.graph)
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
