"""Several calls that a user wants judged in their order, and what changes in between."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tensorfarm.contract.capture import load_function, split_inputs
from tensorfarm.contract.refusal import Refusal, one_line
from tensorfarm.gate.reference import Reference, leaves_of
from tensorfarm.gate.trial import Call


def sequence_of(source: str, between: str, reference: Reference, like: Call) -> tuple[Call, ...]:
    """Calls with the inputs that ``source`` (``package.module:function``) returns, a list of examples.

    ``between`` names a function of ``(module, step)`` that is called before each call but the first. Refuses inputs of
    another structure than the program's.
    """
    try:
        given = list(load_function(source)())
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(f"{source} raised {one_line(error)}", next_step="call it on its own and mend it") from error
    return tuple(
        replace(_call(item, reference, like, source), between=between if step else "")
        for step, item in enumerate(given)
    )


def _call(example: Any, reference: Reference, like: Call, source: str) -> Call:
    leaves, in_spec = leaves_of(*split_inputs(example))
    if in_spec != reference.in_spec:
        raise Refusal(f"{source} gives inputs of another structure than the program's", next_step="give them alike")
    names = [leaf.name for leaf in reference.leaves]
    inputs = {name: leaf.example for name, leaf in zip(names, leaves, strict=True) if leaf.example is not None}
    literals = {name: leaf.literal for name, leaf in zip(names, leaves, strict=True) if leaf.example is None}
    return replace(like, inputs={key: value.detach() for key, value in inputs.items()}, literals=literals)
