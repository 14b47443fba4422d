"""What differs between two artifacts, from the request down to the bytes. Pure: two sides in, an ordered list out.

Invariant: the most upstream difference comes first, for what stands below it may be no more than its consequence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest

from tensorfarm.contract.manifest import Entry, EntryKind, Manifest

_ABSENT = "none"
_ID_DIGITS = 12


class Aspect(StrEnum):
    """Where two artifacts can differ, most upstream first."""

    PROGRAM = "program"
    INPUTS = "inputs"
    CONTRACT = "contract"
    MODE = "mode"
    TARGET = "target"
    TOOLCHAIN = "toolchain"
    PIPELINE = "pipeline"
    PASS_SOURCE = "pass source"
    CAPTURED = "captured graph"
    PASS = "pass"
    SITE = "site"
    LOWERING = "lowering"
    FUSION = "fusion"
    KERNEL = "kernel"
    FALLBACK = "fallback"
    FLAG = "flag"
    LOWERED = "lowered graph"
    WEIGHT = "weight"
    RUNTIME = "runtime"


_REQUEST = tuple(Aspect)[: tuple(Aspect).index(Aspect.CAPTURED)]
_COUNTED = (Aspect.LOWERING, Aspect.FUSION, Aspect.KERNEL, Aspect.FALLBACK)


@dataclass(frozen=True)
class Side:
    """One artifact. ``submitted`` is what its candidate was submitted as; empty where the store does not know it.

    ``weights`` and ``runtime`` are digests by name, of the artifact's tensors and of its runtime's options and files.
    """

    sha256: str
    manifest: Manifest
    submitted: Mapping[str, str] = field(default_factory=dict[str, str])
    pass_digests: Mapping[str, str] = field(default_factory=dict[str, str])
    weights: Mapping[str, str] = field(default_factory=dict[str, str])
    runtime: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Difference:
    """``a`` and ``b`` say what each side has, in words."""

    aspect: Aspect
    name: str
    a: str
    b: str


def differences(a: Side, b: Side) -> list[Difference]:
    """Everything in which ``a`` and ``b`` differ, most upstream first; empty where only bytes can differ.

    What one side does not know (a candidate that no store knows) is not compared.
    """
    found = [
        *_one(Aspect.PROGRAM, "semantic hash", _short(a.manifest.semantic_hash), _short(b.manifest.semantic_hash)),
        *_submitted(a, b),
        *_mapped(Aspect.TOOLCHAIN, a.manifest.toolchain, b.manifest.toolchain),
        *_one(Aspect.PIPELINE, "pipeline", a.manifest.pipeline, b.manifest.pipeline),
        *_mapped(Aspect.PASS_SOURCE, a.pass_digests, b.pass_digests),
        *_one(Aspect.CAPTURED, "graph", _short(a.manifest.captured_ir_hash), _short(b.manifest.captured_ir_hash)),
        *_passes(a.manifest, b.manifest),
        *_sites(a.manifest, b.manifest),
        *(item for aspect in _COUNTED for item in _counts(aspect, a.manifest, b.manifest)),
        *_mapped(Aspect.FLAG, _flags(a.manifest), _flags(b.manifest)),
        *_one(Aspect.LOWERED, "graph", _short(a.manifest.lowered_ir_hash), _short(b.manifest.lowered_ir_hash)),
        *_mapped(Aspect.WEIGHT, a.weights, b.weights),
        *_mapped(Aspect.RUNTIME, a.runtime, b.runtime),
    ]
    order = list(Aspect)
    return sorted(found, key=lambda item: order.index(item.aspect))


def _parting_pass(a: Manifest, b: Manifest) -> str:
    """The first pass that is another, or left another graph, on the two sides; empty where there is none."""
    ours, theirs = ([(entry.name, entry.ir_hash_after) for entry in _pass_entries(side)] for side in (a, b))
    return next(((one or other)[0] for one, other in zip_longest(ours, theirs) if one != other), "")


def cause(a: Side, b: Side, found: Sequence[Difference]) -> str:
    """The most upstream difference, in one line."""
    if a.sha256 == b.sha256:
        return "the same artifact"
    if not found:
        return "same request and decisions, other bytes: only the candidate's id in the header can differ"
    first = found[0]
    parting = _parting_pass(a.manifest, b.manifest)
    if first.aspect is Aspect.PROGRAM:
        return f"they compute different programs: {first.a} and {first.b}"
    if first.aspect in _REQUEST:
        others = dict.fromkeys(
            item.aspect for item in found if item.aspect in _REQUEST and item.aspect is not first.aspect
        )
        more = f" (also {', '.join(others)})" if others else ""
        said = f"{first.aspect} {first.name}" if first.name != first.aspect else str(first.aspect)
        same = a.manifest.lowered_ir_hash == b.manifest.lowered_ir_hash
        after = "; both end in the same graph" if same else f"; they differ from pass {parting} on" if parting else ""
        return f"asked for differently: {said} is {first.a} and {first.b}{more}{after}"
    if first.aspect is Aspect.CAPTURED:
        return "same request, but the compilers were handed different graphs: a capture names or orders them otherwise"
    if parting:
        return f"same request, other decisions: they differ from pass {parting} on"
    if first.aspect is Aspect.RUNTIME:
        return f"same decisions, other bytes: {len(found)} runtime files differ (compile caches keep times and paths)"
    return f"same request, other decisions: the first is {first.aspect} {first.name}"


def _short(digest: str) -> str:
    return digest[:_ID_DIGITS]


def _one(aspect: Aspect, name: str, a: str, b: str) -> Iterable[Difference]:
    return [] if a == b else [Difference(aspect, name, a or _ABSENT, b or _ABSENT)]


def _mapped(aspect: Aspect, a: Mapping[str, str], b: Mapping[str, str]) -> Iterable[Difference]:
    for name in sorted(a.keys() | b.keys()):
        yield from _one(aspect, name, _shown(a.get(name, "")), _shown(b.get(name, "")))


def _shown(value: str) -> str:
    """A digest short, any other text whole."""
    return _short(value) if len(value) == 64 and set(value) <= set("0123456789abcdef") else value


def _submitted(a: Side, b: Side) -> Iterable[Difference]:
    """What the store knows of both candidates and no manifest says."""
    if not a.submitted or not b.submitted:
        return []
    names = {Aspect.INPUTS: "input_spec_id", Aspect.CONTRACT: "contract_hash", Aspect.MODE: "mode"}
    names |= {Aspect.TARGET: "target"}
    return [
        item
        for aspect, name in names.items()
        for item in _one(aspect, str(aspect), _shown(a.submitted[name]), _shown(b.submitted[name]))
    ]


def _pass_entries(manifest: Manifest) -> list[Entry]:
    return [entry for entry in manifest.entries if entry.kind is EntryKind.PASS]


def _passes(a: Manifest, b: Manifest) -> Iterable[Difference]:
    """Passes that only one side has, an order that differs, and the first place where the graphs part."""
    ours, theirs = _pass_entries(a), _pass_entries(b)
    names, others = [entry.name for entry in ours], [entry.name for entry in theirs]
    yield from _numbers(Aspect.PASS, Counter(names), Counter(others))
    if names != others and Counter(names) == Counter(others):
        yield Difference(Aspect.PASS, "order", ",".join(names), ",".join(others))
    for one, other in zip(ours, theirs, strict=False):
        if one.name != other.name:
            return
        if one.ir_hash_after != other.ir_hash_after:
            yield Difference(
                Aspect.PASS, f"graph after {one.name}", *map(_short, (one.ir_hash_after, other.ir_hash_after))
            )
            return


def _sites(a: Manifest, b: Manifest) -> Iterable[Difference]:
    """Places where a pass acted on one side and not, or otherwise, on the other."""
    ours, theirs = _site_entries(a), _site_entries(b)
    for key in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(key), theirs.get(key)
        at = one or other
        nodes = at.attributes.get("nodes", "") if at else ""
        yield from _one(Aspect.SITE, f"{key[0]} at {nodes or _short(key[1])}", _decided(one), _decided(other))


def _site_entries(manifest: Manifest) -> dict[tuple[str, str], Entry]:
    return {(entry.name, entry.site): entry for entry in manifest.entries if entry.kind is EntryKind.SITE}


def _decided(entry: Entry | None) -> str:
    if entry is None:
        return _ABSENT
    return f"{entry.decision}: {entry.reason}" if entry.reason else str(entry.decision)


def _flags(manifest: Manifest) -> dict[str, str]:
    flags = [entry for entry in manifest.entries if entry.kind is EntryKind.FLAG]
    return {entry.name: entry.attributes.get("value", "set") for entry in flags}


def _counts(aspect: Aspect, a: Manifest, b: Manifest) -> Iterable[Difference]:
    """Decisions without a place of their own: how many of each name."""
    ours, theirs = (Counter(entry.name for entry in side.entries if entry.kind == aspect) for side in (a, b))
    return _numbers(aspect, ours, theirs)


def _numbers(aspect: Aspect, a: Counter[str], b: Counter[str]) -> Iterable[Difference]:
    for name in sorted(a.keys() | b.keys()):
        yield from _one(aspect, name, *(str(side[name]) if side[name] else _ABSENT for side in (a, b)))
