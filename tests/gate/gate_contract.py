"""The contract that tests judge under: the template's, for any dtype. A new field needs no change here."""

import copy
from collections.abc import Mapping
from typing import Any

import yaml

from tensorfarm.contract.contract_template import Draft, rendered
from tensorfarm.contract.numerics import NumericalContract, parse_contract

CONTRACT: dict[str, Any] = yaml.safe_load(rendered(Draft("test", "2026-01-01", "float32", "float32", "float32")))
CONTRACT["numerics"]["dtypes"] = {"inputs": "any", "params": "any", "outputs": "any"}


def contract_fields(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The fields with others under dotted paths: ``{"numerics.signed_zero": "ignore"}``."""
    fields = copy.deepcopy(CONTRACT)
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        place = fields
        for parent in parents:
            place = place[parent]
        place[last] = value
    return fields


def contract_with(changes: Mapping[str, Any] | None = None) -> NumericalContract:
    """The parsed contract with fields under dotted paths changed."""
    return parse_contract(contract_fields(changes))
