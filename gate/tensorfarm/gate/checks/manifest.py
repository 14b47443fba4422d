"""The manifest's chain: from the graph that the semantic hash names to the artifact's, by the hashes of its entries.

A pass that changed the graph and left no entry is a ``manifest_gap``: nobody could bisect it. Judged from bytes, before
any of the artifact's code runs.
"""

from __future__ import annotations

from dataclasses import replace

from tensorfarm.contract.artifact import Artifact
from tensorfarm.contract.graph_json import graph_hash
from tensorfarm.contract.manifest import EntryKind
from tensorfarm.contract.program import Program
from tensorfarm.gate.finding import Finding, failed, passed
from tensorfarm.gate.setting import Level

NAME, FAMILY, LEVEL, COST = "manifest", "F11", Level.QUICK, 1
GAP = "manifest_gap"
_NOWHERE = "0" * 64


def check(program: Program, artifact: Artifact) -> list[Finding]:
    """Every break of the chain, or one pass for its entries."""
    manifest, found = artifact.manifest, list[Finding]()
    if manifest.semantic_hash != program.semantic_hash:
        told = f"it is about {manifest.semantic_hash[:12]}, not {program.semantic_hash[:12]}"
        found.append(failed(NAME, "semantic_hash", told))
    if manifest.captured_ir_hash != graph_hash(program.graph):
        found.append(failed(NAME, "captured_ir_hash", "the graph it starts from is not the program's"))
    if manifest.lowered_ir_hash != graph_hash(artifact.graph):
        found.append(failed(NAME, "lowered_ir_hash", "the graph it ends with is not the artifact's"))
    found += [failed(NAME, GAP, gap) for gap in manifest.gaps()]
    return found or [passed(NAME, "chain", max(len(manifest.entries), 1))]


def canary(artifact: Artifact) -> Artifact:
    """The artifact with the entry of a pass that changed the graph taken out; else with one that starts nowhere."""
    manifest = artifact.manifest
    entries = list(manifest.entries)
    for position, entry in enumerate(entries):
        if entry.kind is EntryKind.PASS and entry.ir_hash_before != entry.ir_hash_after:
            del entries[position]
            return replace(artifact, manifest=replace(manifest, entries=tuple(entries)))
    return replace(artifact, manifest=replace(manifest, captured_ir_hash=_NOWHERE))
