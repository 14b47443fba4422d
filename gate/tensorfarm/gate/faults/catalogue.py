"""Every kind of fault and every honest kind, found in this folder: a file says its own in ``FAULTS`` or ``HONEST``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate import faults as folder
from tensorfarm.gate.faults.fault import Fault


@cache
def faults() -> tuple[Fault, ...]:
    """All kinds of wrong programs, by id."""
    return tuple(sorted(_said("FAULTS"), key=lambda fault: fault.id))


@cache
def honest() -> tuple[Fault, ...]:
    """All kinds of programs that are right in another way than the original, by id."""
    return tuple(sorted(_said("HONEST"), key=lambda fault: fault.id))


def fault_of(name: str) -> Fault:
    """The kind of this id, wrong or honest. Refuses an id that is not known."""
    known = {fault.id: fault for fault in (*faults(), *honest())}
    if name not in known:
        raise Refusal(f"the kind of fault {name!r} is unknown", limit=", ".join(known), next_step="choose one of these")
    return known[name]


def _said(name: str) -> Iterator[Fault]:
    for item in pkgutil.iter_modules(folder.__path__):
        yield from getattr(importlib.import_module(f"{folder.__name__}.{item.name}"), name, ())
