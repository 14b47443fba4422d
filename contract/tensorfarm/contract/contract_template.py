"""A full, commented contract to start from: every field is there, with its unit and its meaning.

Invariant: what is rendered here is read back by ``numerics`` as it stands.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from string import Template

from tensorfarm.contract.refusal import Refusal

BATCH_LADDER = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 127, 1000)


@dataclass(frozen=True)
class FloatFacts:
    """``roundoff`` as a person reads it; ``largest`` finite value; ``int_bits`` for the exact-integer suite."""

    roundoff: str
    largest: str
    int_bits: int


# 13 bits leave an operand cut to TF32 or bfloat16 no way to be exact; a narrower dtype holds no more than its own.
DTYPES = {
    "float64": FloatFacts("2**-53", "1.7976931348623157e+308", 13),
    "float32": FloatFacts("2**-24", "3.4028234663852886e+38", 13),
    "float16": FloatFacts("2**-11", "65504.0", 11),
    "bfloat16": FloatFacts("2**-8", "3.3895313892515355e+38", 8),
    "any": FloatFacts("by each output", "1.7976931348623157e+308", 8),
}


@dataclass(frozen=True)
class Draft:
    """What a new contract says: dtypes of inputs, parameters and outputs, ``date`` in ISO 8601."""

    id: str
    date: str
    inputs: str
    params: str
    outputs: str
    author: str = "unknown"
    batch: tuple[int, ...] = BATCH_LADDER
    dynamic: tuple[str, ...] = ("B",)
    devices: tuple[str, ...] = ("cpu",)


def facts_of(dtype: str) -> FloatFacts:
    """Refuses a dtype that no contract is written for."""
    if dtype not in DTYPES:
        raise Refusal(f"no contract is written for dtype {dtype}", limit=f"known: {', '.join(DTYPES)}")
    return DTYPES[dtype]


def rendered(draft: Draft) -> str:
    """The text of a contract file. Raises Refusal for an unknown dtype."""
    text = resources.files("tensorfarm.contract").joinpath("numerics.template.yaml").read_text()
    inputs, params, outputs = (facts_of(dtype) for dtype in (draft.inputs, draft.params, draft.outputs))
    return Template(text).substitute(
        id=json.dumps(draft.id, ensure_ascii=False),
        date=draft.date,
        author=json.dumps(draft.author, ensure_ascii=False),
        inputs=draft.inputs,
        params=draft.params,
        outputs=draft.outputs,
        roundoff=outputs.roundoff,
        largest=inputs.largest,
        int_bits=min(inputs.int_bits, params.int_bits),
        batch=_flow(draft.batch),
        dynamic=_flow(draft.dynamic),
        devices=_flow(draft.devices),
    )


def _flow(items: tuple[object, ...]) -> str:
    return f"[{', '.join(map(str, items))}]"
