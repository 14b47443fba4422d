"""What a warm parent does before it forks judges, in a process of its own: it may start no thread there."""

import json
import os
import subprocess
import sys

_CODE = """
import json, os, sys
sys.path[:] = {path!r}
from tensorfarm.gate import warm
warm.judges()
from tensorfarm.gate.attestation import gate_version
from tensorfarm.gate.examination import families
COMPILERS = ("tensorfarm.compiler", "torch._inductor.compile_fx")
print(json.dumps({{
    "threads": len(os.listdir("/proc/self/task")),
    "kept": [gate_version.cache_info().currsize, families.cache_info().currsize],
    "compilers": [name for name in COMPILERS if name in sys.modules],
}}))
"""


def test_a_warm_parent_has_read_everything_and_started_nothing() -> None:
    flags = [flag for flag, on in (("-I", sys.flags.isolated), ("-S", sys.flags.no_site)) if on]
    code = _CODE.format(path=sys.path)
    # As the farm starts its warm parents: numpy's own library would start threads for a product.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, timeout=120, check=True, env=environment
    )
    assert json.loads(ended.stdout) == {"threads": 1, "kept": [1, 1], "compilers": []}
