"""Every pass on every model of the zoo: same outputs, same gradients, and nothing that the judge would call drift."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensorfarm.compiler.passes.fold_constants import evaluated
from tensorfarm.compiler.pipeline import BUILT_IN, parse, resolved
from tensorfarm.compiler.sequence import Decided, run_passes
from tensorfarm.contract.graph import Graph
from tensorfarm.contract.graph_json import graph_hash
from tensorfarm.contract.ir_contract import drifts, folded_constants
from tensorfarm.contract.manifest import Decision, EntryKind, Manifest, Numerics
from tensorfarm.contract.program import Program
from tensorfarm.contract.tensors import tensor_sha256

ALL = "drop-noop-casts,cse,fold-constants,dce"


def passed(program: Program, passes: str) -> tuple[Graph, dict[str, torch.Tensor], list[Decided]]:
    graph = program.graph.copy()
    decided = run_passes(graph, resolved(parse(f"fx:{passes}")))
    folded = {item.name: evaluated(program.graph, item.target) for item in folded_constants(program.graph, graph)}
    return graph, {name: {**program.weights, **folded}[name] for name in graph.weights}, decided


def bits(tensors: list[torch.Tensor | None]) -> list[str]:
    return ["none" if tensor is None else tensor_sha256(tensor) for tensor in tensors]


@pytest.mark.parametrize("passes", [*sorted(BUILT_IN), ALL])
def test_outputs_and_gradients_keep_their_bits(model: Program, run: Callable[..., Any], passes: str) -> None:
    graph, weights, decided = passed(model, passes)
    outputs, gradients, after = run(model.graph, model.weights, model.inputs)
    new_outputs, new_gradients, new_after = run(graph, weights, model.inputs)
    assert bits(new_outputs) == bits(outputs)
    assert bits(new_after) == bits(after)
    applied = [item.entry for item in decided if item.entry.decision is Decision.APPLIED]
    sites = [entry for entry in applied if entry.kind is EntryKind.SITE]
    assert {entry.numerics for entry in sites} <= {Numerics.EXACT}
    assert bits(new_gradients) == bits(gradients)


def test_strides_of_outputs_stay(model: Program, run: Callable[..., Any]) -> None:
    graph, weights, _ = passed(model, ALL)
    outputs, new_outputs = (run(*which, model.inputs)[0] for which in ((model.graph, model.weights), (graph, weights)))
    assert [value.stride() for value in outputs] == [value.stride() for value in new_outputs]


@pytest.mark.parametrize("passes", [*sorted(BUILT_IN), ALL, "dce,fold-constants{limit=16},cse,drop-noop-casts,dce"])
def test_an_honest_pipeline_does_not_drift(model: Program, passes: str) -> None:
    graph, weights, _ = passed(model, passes)
    assert drifts(model.graph, model.semantic_hash, graph, model.semantic_hash) == []
    assert {name: tensor_sha256(value) for name, value in weights.items()} == {
        name: weight.sha256 for name, weight in graph.weights.items()
    }


def test_every_node_has_origins_and_merged_nodes_keep_both(zoo: Callable[[str], Program]) -> None:
    program = zoo("language:t5")
    graph, _, decided = passed(program, "cse")
    assert all(set(node.origins) <= program.graph.nodes.keys() and node.origins for node in graph.nodes.values())
    merged = [item.entry.attributes["nodes"].split(",") for item in decided if item.entry.kind is EntryKind.SITE]
    assert len(merged) > 10
    kept_by = dict(merged)
    for duplicate, kept in merged:
        while kept in kept_by:
            kept = kept_by[kept]
        assert {duplicate, kept} <= set(graph.nodes[kept].origins)


def test_the_passes_find_something_to_do(zoo: Callable[[str], Program]) -> None:
    program = zoo("language:llama")
    graph, _, decided = passed(program, ALL)
    applied = {item.entry.name for item in decided if item.entry.decision is Decision.APPLIED}
    assert applied == set(BUILT_IN)
    assert len(graph.nodes) < 0.8 * len(program.graph.nodes)


def test_a_refused_site_says_why(zoo: Callable[[str], Program]) -> None:
    _, _, decided = passed(zoo("language:bert"), "fold-constants{limit=16}")
    refused = [item.entry for item in decided if item.entry.decision is Decision.REFUSED]
    assert "it has 512 elements (limit 16)" in {entry.reason for entry in refused}


def test_the_manifest_chains_from_the_captured_graph_to_the_last(model: Program) -> None:
    graph, _, decided = passed(model, ALL)
    entries = tuple(item.entry for item in decided)
    ends = (graph_hash(model.graph), graph_hash(graph))
    assert Manifest(model.semantic_hash, ALL, {}, *ends, entries).gaps() == []
    passes = [entry for entry in entries if entry.kind is EntryKind.PASS]
    assert [entry.name for entry in passes] == ALL.split(",")
    assert all((entry.decision is Decision.NO_OP) == (entry.ir_hash_before == entry.ir_hash_after) for entry in passes)


def test_a_second_run_decides_the_same(model: Program) -> None:
    (one, _, first), (other, _, second) = passed(model, ALL), passed(model, ALL)
    assert [item.entry for item in first] == [item.entry for item in second]
    assert graph_hash(one) == graph_hash(other)


def test_places_tell_sites_of_one_pass_apart(model: Program) -> None:
    _, _, decided = passed(model, ALL)
    sites = [(item.entry.name, item.entry.site) for item in decided if item.entry.kind is EntryKind.SITE]
    assert len(set(sites)) == len(sites)
