"""Programs captured once, artifacts made from their graphs without any compiler, and gate runs over them."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from gate_contract import CONTRACT

from tensorfarm.contract.artifact import write_artifact
from tensorfarm.contract.capture import capture
from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.graph import Graph, Node
from tensorfarm.contract.graph_json import graph_hash
from tensorfarm.contract.manifest import Entry, EntryKind, Manifest
from tensorfarm.contract.numerics import NumericalContract, parse_contract
from tensorfarm.contract.program import Program
from tensorfarm.gate.processes import death_of
from tensorfarm.gate.step import CASE, FUNCTIONS

CANDIDATE = "candidate"


def contract() -> NumericalContract:
    return parse_contract(CONTRACT)


@cache
def program(name: str) -> Program:
    """``mlp`` is a factory of ``gate_programs``; a source of another module, or a file, is spelled out."""
    return capture(name if ":" in name or name.endswith(".pt2") else f"gate_programs:{name}")


def node_called(graph: Graph, op: str) -> Node:
    """The first node that calls ``op``."""
    return next(node for node in graph.nodes.values() if node.op == op)


def with_node(graph: Graph, name: str, **changes: Any) -> Graph:
    """The graph with one node's fields changed."""
    changed = graph.copy()
    changed.nodes[name] = replace(graph.nodes[name], **changes)
    return changed


class Workshop:
    """Gate runs in forked children of one warm parent. ``before`` names what a child does first, and it alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.saved: dict[str, Path] = {}
        self.isolation = [flag for flag, on in (("-I", sys.flags.isolated), ("-S", sys.flags.no_site)) if on]
        self.environment = {**os.environ, "TENSORFARM_BUILD_ROOT": str(folder / "build")}
        code = f"import sys; sys.path[:] = {sys.path!r}; import gate_forks; gate_forks.serve()"
        self.parent = subprocess.Popen(
            [sys.executable, *self.isolation, "-W", "ignore", "-c", code],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Workshop":
        return self

    def __exit__(self, *_raised: object) -> None:
        assert self.parent.stdin is not None
        self.parent.stdin.close()
        self.parent.wait(timeout=60)

    def file_of(self, made: Program) -> Path:
        if made.semantic_hash not in self.saved:
            self.saved[made.semantic_hash] = self.folder / f"{made.semantic_hash}.program"
            made.save(self.saved[made.semantic_hash])
        return self.saved[made.semantic_hash]

    def artifact(
        self,
        made: Program,
        graph: Graph | None = None,
        *,
        weights: Mapping[str, torch.Tensor] | None = None,
        semantic_hash: str | None = None,
        entries: tuple[Entry, ...] | None = None,
    ) -> Path:
        """An artifact of the ``graph`` runtime whose manifest owns up to the change of the graph."""
        self.count += 1
        place = self.folder / f"{self.count}.artifact"
        lowered = made.graph if graph is None else graph
        before, after = graph_hash(made.graph), graph_hash(lowered)
        told = Entry(EntryKind.PASS, "by-hand", ir_hash_before=before, ir_hash_after=after)
        carried = semantic_hash or made.semantic_hash
        write_artifact(
            place,
            semantic_hash=carried,
            candidate_id=CANDIDATE,
            runtime="graph",
            options={},
            graph=lowered,
            weights=made.weights if weights is None else weights,
            manifest=Manifest(carried, "fx:by-hand", {}, before, after, (told,) if entries is None else entries),
        )
        return place

    def case(self, made: Program, artifact: Path, mode: str = "training", **changes: Any) -> dict[str, Any]:
        """A judge's request in a folder of its own."""
        self.count += 1
        folder = self.folder / f"{self.count}.run"
        folder.mkdir()
        saved = self.file_of(made)
        return {
            "program": str(saved),
            "program_sha256": sha256_file(saved),
            "artifact": str(artifact),
            "artifact_sha256": sha256_file(artifact),
            "candidate_id": CANDIDATE,
            "semantic_hash": made.semantic_hash,
            "mode": mode,
            "contract": CONTRACT,
            "ir_contract": None,
            "folder": str(folder),
            "oracle_cache": "",
            "seed": 0,
            "threads": 1,
            **changes,
        }

    def step(self, name: str, case: Mapping[str, Any], before: str = "") -> int:
        """Run one step in a child and return its exit code, negative for a signal."""
        folder = Path(case["folder"])
        (folder / CASE).write_text(json.dumps(case))
        assert self.parent.stdin is not None
        assert self.parent.stdout is not None
        self.parent.stdin.write(json.dumps({"step": name, "folder": str(folder), "before": before}) + "\n")
        self.parent.stdin.flush()
        return int(self.parent.stdout.readline())

    def result(self, name: str, case: Mapping[str, Any]) -> dict[str, Any]:
        assert self.step(name, case) == 0
        return json.loads((Path(case["folder"]) / f"{name}.json").read_text())

    def verdict(self, case: dict[str, Any], before: str = "") -> dict[str, Any]:
        """All three steps; ``before`` is for the subject's child."""
        prepared = self.result("prepare", case)
        if "verdict" in prepared:
            return prepared["verdict"]
        death = death_of(self.step("run", case, before))
        return self.decided(case, prepared, {} if death is None else {FUNCTIONS["run"]: death})

    def decided(
        self, case: dict[str, Any], prepared: dict[str, Any], deaths: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The last step, told what the first one returned."""
        told = {"before": {FUNCTIONS["prepare"]: prepared}, "deaths": deaths or {}}
        return self.result("decide", {**case, **told})

    def judged(
        self, made: Program, graph: Graph | None = None, mode: str = "training", before: str = ""
    ) -> dict[str, Any]:
        """The verdict on an artifact that holds ``graph``, or the program's own."""
        return self.verdict(self.case(made, self.artifact(made, graph), mode), before)


def failing(verdict: Mapping[str, Any]) -> set[tuple[str, str]]:
    """What failed, as pairs of check and thing."""
    return {(row["check_name"], row["what"]) for row in verdict["findings"] if row["status"] == "fail"}
