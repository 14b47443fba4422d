"""What a machine can do at most, measured: bandwidth by size, product rates, costly functions, cost of one dispatch.

The measurement runs as a job, alone on its node and on as many threads as programs are measured with. Invariant: peaks
are facts of machine and torch, and hold nothing of any program.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from tensorfarm.contract.digest import sha256_json

FORMAT = "tensorfarm.peaks/1"
_FLOAT_BYTES = 4
_BANDWIDTH_ELEMENTS = tuple(1 << power for power in range(10, 25))
_CHAIN = 4
_TURNED_EXTENTS = (32, 128, 512, 1024, 2048)
_PRODUCT_EXTENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_CONVOLUTION_CHANNELS = (1, 3, 16, 64)
_FUNCTION_ELEMENTS = 1 << 15
_UNEVEN_RATIO = 3.0
_LEAST_SECONDS, _REPEATS = 0.01, 5

Step = Callable[[], object]
Curve = tuple[tuple[float, float], ...]
"""Pairs of abscissa and rate, in rising order; between them the logarithms are linear, outside the ends are held."""


@dataclass(frozen=True)
class Peaks:
    """Rates for one device at ``threads`` threads.

    ``bandwidth``: bytes a second by bytes moved, less the dispatch; ``turned`` the same for a copy against the order.
    ``products`` and ``convolutions``: floating-point operations a second by grain (``work.Work``). ``functions``:
    elements a second of each costly function. ``dispatch_seconds``: one call of an operator of each kind on next to
    nothing; ``step`` is a module's call without any operator, ``kernel`` the allocation of a result by compiled code.
    """

    device: str
    threads: int
    torch: str
    bandwidth: Curve
    turned: Curve
    products: Curve
    convolutions: Curve
    functions: Mapping[str, float]
    dispatch_seconds: Mapping[str, float]

    @property
    def id(self) -> str:
        return sha256_json(self.as_json())[:16]

    @property
    def is_uneven(self) -> bool:
        """Whether bandwidth falls and rises again further than caches explain: something else ran meanwhile."""
        rates = [rate for _, rate in self.bandwidth]
        return any(min(max(rates[:at]), max(rates[at:])) > _UNEVEN_RATIO * rates[at] for at in range(1, len(rates)))

    def as_json(self) -> dict[str, Any]:
        curves = {name: [[float(x), float(y)] for x, y in getattr(self, name)] for name in _CURVES}
        return {"format": FORMAT, **asdict(self), **curves}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Peaks:
        """Raises KeyError or ValueError where ``value`` is of another format."""
        if value["format"] != FORMAT:
            raise ValueError(f"peaks of format {value['format']!r}, not {FORMAT}")
        plain: dict[str, Any] = {name: value[name] for name in _PLAIN}
        curves: dict[str, Any] = {name: tuple((float(x), float(y)) for x, y in value[name]) for name in _CURVES}
        return Peaks(**plain, **curves)


_PLAIN = ("device", "threads", "torch", "functions", "dispatch_seconds")
_CURVES = ("bandwidth", "turned", "products", "convolutions")


def rate(curve: Curve, at: float) -> float:
    """The curve's value, interpolated between logarithms."""
    places, rates = np.log(np.array(curve)).T
    return float(np.exp(np.interp(np.log(max(at, 1.0)), places, rates)))


def measure_peaks(request: Mapping[str, Any]) -> dict[str, Any]:
    """Measure this machine; ``request`` has ``device`` (cpu) and ``threads``. Returns the peaks' JSON in ``peaks``.

    Each figure is the fastest of a few repeats: a peak is what is possible, and noise only ever slows.
    """
    torch.set_num_threads(int(request["threads"]))
    with torch.no_grad():
        dispatch = _dispatch_seconds()
        peaks = Peaks(
            device=request["device"],
            threads=int(request["threads"]),
            torch=torch.__version__,
            bandwidth=_bandwidth(dispatch["pw"]),
            turned=_turned(dispatch["move"]),
            products=_products(dispatch["gemm"]),
            convolutions=_convolutions(dispatch["conv"]),
            functions=_functions(dispatch["pw"]),
            dispatch_seconds=dispatch,
        )
    return {"peaks": peaks.as_json()}


def fastest(step: Step) -> float:
    """Seconds of one call: the fastest of a few batches, each long enough for the clock."""
    step()
    started = time.perf_counter()
    step()
    calls = max(1, int(_LEAST_SECONDS / max(time.perf_counter() - started, 1e-7)))
    found = float("inf")
    for _ in range(_REPEATS):
        started = time.perf_counter()
        for _ in range(calls):
            step()
        found = min(found, (time.perf_counter() - started) / calls)
    return found


def _beyond(step: Step, dispatch: float) -> float:
    """Seconds of a call without its dispatch, and never less than a tenth of the whole."""
    whole = fastest(step)
    return max(whole - dispatch, whole / 10)


def _dispatch_seconds() -> dict[str, float]:
    """What an operator costs where there is nothing to do."""
    row, square, image = torch.ones(4), torch.ones(4, 4), torch.ones(1, 4, 4, 4)
    heads, filters = torch.ones(1, 1, 4, 4), torch.ones(4, 4, 1, 1)
    empty, places = torch.nn.Identity(), torch.zeros(4, dtype=torch.int64)
    steps: dict[str, Step] = {
        "pw": lambda: row + row,
        "gemm": lambda: functional.linear(square, square, row),
        "conv": lambda: functional.conv2d(image, filters, row),
        "attn": lambda: functional.scaled_dot_product_attention(heads, heads, heads),
        "norm": lambda: functional.layer_norm(square, (4,), row, row),
        "red": lambda: square.sum(-1),
        "pick": lambda: functional.embedding(places, square),
        "move": lambda: square.clone(),
        "view": lambda: square.transpose(0, 1),
        "kernel": lambda: torch.empty(4),
        "step": lambda: empty(row),
    }
    return {name: fastest(step) for name, step in steps.items()}


def _bandwidth(dispatch: float) -> Curve:
    """Two reads and a write, by a chain whose results live on for a while, as they do in a program.

    One operator again and again would get the same warm memory back each time; a chain's larger results are given back
    to the system and faulted in anew, at a tenth of that rate.
    """
    found: list[tuple[float, float]] = []
    for elements in _BANDWIDTH_ELEMENTS:
        chain = partial(_chain, torch.ones(elements), torch.ones(elements))
        moved = 3 * elements * _FLOAT_BYTES
        found.append((moved, _CHAIN * moved / _beyond(chain, _CHAIN * dispatch)))
    return tuple(found)


def _chain(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    first = left + right
    second = first + right
    third = second + first
    return third + second


def _turned(dispatch: float) -> Curve:
    """A copy that turns a matrix around: one read against the order, one write."""
    found: list[tuple[float, float]] = []
    for extent in _TURNED_EXTENTS:
        matrix = torch.ones(extent, extent).t()
        moved = 2 * extent * extent * _FLOAT_BYTES
        found.append((moved, moved / _beyond(matrix.contiguous, dispatch)))
    return tuple(found)


def _products(dispatch: float) -> Curve:
    """A layer of moderate width, on as many rows as the grain says."""
    found: list[tuple[float, float]] = []
    for rows in _PRODUCT_EXTENTS:
        width = max(rows, 256)
        given, weight = torch.ones(rows, width), torch.ones(width, width)
        step = partial(functional.linear, given, weight)
        found.append((rows, 2.0 * rows * width * width / _beyond(step, dispatch)))
    return tuple(found)


def _convolutions(dispatch: float) -> Curve:
    """3×3 filters over an image of moderate size; one channel a group is a depthwise convolution."""
    found: list[tuple[float, float]] = []
    for channels in _CONVOLUTION_CHANNELS:
        groups = 32 if channels == 1 else 1
        image, filters = torch.ones(1, channels * groups, 32, 32), torch.ones(32, channels, 3, 3)
        flops = 2.0 * 32 * 30 * 30 * channels * 9
        step = partial(functional.conv2d, image, filters, groups=groups)
        found.append((channels, flops / _beyond(step, dispatch)))
    return tuple(found)


def _functions(dispatch: float) -> dict[str, float]:
    values = torch.linspace(0.1, 2.0, _FUNCTION_ELEMENTS)
    rows, shape = values.reshape(-1, 128), (128,)
    steps: dict[str, Step] = {
        "exp": values.exp,
        "log": values.log,
        "tanh": values.tanh,
        "erf": lambda: functional.gelu(values),
        "sigmoid": values.sigmoid,
        "sin": values.sin,
        "sqrt": values.sqrt,
        "pow": lambda: values**1.5,
        "divide": values.reciprocal,
        "softmax": lambda: rows.softmax(-1),
        "layer_norm": lambda: functional.layer_norm(rows, shape),
    }
    return {name: _FUNCTION_ELEMENTS / _beyond(step, dispatch) for name, step in steps.items()}
