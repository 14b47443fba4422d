"""What TorchDynamo did in this process: compilations, guards, graph breaks with their line, falls back to eager.

Read from torch's own records. Invariant: nothing counts that was done before ``forget``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, cast

import torch._dynamo
import torch._dynamo.utils as dynamo

_COMPILER = (
    "torch._inductor.compile_fx",
    "torch._inductor.graph",
    "torch._inductor.lowering",
    "torch._inductor.codegen",
)
_MOST_RECORDS = 4096
_CACHES = ("inductor", "aot_autograd")


def forget() -> None:
    """Drop all compiled code of this process and every record of it."""
    torch._dynamo.reset()
    dynamo.counters.clear()
    dynamo.graph_break_reasons.clear()
    dynamo.clear_compilation_metrics()
    dynamo.set_compilation_metrics_limit(_MOST_RECORDS)


def evidence() -> dict[str, Any]:
    """``graphs``, ``guards``, ``recompilations`` and ``graph_breaks`` as texts, ``fell_back`` with why code ran eager.

    ``eager`` says that nothing was compiled at all; ``caches`` counts hits and misses by name.
    """
    records = [record for record in dynamo.get_compilation_metrics() if record.co_name]
    failures = [record for record in dynamo.get_compilation_metrics() if record.fail_type]
    counters = dynamo.counters
    graphs = int(counters["stats"]["unique_graphs"])
    return {
        "graphs": graphs,
        "guards": sum(record.guard_count or 0 for record in records),
        "recompilations": [
            f"{record.co_filename}:{record.co_firstlineno} {record.co_name}: {_first_line(record.recompile_reason)}"
            for record in records
            if record.recompile_reason
        ],
        "graph_breaks": sorted({_broken(reason) for reason in dynamo.graph_break_reasons if reason.graph_break}),
        "fell_back": sorted({f"{record.fail_type}: {_first_line(record.fail_reason)}" for record in failures}),
        "eager": graphs == 0,
        "caches": {
            name: int(count) for group in _CACHES for name, count in sorted(counters[group].items()) if "cache" in name
        },
        "compiler_modules": [name for name in _COMPILER if name in sys.modules],
    }


def _broken(reason: Any) -> str:
    stack = cast("Sequence[Any]", reason.user_stack)
    place = f"{stack[-1].filename}:{stack[-1].lineno}: " if stack else ""
    return place + _first_line(reason.reason)


def _first_line(text: str | None) -> str:
    return (text or "").strip().split("\n", 1)[0].strip()
