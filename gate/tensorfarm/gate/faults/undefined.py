"""A backend of torch.compile whose C++ has undefined behaviour: what it computes hangs on how it was compiled.

Twice a large integer, halved: an optimiser may take that for the integer itself, and unoptimised code overflows.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tensorfarm.contract.graph import OutputKind, Ref
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.faults.fault import Change, Fault

SOURCE = 'extern "C" int halved_twice(int n) { int twice = n * 2; return twice / 2; }\n'
LARGE = 1_500_000_000
UNOPTIMISED = "TORCHINDUCTOR_DEBUG_COMPILE"  # Inductor's own variable: this backend obeys it as Inductor does


def _compiled(program: Program) -> Iterator[Change]:
    for output in program.graph.outputs:
        if output.kind is OutputKind.USER and isinstance(output.value, Ref):
            spec = None if output.value.name in program.graph.weights else program.graph.spec_of(output.value.name)
            if spec is not None and spec.dtype.is_floating_point:
                here = Change("twice a large integer, halved", wrap=lambda module: _scaled(module, _factor("-O0")))
                yield Change("twice a large integer, halved", backend=f"{__name__}:backend", seen_here=here)
                return


def backend(graph: torch.fx.GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
    """Runs the graph as it is, and scales its first floating-point output by what should be one."""
    return _scaled(graph, _factor("-O0" if os.environ.get(UNOPTIMISED) == "1" else "-O2"))


def _scaled(call: Callable[..., Any], factor: float) -> Callable[..., Any]:
    def scaled(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten(call(*args, **kwargs))
        for position, item in enumerate(leaves):
            if isinstance(item, torch.Tensor) and item.is_floating_point():
                leaves[position] = item * factor
                break
        return pytree.tree_unflatten(leaves, spec)

    return scaled


@cache
def _factor(level: str) -> float:
    """What the compiled function gives for a large integer, over that integer. Refuses where no compiler is found."""
    with tempfile.TemporaryDirectory(prefix="tensorfarm-undefined-") as folder:
        source, library = Path(folder) / "halved.cpp", Path(folder) / "halved.so"
        source.write_text(SOURCE)
        command = [os.environ.get("CXX", "g++"), level, "-shared", "-fPIC", str(source), "-o", str(library)]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Refusal(
                f"{command[0]} did not compile a function of one line: {error}", next_step="set CXX"
            ) from None
        return ctypes.CDLL(str(library)).halved_twice(LARGE) / LARGE


FAULTS = (Fault("M37", ("toolchains",), "has undefined behaviour that optimisation hides", _compiled),)
