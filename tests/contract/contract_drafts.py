"""Contracts to change, and the entry that justifies a change."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

FLOAT32: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "configs" / "contracts" / "float32.yaml").read_text()
)


def changed(changes: Mapping[str, Any] | None = None, base: Mapping[str, Any] = FLOAT32) -> dict[str, Any]:
    """A contract with other values under dotted paths."""
    fields = copy.deepcopy(dict(base))
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        place = fields
        for parent in parents:
            place = place[parent]
        place[last] = value
    return fields


def entry(field: str, old: Any, new: Any, **others: Any) -> dict[str, Any]:
    """A whole justification of one widening."""
    return {
        "field": field,
        "from": old,
        "to": new,
        "justification": "the reference rounds twice here",
        "issue_link": "issues/7",
        "cause_class": "reference_less_accurate_than_candidate",
        "evidence": {"mutation_score": {"before": 1.0, "after": 1.0}},
        "second_reviewer": "somebody else",
        "expires": "2999-01-01",
        **others,
    }
