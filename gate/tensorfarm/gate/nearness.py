"""Half of the digits: the comparison with the original itself, for calls whose float64 value is not to be had.

A program that draws random numbers draws others in float64, and the oracle is too dear for every second call. What such
calls look for is large: a stale graph, another mask. The limit is ``sqrt(u)`` of the value or of the typical value,
plus what is given as ``spread``: what rounding can do to this output, as known from a call that the oracle has judged.
"""

from __future__ import annotations

import math

import torch

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.agreement import index_of, root_mean_square
from tensorfarm.gate.finding import Finding, failed, passed

_UNSTABLE_INTEGERS = 1000


def near(
    check_name: str,
    what: str,
    seen: torch.Tensor | None,
    eager: torch.Tensor,
    *,
    spread: float = 0.0,
    scale: float = 0.0,
) -> Finding:
    """Compare one tensor with the original's. ``scale`` is the size of what it is a part of, in the tensor's own units.

    Of integers and booleans one in a thousand may differ: an index hangs on a rounded value.
    """
    if seen is None:
        return failed(check_name, what, "the subject gave none")
    if (seen.shape, seen.dtype) != (eager.shape, eager.dtype):
        told = f"expected {eager.dtype} of shape {list(eager.shape)}, seen {seen.dtype} of shape {list(seen.shape)}"
        return failed(check_name, what, told)
    seen, eager = _real(seen), _real(eager)
    if not seen.numel() or math.isinf(spread):
        return passed(check_name, what)
    if not seen.is_floating_point():
        return _few_differ(check_name, what, seen, eager)
    info, wanted, given = torch.finfo(seen.dtype), eager.double(), seen.double()
    ordinary, size = None, root_mean_square(wanted)
    if not math.isfinite(size):
        ordinary = wanted.isfinite()
        size = root_mean_square(wanted[ordinary])
    half = math.sqrt(info.eps / 2)
    limit = wanted.abs().mul_(half).add_(half * max(scale, size) + spread + info.smallest_normal)
    ratio = torch.sub(given, wanted).abs_().div_(limit)
    if ordinary is None and float(ratio.max()) <= 1:  # no NaN is, and it would be the largest
        return _worst(check_name, what, ratio, wanted, given, limit)
    ordinary = wanted.isfinite() if ordinary is None else ordinary
    ratio = torch.nan_to_num(ratio, nan=math.inf)
    alike = (given == wanted) | (given.isnan() & wanted.isnan())
    return _worst(
        check_name, what, torch.where(ordinary, ratio, torch.where(alike, 0.0, math.inf)), wanted, given, limit
    )


def _few_differ(check_name: str, what: str, seen: torch.Tensor, eager: torch.Tensor) -> Finding:
    bad = seen != eager
    count = int(bad.sum())
    if count <= seen.numel() // _UNSTABLE_INTEGERS:
        return passed(check_name, what, seen.numel())
    ratio = torch.where(bad, math.inf, 0.0)
    return _worst(check_name, what, ratio, eager.double(), seen.double(), torch.zeros_like(ratio))


def _worst(
    check_name: str, what: str, ratio: torch.Tensor, wanted: torch.Tensor, given: torch.Tensor, limit: torch.Tensor
) -> Finding:
    flat = int(ratio.argmax())
    where = index_of(flat, ratio.shape)
    count, worst = int((~(ratio <= 1)).sum()), float(ratio[where])
    expected, found, allowed = float(wanted[where]), float(given[where]), float(limit[where])
    place = f"{what}[{', '.join(map(str, where))}]" if where else what
    told = (
        f"{place}: the original gives {expected:.9g}, seen {found:.9g}, {worst:.3g} times the limit {allowed:.3g} "
        f"({count} of {ratio.numel()} elements)"
    )
    return Finding(
        check_name,
        what,
        Status.FAIL if count else Status.PASS,
        told if count else "",
        observed_over_limit=worst,
        worst_index=where,
        worst_expected=expected,
        worst_seen=found,
        limit_abs=allowed,
        n_elements=ratio.numel(),
        n_bad=count,
    )


def _real(value: torch.Tensor) -> torch.Tensor:
    plain = value.detach().resolve_conj().resolve_neg()
    return torch.view_as_real(plain) if plain.is_complex() else plain
