"""F11, identity: is the artifact this program at all? Answered from its bytes, before any of its code runs.

Structure by the IR contract, weights by their hashes, folded constants by computing them again. The manifest's chain is
``manifest.py``'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from tensorfarm.contract.artifact import Artifact
from tensorfarm.contract.executable import executable
from tensorfarm.contract.graph import Graph, Output, OutputKind, Ref, WeightKind
from tensorfarm.contract.ir_contract import IrContract, drifts, folded_constants
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.tensors import tensor_sha256
from tensorfarm.gate.finding import Finding, failed, passed
from tensorfarm.gate.setting import Level

NAME, FAMILY, LEVEL, COST = "identity", "F11", Level.QUICK, 0


def check(program: Program, artifact: Artifact, rules: IrContract) -> list[Finding]:
    """Every broken rule, or one pass."""
    found: list[Finding] = []
    try:
        artifact.graph.validate()
    except Refusal as refusal:
        return [failed(NAME, "topology", str(refusal))]
    for drift in drifts(program.graph, program.semantic_hash, artifact.graph, artifact.semantic_hash, rules):
        found.append(failed(NAME, drift.rule, drift.what))
    found += _weights(program, artifact)
    return found or [passed(NAME, "artifact", 1)]


def canary(artifact: Artifact) -> Artifact:
    """The artifact with the semantic hash of another program."""
    turned = "1" if artifact.semantic_hash.startswith("0") else "0"
    return replace(artifact, semantic_hash=turned + artifact.semantic_hash[1:])


def _weights(program: Program, artifact: Artifact) -> Iterator[Finding]:
    for weight in artifact.graph.weights.values():
        held = artifact.weights.get(weight.name)
        if held is None or tensor_sha256(held) != weight.sha256:
            yield failed(NAME, "weights", f"the bytes of {weight.target} are not the ones its graph names")
    for constant in folded_constants(program.graph, artifact.graph):
        held = artifact.weights.get(constant.name)
        if held is None:
            continue
        computed = _computed(program, constant.target)
        if computed is None or tensor_sha256(computed) != tensor_sha256(held):
            yield failed(NAME, "constants", f"{constant.target} was folded into a value that it does not compute")


def _computed(program: Program, name: str) -> torch.Tensor | None:
    """What a node of the captured graph gives by plain eager; None where it hangs on an input or something trained."""
    needed = _ancestors(program.graph, name)
    weights = {key: weight for key, weight in program.graph.weights.items() if key in needed}
    if any(item.name in needed for item in program.graph.inputs):
        return None
    if any(weight.kind is WeightKind.PARAMETER for weight in weights.values()):
        return None
    nodes = {key: node for key, node in program.graph.nodes.items() if key in needed}
    alone = Graph((), weights, nodes, (Output(OutputKind.USER, Ref(name)),))
    with torch.no_grad():
        (value,) = executable(alone, program.weights)()
    return value if isinstance(value, torch.Tensor) else None


def _ancestors(graph: Graph, name: str) -> set[str]:
    needed, open_names = set[str](), [name]
    while open_names:
        current = open_names.pop()
        if current not in needed:
            needed.add(current)
            open_names += graph.nodes[current].operands() if current in graph.nodes else ()
    return needed
