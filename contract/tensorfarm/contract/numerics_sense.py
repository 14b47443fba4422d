"""Whether a numerical contract makes sense: what a schema cannot say, since it concerns several fields at once.

Invariant: a contract that passes here can be kept by an honest candidate; one that nobody can keep is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from tensorfarm.contract.field_errors import refuse_invalid
from tensorfarm.contract.refusal import Refusal

# Bits of a significand, the implicit one included: larger integers are not all representable.
SIGNIFICAND_BITS = {"float64": 24, "float32": 24, "float16": 11, "bfloat16": 8, "any": 24}
_OLD_FORMAT = "tensorfarm.contract/1"


def refuse_senseless(value: Any, against: Mapping[str, Any], place: str) -> None:
    """Raise a Refusal for the first field of a parsed contract that the schema ``against`` or sense forbids."""
    _refuse_other_formats(value, against, place)
    refuse_invalid(value, against, place)
    for rule in (_ladder_ascends, _integers_fit, _ranges_are_ranges, _dates_exist):
        fault = rule(value)
        if fault is not None:
            field, fact, limit, next_step = fault
            raise Refusal(f"{place}: {field}: {fact}", limit=limit, next_step=next_step)


_Fault = tuple[str, str, str, str]


def _refuse_other_formats(value: Any, against: Mapping[str, Any], place: str) -> None:
    if not isinstance(value, Mapping):
        return
    wanted = against["properties"]["format"]["const"]
    old = "format" not in value and "exact" in value and "numerics" not in value
    told = _OLD_FORMAT if old else value.get("format", wanted)
    if told != wanted:
        raise Refusal(
            f"{place}: the file is of format {told}",
            limit=f"read here: {wanted}",
            next_step='run "farm contract init" and carry your numbers over',
        )


def _ladder_ascends(value: Mapping[str, Any]) -> _Fault | None:
    sizes = value["shapes"]["batch"]
    if sizes == sorted(sizes):
        return None
    return "shapes.batch", f"{sizes} does not ascend", "", f"write {sorted(sizes)}"


def _integers_fit(value: Mapping[str, Any]) -> _Fault | None:
    field, bits = "inputs.exact_integers.int_bits", value["inputs"]["exact_integers"]["int_bits"]
    dtype = value["numerics"]["dtypes"]["inputs"]
    if bits > SIGNIFICAND_BITS[dtype]:
        fact = f"integers of {bits} bits are not exact in {dtype}"
        return field, fact, f"at most {SIGNIFICAND_BITS[dtype]}", "lower it"
    return None


def _ranges_are_ranges(value: Mapping[str, Any]) -> _Fault | None:
    for kind, (least, most) in value["inputs"]["ranges"].items():
        if not least < most:
            return f"inputs.ranges.{kind}", f"[{least}, {most}] holds nothing", "", "write the smaller number first"
    return None


def _dates_exist(value: Mapping[str, Any]) -> _Fault | None:
    governance = value["governance"]
    dates = {"contract.date": value["contract"]["date"], "governance.audited": governance["audited"]}
    dates |= {
        f"governance.widenings.{number}.expires": entry["expires"]
        for number, entry in enumerate(governance["widenings"])
    }
    for field, text in dates.items():
        try:
            date.fromisoformat(text or "2000-01-01")
        except ValueError:
            return field, f"there is no day {text}", "YEAR-MONTH-DAY", "correct that field"
    return None
