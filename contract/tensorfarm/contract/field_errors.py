"""What is wrong with a file that a person wrote, in one line: the field, what is known there, the likely meaning.

Invariant: a number that is not finite passes no schema; JSON schema's own limits let NaN through.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import jsonschema

from tensorfarm.contract.refusal import Refusal

_LONGEST = 1e15


def refuse_invalid(value: Any, against: Mapping[str, Any], place: str) -> None:
    """Raise a Refusal that names the first wrong field of ``value`` and what would be right."""
    errors = sorted(jsonschema.Draft202012Validator(against).iter_errors(value), key=_order)
    if errors:
        raise _refusal(errors[0], place)
    for path, number in _numbers(value):
        if not math.isfinite(number):
            called = "NaN" if math.isnan(number) else "infinite"
            raise Refusal(f"{place}: {path}: a number is {called}", next_step="write the number that is meant")


def meant(word: object, known: Iterable[object]) -> str:
    """``did you mean "…"?`` where a known word is close, else nothing."""
    near = get_close_matches(str(word), [str(item) for item in known], n=1)
    return f'did you mean "{near[0]}"?' if near else ""


def _number_meant(text: object, wanted: object) -> str:
    """How a number is written that YAML takes for text: it was quoted, or is ``1e-1``, which lacks a point."""
    if not isinstance(text, str) or wanted not in ("number", "integer"):
        return ""
    try:
        number = float(text)
    except ValueError:
        return ""
    whole = number.is_integer() and abs(number) < _LONGEST
    if not math.isfinite(number) or (wanted == "integer" and not whole):
        return ""
    told = str(int(number)) if whole else repr(number)
    return f"YAML takes it for text: write {told if '.' in told else told.replace('e', '.0e')}, without quotes"


def _order(error: Any) -> tuple[list[Any], bool]:
    """A misspelt field is both unknown and missing: the unknown one is what was written."""
    return list(error.path), error.validator != "additionalProperties"


def _refusal(error: Any, place: str) -> Refusal:
    field = ".".join(map(str, error.absolute_path)) or "the file"
    limit, guess = "", ""
    if error.validator == "additionalProperties":
        known = list(error.schema.get("properties", {}))
        unknown = [key for key in error.instance if key not in known]
        limit = f"known here: {', '.join(known)}"
        guess = next((hint for key in unknown if (hint := meant(key, known))), "")
    elif error.validator == "minProperties":
        limit = f"known here: {', '.join(error.schema['properties'])}"
    elif error.validator == "enum":
        guess = meant(error.instance, error.validator_value)
    elif error.validator == "type":
        guess = _number_meant(error.instance, error.validator_value)
    elif error.validator == "const":
        guess = "only that is enforced, so only that can be declared"
    message = " ".join(error.message.split())
    return Refusal(f"{place}: {field}: {message}", limit=limit, next_step=guess or "correct that field")


def _numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item, path)
    elif isinstance(value, float):
        yield path, value
