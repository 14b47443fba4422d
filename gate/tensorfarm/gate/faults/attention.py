"""Attention with its mask shifted, its scale from another axis, or its keys in another layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tensorfarm.contract.graph import Ref
from tensorfarm.contract.program import Program
from tensorfarm.gate.faults.fault import Change, Fault
from tensorfarm.gate.faults.interpreted import Given, Operator
from tensorfarm.gate.faults.places import Place, places


def _attentions(program: Program) -> Iterator[Change]:
    for place in places(program, ("triu", "tril", "div", "mul", "scaled_dot_product_attention")):
        if place.op in ("triu", "tril"):
            for shift in (-1, 1):
                yield place.change(f"causal mask shifted by {shift}", _shifted(shift))
        elif place.op in ("div", "mul"):
            yield from _scales(place)
        elif place.op == "scaled_dot_product_attention":
            yield from _fused(place)


def _shifted(shift: int) -> Operator:
    return lambda right, given: right({**given, "diagonal": given.get("diagonal", 0) + shift})


def _scales(place: Place) -> Iterator[Change]:
    """The product of queries and keys divided by a number: its scale."""
    scores, other = place.given["self"], place.given["other"]
    if not (isinstance(scores, Ref) and isinstance(other, float) and scores.name in place.graph.nodes):
        return
    spec = place.spec("self")
    if place.graph.nodes[scores.name].op == "aten.matmul.default" and spec is not None:
        wrong = math.sqrt(spec.shape[-1]) if place.op == "div" else 1 / math.sqrt(spec.shape[-1])
        if not math.isclose(wrong, other):
            yield place.change("scale from the number of keys", lambda right, given: right({**given, "other": wrong}))


def _fused(place: Place) -> Iterator[Change]:
    query, key = place.spec("query"), place.spec("key")
    if query is None or key is None or len(query.shape) != 4:
        return
    if place.given["is_causal"]:
        for shift in (-1, 1):
            yield place.change(f"causal mask shifted by {shift}", _fused_shifted(shift))
    if place.given["scale"] is None and query.shape[-1] != key.shape[-2]:
        yield place.change("scale from the number of keys", _fused_scale)
    if key.shape[1] == key.shape[2]:
        yield place.change("heads of the keys taken for their places", _fused_layout)


def _fused_shifted(shift: int) -> Operator:
    def operator(right: Callable[[Given], Any], given: Given) -> Any:
        rows, columns = given["query"].shape[-2], given["key"].shape[-2]
        seen = torch.ones(rows, columns, dtype=torch.bool).tril(shift)
        seen[:, 0] = True  # a row that sees nothing is another fault
        return right({**given, "attn_mask": seen, "is_causal": False})

    return operator


def _fused_scale(right: Callable[[Given], Any], given: Given) -> Any:
    return right({**given, "scale": 1 / math.sqrt(given["key"].shape[-2])})


def _fused_layout(right: Callable[[Given], Any], given: Given) -> Any:
    return right({**given, "key": given["key"].transpose(1, 2)})


FAULTS = (Fault("M30", ("forward", "ladder"), "shifts a causal mask, or scales by the wrong axis", _attentions),)
