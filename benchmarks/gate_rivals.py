"""What others would have said of the same tensors: each rival is one function from (seen, expected) to "these differ".

They are given what the gate's subject gave to the example's calls, outputs and gradients both, and what the original
gave: the same faults in the same run. A subject that raised, or gave other keys, is taken as seen by all of them.
Invariant: each has the tolerances that its users get, with NaN equal to NaN; what no package holds is quoted with its
source.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gate_children import apart
from gate_verdicts import Row
from rich.console import Console
from rich.table import Table

from tensorfarm.contract.tensors import read_tensors

Tensors = Mapping[str, torch.Tensor]
Differs = Callable[[Tensors, Tensors], bool]
GATE = "the gate"

# atol, rtol of onnxruntime/test/unittest_util/checkers.cc (DefaultTolerance, CPU, inference build); |a-b| <= atol +
# rtol*|b|, infinities equal, NaN where NaN; every other dtype is compared for equality.
_ORT = {
    torch.float64: (1e-5, 1e-5),
    torch.float32: (1e-5, 1e-4),
    torch.float16: (0.0025, 0.001),
    torch.bfloat16: (0.02, 0.01),
}
# atol and rtol alike, of jax/_src/public_test_util.py (_default_tolerance); the rest is 0.
_JAX = {torch.float64: 1e-15, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2}


def assert_close(seen: Tensors, expected: Tensors) -> bool:
    try:
        torch.testing.assert_close(dict(seen), dict(expected), equal_nan=True)
    except AssertionError:
        return True
    return False


def dynamo_same(tolerance: float) -> Differs:
    def same(seen: Tensors, expected: Tensors) -> bool:
        keys = list(expected)
        # Imported where it runs: it loads a part of Inductor, which no judge may hold.
        compare = importlib.import_module("torch._dynamo.utils").same
        try:
            return not compare(
                [expected[key] for key in keys], [seen[key] for key in keys], tol=tolerance, equal_nan=True
            )
        except RuntimeError:  # other shapes cannot be subtracted
            return True

    return same


def polygraphy(seen: Tensors, expected: Tensors) -> bool:
    """Its default comparison of two runs: element by element, 1e-5 absolute or relative."""
    compare, results = _polygraphy()
    answer: Mapping[str, Any] = compare(results(_dense(seen)), results(_dense(expected)))
    return not all(bool(item) for item in answer.values())


def onnxruntime(seen: Tensors, expected: Tensors) -> bool:
    return any(_beyond(seen[key], expected[key], *_ORT.get(expected[key].dtype, (0.0, 0.0))) for key in expected)


def jax(seen: Tensors, expected: Tensors) -> bool:
    tolerances = {key: _JAX.get(value.dtype, 0.0) for key, value in expected.items()}
    return any(_beyond(seen[key], expected[key], tolerances[key], tolerances[key]) for key in expected)


RIVALS: dict[str, Differs] = {
    "torch.testing.assert_close": assert_close,
    "torch._dynamo.utils.same, 1e-4": dynamo_same(1e-4),
    "torch._dynamo.utils.same, 1e-2": dynamo_same(1e-2),
    "Polygraphy": polygraphy,
    "ONNX Runtime's rule": onnxruntime,
    "JAX's rule": jax,
}


def present() -> dict[str, Differs]:
    """Those whose packages are installed."""
    absent = {"Polygraphy"} if importlib.util.find_spec("polygraphy") is None else set[str]()
    return {name: differs for name, differs in RIVALS.items() if name not in absent}


def with_rivals(rows: Sequence[Row]) -> list[Row]:
    """The rows, with what each rival said. In a process of its own, since rivals load what no judge may hold."""
    ended = apart(_said, [row.tensors for row in rows], seconds=1800)
    if ended.answer is None:
        raise ChildProcessError(f"the rivals' process ended: {ended.death}")
    return [replace(row, rivals=said) for row, said in zip(rows, ended.answer, strict=True)]


def table(mutants: Sequence[Row], honest: Sequence[Row]) -> dict[str, dict[str, int]]:
    """By rival, and for the gate: how many of the mutants it found, how many honest variants it called wrong."""
    found = {GATE: _counted([row.killed for row in mutants], [row.alarmed for row in honest])}
    for name in present():
        found[name] = _counted([row.rivals[name] for row in mutants], [row.rivals[name] for row in honest])
    return found


def printed(counts: Mapping[str, Mapping[str, int]]) -> None:
    shown = Table(title="the same faults and the same honest variants, in the same run")
    for name in ("", "killed", "of mutants", "false alarms", "of honest variants"):
        shown.add_column(name, justify="right" if name else "left")
    for name, of in counts.items():
        shown.add_row(name, *(str(of[key]) for key in ("killed", "mutants", "alarms", "honest")))
    Console(width=120).print(shown)


def _counted(killed: Sequence[bool], alarms: Sequence[bool]) -> dict[str, int]:
    return {"killed": sum(killed), "mutants": len(killed), "alarms": sum(alarms), "honest": len(alarms)}


def _said(paths: Sequence[str]) -> list[dict[str, bool]]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of means of nothing, and of NaN
    logging.disable(logging.ERROR)  # a line for each difference
    rivals = present()
    return [_of_one(path, rivals) for path in paths]


def _of_one(path: str, rivals: Mapping[str, Differs]) -> dict[str, bool]:
    if not path:
        return dict.fromkeys(rivals, True)
    seen, expected = dict[str, torch.Tensor](), dict[str, torch.Tensor]()
    for name, value in read_tensors(Path(path)).items():
        side, key = name.split("|", 1)
        (seen if side == "seen" else expected)[key] = value
    if seen.keys() != expected.keys():
        return dict.fromkeys(rivals, True)
    return {name: differs(seen, expected) for name, differs in rivals.items()}


def _beyond(seen: torch.Tensor, expected: torch.Tensor, atol: float, rtol: float) -> bool:
    if (seen.shape, seen.dtype) != (expected.shape, expected.dtype):
        return True
    if not (seen.is_floating_point() or seen.is_complex()):
        return not torch.equal(seen, expected)
    wide, right = seen.to(torch.float64).numpy(), expected.to(torch.float64).numpy()
    return not np.allclose(wide, right, rtol=rtol, atol=atol, equal_nan=True)


def _dense(tensors: Tensors) -> dict[str, Any]:
    """As numpy arrays, which is what two runners of Polygraphy are compared by; bfloat16 it knows as float32 alone."""
    return {
        key: (value.float() if value.dtype is torch.bfloat16 else value).contiguous().numpy()
        for key, value in tensors.items()
    }


@cache
def _polygraphy() -> tuple[Callable[[Any, Any], Mapping[str, Any]], Callable[[Mapping[str, Any]], Any]]:
    comparator = importlib.import_module("polygraphy.comparator")
    logger = importlib.import_module("polygraphy.logger").G_LOGGER
    logger.module_severity = logger.CRITICAL
    return comparator.CompareFunc.simple(), comparator.IterationResult
