"""NaN, infinities, signed zeros and large magnitudes that a rewriting loses: right on every ordinary number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.interpreted import Given, Operator
from tensorfarm.gate.faults.places import places


def _dropped_nans(program: Program) -> Iterator[Change]:
    for place in places(program, tuple(_NANS)):
        spec = place.spec("self")
        if spec is not None and spec.dtype.is_floating_point:
            yield place.change("NaN dropped", _NANS[place.op])


def _relu(_right: Callable[[Given], Any], given: Given) -> Any:
    x = given["self"]
    return torch.where(x > 0, x, torch.zeros((), dtype=x.dtype))


def _clamp(right: Callable[[Given], Any], given: Given) -> Any:
    bound = float(given["max"] if given.get("min") is None else given["min"])
    x = given["self"]
    return torch.where(x.isnan(), torch.full((), bound, dtype=x.dtype), right(given))


def _amax(right: Callable[[Given], Any], given: Given) -> Any:
    x = given["self"]
    return right({**given, "self": x.masked_fill(x.isnan(), -torch.inf)})


_NANS: dict[str, Operator] = {
    "relu": _relu,
    "clamp": _clamp,
    "amax": _amax,
    "maximum": lambda _right, given: torch.fmax(given["self"], given["other"]),
    "minimum": lambda _right, given: torch.fmin(given["self"], given["other"]),
}


def _identities(program: Program) -> Iterator[Change]:
    for place in places(program, ("mul", "sub", "add", "div")):
        spec = place.spec("self")
        if spec is None or not spec.dtype.is_floating_point:
            continue
        other = place.given["other"]
        if place.op == "mul" and other == 0:
            yield place.change("x * 0 taken for 0", lambda right, given: _tied(given["self"], 0.0))
        elif place.op == "add" and other == 0:
            yield place.change("x + 0 taken for x", lambda right, given: given["self"].clone())
        elif place.op == "sub" and other == place.given["self"]:
            yield place.change("x - x taken for 0", lambda right, given: _tied(given["self"], 0.0))
        elif place.op == "div" and other == place.given["self"]:
            yield place.change("x / x taken for 1", lambda right, given: _tied(given["self"], 1.0))


def _tied(x: torch.Tensor, value: float) -> torch.Tensor:
    """A constant of x's kind that still has a graph, as folding keeps one."""
    finite = torch.where(x.isfinite(), x, torch.zeros((), dtype=x.dtype))
    return torch.where(x.isfinite(), finite * 0.0, torch.zeros((), dtype=x.dtype)).abs() + value


def _unguarded(program: Program) -> Iterator[Change]:
    for place in places(program, tuple(_UNGUARDED)):
        what = "as log(1 + x)" if place.op == "log1p" else "without subtracting the largest"
        yield place.change(what, _UNGUARDED[place.op])


def _softmax(_right: Callable[[Given], Any], given: Given) -> Any:
    powers = given["self"].exp()
    return powers / powers.sum(given["dim"], keepdim=True)


def _log_softmax(_right: Callable[[Given], Any], given: Given) -> Any:
    x = given["self"]
    return x - x.exp().sum(given["dim"], keepdim=True).log()


def _logsumexp(_right: Callable[[Given], Any], given: Given) -> Any:
    return given["self"].exp().sum(given["dim"], keepdim=bool(given.get("keepdim", False))).log()


def _cross_entropy(_right: Callable[[Given], Any], given: Given) -> Any:
    scores = given["self"]
    chosen = scores.gather(1, given["target"].unsqueeze(1)).squeeze(1)
    return (scores.exp().sum(1).log() - chosen).mean()


_UNGUARDED: dict[str, Operator] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "cross_entropy_loss": _cross_entropy,
    "log1p": lambda _right, given: torch.log(1 + given["self"]),
}

FAULTS = (
    Fault("M25", ("special_values",), "drops NaN in a comparison", _dropped_nans),
    Fault("M26", ("special_values",), "applies an identity that NaN, Inf or -0 break", _identities),
    Fault("M29", ("special_values", "conditioning"), "overflows or cancels where the original is guarded", _unguarded),
)
