"""torch's own CompilerBisector on a program of ours and a user's post-grad pass; prints what it found, as JSON.

    python benchmarks/rivals/compiler_bisector.py PROGRAM SHA256 package.module.function

In inference mode, by the comparison that its users write: every output close to eager's. The compilation that is known
to be wrong has been done before it starts, as it has when a person reaches for it, so its kernels are in the cache.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch._inductor.config
from torch._inductor.compiler_bisector import CompilerBisector

from tensorfarm.contract.executable import executable
from tensorfarm.contract.program import Program


def main(program_path: str, sha256: str, custom: str) -> None:
    torch.set_num_threads(2)
    program = Program.load(Path(program_path), sha256)
    module_name, _, name = custom.rpartition(".")
    torch._inductor.config.post_grad_custom_post_pass = getattr(importlib.import_module(module_name), name)
    weights = {key: tensor.clone() for key, tensor in program.weights.items()}
    module, inputs = executable(program.graph, weights), [tensor.clone() for tensor in program.inputs.values()]
    trials: list[dict[str, Any]] = []

    def outputs(call: Any) -> list[torch.Tensor]:
        with torch.no_grad():
            return [item for item in call(*inputs) if isinstance(item, torch.Tensor)]

    expected = outputs(module)

    def is_right() -> bool:
        started = time.perf_counter()
        torch._dynamo.reset()
        seen = outputs(torch.compile(module, fullgraph=True, dynamic=False))
        right = all(torch.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(expected, seen, strict=True))
        trials.append({"backend": CompilerBisector.get_backend(), "seconds": time.perf_counter() - started})
        return right

    assert not is_right(), "the planted fault does not show: nothing to bisect"
    warm, trials[:] = trials[0], []
    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        found = CompilerBisector.do_bisect(is_right)
    seconds = time.perf_counter() - started
    told = {
        "seconds": seconds,
        "seconds_of_the_compilation_before": warm["seconds"],
        "trials": len(trials),
        "each": trials,
        "culprit": None if found is None else found.debug_info,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
