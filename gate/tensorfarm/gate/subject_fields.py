"""The fields of a subject, by its kind: what its runner needs to be told, and what it may be.

Invariant: a field that no runner reads is refused before anything is started, never ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorfarm.contract.field_errors import meant
from tensorfarm.contract.refusal import Refusal


@dataclass(frozen=True)
class Fields:
    """``needed`` are texts that say where the subject is, but for a mutant's seed."""

    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()


_MODULE = ("python_path", "state", "seed")
_COMPILE = ("backend", "options", "mode", "dynamic", "fullgraph", "settings", "cache_dir")
BY_KIND: Mapping[str, Fields] = {
    "artifact": Fields(("path", "sha256", "candidate_id"), ("runtime",)),
    "aoti": Fields(("path",)),
    "callable": Fields(("source",), ("factory", *_MODULE)),
    "captured": Fields(("path",), ("sha256",)),
    "compiled": Fields(("source",), (*_COMPILE, *_MODULE)),
    "exported": Fields(("path",), ("state",)),
    "mutant": Fields(("program", "fault", "seed"), ("live", "python_path")),
    "onnx": Fields(("path",)),
    "triton": Fields(("source",), ("python_path",)),
}


def refuse_misspelt(subject: Mapping[str, Any]) -> None:
    """Raise a Refusal for an unknown kind, a field that the kind does not have or lacks, or a value that cannot be told
    to another process."""
    kind = str(subject.get("kind", ""))
    if kind not in BY_KIND:
        raise Refusal(
            "the subject has no kind" if not kind else f"a subject of the kind {kind!r} is unknown",
            limit=", ".join(BY_KIND),
            next_step=meant(kind, BY_KIND) or 'write one as "kind", such as "compiled"',
        )
    fields = BY_KIND[kind]
    known = (*fields.needed, *fields.optional)
    limit = f"known here: {', '.join(known)}"
    unknown = next((name for name in subject if name not in known and name != "kind"), None)
    if unknown is not None:
        told = f"a subject of the kind {kind} has no field {unknown!r}"
        raise Refusal(told, limit=limit, next_step=meant(unknown, known) or "leave it out")
    for name in fields.needed:
        if name not in subject:
            raise Refusal(f"a subject of the kind {kind} needs the field {name!r}", limit=limit, next_step="add it")
        if name != "seed" and not isinstance(subject[name], str):
            told = f"{name} of a subject of the kind {kind} is {type(subject[name]).__name__}"
            raise Refusal(told, limit="text", next_step="name it, for a process of its own to load")
    _refuse_untellable(subject)


def _refuse_untellable(subject: Mapping[str, Any]) -> None:
    for name, value in subject.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            raise Refusal(
                f"{name} of the subject is {type(value).__name__}, which cannot be told to a process of its own",
                limit="text, numbers, truth values, and lists and mappings of them",
                next_step="write it as one of those, or pass live objects",
            ) from None
