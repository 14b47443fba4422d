"""Step functions that behave and misbehave. Children import them through ``python_path``; no parent does."""

import bisect
import ctypes
import gc
import importlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tensorfarm.contract.refusal import Refusal

Request = dict[str, Any]
MIB = 1 << 20


def ok(request: Request) -> Request:
    return {"request": request, "pid": os.getpid(), "environment": dict(os.environ), "bisect": bisect.__file__}


def modules(request: Request) -> Request:
    return {"modules": sorted(sys.modules), "path": sys.path}


def collects(request: Request) -> Request:
    return {"enabled": gc.isenabled()}


def raises(request: Request) -> Request:
    raise ValueError("an operator that nobody knows")


def refuses(request: Request) -> Request:
    raise Refusal("seen", limit="allowed", next_step="do this", exit_code=11)


def finds_an_illegal_graph(request: Request) -> Request:
    from tensorfarm.contract.graph import IllegalGraph

    raise IllegalGraph("two values are called x")


def segfaults(request: Request) -> Request:
    ctypes.string_at(0)
    return {}


def aborts(request: Request) -> Request:
    os.abort()


def exits_at_once(request: Request) -> Request:
    os._exit(7)


def exits(request: Request) -> Request:
    sys.exit(3)


def exits_happily(request: Request) -> Request:
    os._exit(0)


def hangs(request: Request) -> Request:
    time.sleep(600)
    return {}


def hangs_with_a_grandchild(request: Request) -> Request:
    sleeper = subprocess.Popen(["sleep", "600"], start_new_session=request.get("new_session", False))
    Path(request["note"]).write_text(f"{os.getpid()} {sleeper.pid}")
    time.sleep(600)
    return {}


def allocates(request: Request) -> Request:
    return {"size": len(bytearray(request["mib"] * MIB))}


def allocates_a_tensor(request: Request) -> Request:
    import torch

    return {"sum": float(torch.ones(request["mib"] * MIB // 4).sum())}


def throws_bad_alloc(request: Request) -> Request:
    print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr)
    os.abort()


def lets_grandchildren_allocate(request: Request) -> Request:
    """Each stays below the limit of one process; together they are above."""
    hog = f"import time; x = bytearray(b'x') * ({request['mib']} << 20); time.sleep(600)"
    hogs = [subprocess.Popen([sys.executable, "-S", "-c", hog]) for _ in range(request["processes"])]
    return {"codes": [hog.wait() for hog in hogs]}


def leaves_a_grandchild(request: Request) -> Request:
    sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
    return {"pid": sleeper.pid}


def prints_a_lot(request: Request) -> Request:
    for _ in range(request["mib"]):
        print("x" * MIB)
    print("the last words", flush=True)
    os._exit(5)


def returns_a_set(request: Request) -> Request:
    return {"set": {1, 2}}


def returns_a_list(request: Request) -> Any:
    return [1]


def forges_a_report(request: Request) -> Request:
    folder = Path(os.readlink("/proc/self/fd/1")).parent
    (folder / "report.json").write_text("{")
    os._exit(0)


def waits_for(request: Request) -> Request:
    """Ends only when ``other`` is also here: two must run at once."""
    Path(request["mine"]).touch()
    while not Path(request["other"]).exists():
        time.sleep(0.01)
    return {}


def touches_and_hangs(request: Request) -> Request:
    Path(request["note"]).write_text(str(os.getpid()))
    time.sleep(600)
    return {}


def uses_torch_threads(request: Request) -> Request:
    import torch

    product = torch.ones(256, 256) @ torch.ones(256, 256)
    return {"threads": torch.get_num_threads(), "sum": float(product.sum())}


def imports(request: Request) -> Request:
    return {"name": importlib.import_module(request["module"]).__name__}
