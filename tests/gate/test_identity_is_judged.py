"""Planted faults of identity: each ends as semantic drift, before anything of the artifact has run."""

from dataclasses import replace

import pytest
import torch
from gate_workshop import Workshop, failing, node_called, program, with_node

from tensorfarm.contract.graph import Node, OutputKind, Ref, TensorSpec, Weight, WeightKind
from tensorfarm.contract.manifest import Entry, EntryKind
from tensorfarm.contract.tensors import tensor_sha256

SEGFAULT = "gate_vandals:segfault"


def drifted(verdict: dict[str, object]) -> set[str]:
    assert (verdict["outcome"], verdict["status"]) == ("semantic_drift", "fail")
    return {what for _, what in failing(verdict)}


def test_an_invented_node_is_drift_and_its_artifact_never_runs(workshop: Workshop) -> None:
    """The subject would segfault if it ran."""
    mlp = program("mlp")
    scaled = node_called(mlp.graph, "aten.mul.Tensor")
    graph = mlp.graph.copy()
    graph.insert(Node("invented", "aten.neg.default", (Ref(scaled.name),), (), scaled.results))
    graph.replace_uses(scaled.name, "invented")
    graph.nodes["invented"] = replace(graph.nodes["invented"], args=(Ref(scaled.name),))
    assert "topology" in drifted(workshop.judged(mlp, graph, before=SEGFAULT))


def test_a_dropped_output_is_drift(workshop: Workshop) -> None:
    mlp = program("mlp")
    graph = mlp.graph.copy()
    graph.outputs = graph.outputs[:-1]
    assert "outputs" in drifted(workshop.judged(mlp, graph))


def test_swapped_outputs_are_drift(workshop: Workshop) -> None:
    mlp = program("mlp")
    graph = mlp.graph.copy()
    graph.outputs = graph.outputs[::-1]
    assert drifted(workshop.judged(mlp, graph))


def test_an_edited_weight_is_drift_though_its_hash_was_edited_too(workshop: Workshop) -> None:
    mlp = program("mlp")
    weight = next(weight for weight in mlp.graph.weights.values() if weight.target == "down.weight")
    edited = mlp.weights[weight.name].clone()
    edited[0, 0] += 2.0**-20
    weights = {**mlp.weights, weight.name: edited}
    graph = mlp.graph.copy()
    graph.weights[weight.name] = replace(weight, sha256=tensor_sha256(edited))
    for lowered in (mlp.graph, graph):
        case = workshop.case(mlp, workshop.artifact(mlp, lowered, weights=weights))
        assert drifted(workshop.verdict(case)) == {"weights"}


def test_an_altered_hash_is_drift(workshop: Workshop) -> None:
    mlp = program("mlp")
    case = workshop.case(mlp, workshop.artifact(mlp, semantic_hash="0" * 64))
    assert drifted(workshop.verdict(case)) == {"semantic_hash"}


def test_a_manifest_that_does_not_own_up_to_a_change_is_drift(workshop: Workshop) -> None:
    mlp = program("mlp")
    subtraction = node_called(mlp.graph, "aten.sub.Tensor")
    graph = with_node(mlp.graph, subtraction.name, args=subtraction.args[::-1])
    unowned = (Entry(EntryKind.FLAG, "opt-level"),)
    assert drifted(workshop.verdict(workshop.case(mlp, workshop.artifact(mlp, graph, entries=unowned)))) == {
        "manifest_gap"
    }


@pytest.mark.parametrize("honest", [True, False])
def test_a_folded_constant_is_computed_again(workshop: Workshop, honest: bool) -> None:
    casting = program("casting")
    ones = node_called(casting.graph, "aten.ones.default")
    value = torch.ones(6)
    if not honest:
        value[4] = 1 + 2.0**-23
    folded = Weight("folded", WeightKind.CONSTANT, ones.name, TensorSpec.of(value), tensor_sha256(value))
    graph = casting.graph.copy()
    graph.weights["folded"] = folded
    graph.replace_uses(ones.name, "folded")
    graph.erase(ones.name)
    artifact = workshop.artifact(casting, graph, weights={**casting.weights, "folded": value})
    verdict = workshop.verdict(workshop.case(casting, artifact, "inference"))
    assert verdict["outcome"] == "admitted" if honest else drifted(verdict) == {"constants"}


@pytest.mark.parametrize(
    ("source", "op", "position", "value"),
    [
        ("mlp", "aten.mul.Tensor", 1, 0.125 * (1 + 1e-6)),
        ("mlp", "aten.layer_norm.default", 4, 1.0001e-5),
        ("batch_norm", "aten._native_batch_norm_legit_functional.default", 6, 0.11),
    ],
)
def test_an_edited_scalar_is_drift_however_small(
    workshop: Workshop, source: str, op: str, position: int, value: float
) -> None:
    made = program(source)
    node = node_called(made.graph, op)
    assert type(node.args[position]) is float
    args = (*node.args[:position], value, *node.args[position + 1 :])
    assert drifted(workshop.judged(made, with_node(made.graph, node.name, args=args), before=SEGFAULT)) == {"constants"}


def test_a_mutable_operator_is_drift(workshop: Workshop) -> None:
    mlp = program("mlp")
    scaled = node_called(mlp.graph, "aten.mul.Tensor")
    verdict = workshop.judged(mlp, with_node(mlp.graph, scaled.name, op="aten.mul_.Tensor"))
    assert drifted(verdict) == {"topology"}


def test_a_write_back_that_the_program_does_not_make_is_drift(workshop: Workshop) -> None:
    attention = program("attention")
    graph = attention.graph.copy()
    written = replace(graph.outputs[0], kind=OutputKind.MUTATES_INPUT, target="x")
    graph.outputs = (*graph.outputs, written)
    assert "outputs" in drifted(workshop.judged(attention, graph))
