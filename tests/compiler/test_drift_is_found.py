"""What a compiler must not change is found from structure alone, on every model; what it may change is not."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from tensorfarm.compiler.pipeline import parse, resolved
from tensorfarm.compiler.sequence import run_passes
from tensorfarm.contract.graph import Graph, Input, Node, Output, OutputKind, Ref, TensorSpec, Weight, WeightKind
from tensorfarm.contract.ir_contract import MUST_NOT_CHANGE, STRICT, IrContract, drifts
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal

CONTRACT = Path(__file__).parents[2] / "configs" / "ir_contract.yaml"


def lowered(program: Program) -> Graph:
    """What an honest pipeline makes of the program."""
    graph = program.graph.copy()
    run_passes(graph, resolved(parse("fx:drop-noop-casts,cse,fold-constants,dce")))
    return graph


def rules(program: Program, graph: Graph, contract: IrContract = STRICT) -> set[str]:
    found = drifts(program.graph, program.semantic_hash, graph, program.semantic_hash, contract)
    return {drift.rule for drift in found}


def some_node(graph: Graph) -> Node:
    """A node in the middle with a single result."""
    return [node for node in graph.nodes.values() if not node.many][len(graph.nodes) // 2]


def first_weight(graph: Graph) -> Weight:
    return next(weight for weight in graph.weights.values() if weight.kind is WeightKind.PARAMETER)


def invented(name: str, x: str, graph: Graph, origins: tuple[str, ...]) -> Node:
    return Node(name, "aten.cos.default", (Ref(x),), (), (graph.spec_of(x),), False, origins)


def test_an_altered_hash_is_drift(model: Program) -> None:
    found = drifts(model.graph, model.semantic_hash, lowered(model), "0" * 64)
    assert [drift.rule for drift in found] == ["semantic_hash"]


@pytest.mark.parametrize("claimed", ["nothing", "a stranger", "another operator"])
def test_an_invented_node_is_drift(model: Program, claimed: str) -> None:
    graph = lowered(model)
    middle = some_node(graph)
    origins = {"nothing": (), "a stranger": ("nowhere",), "another operator": (middle.name,)}[claimed]
    graph.insert(invented("invented", middle.name, graph, origins))
    assert rules(model, graph) == {"topology"}


def test_an_edited_weight_is_drift(model: Program) -> None:
    graph = lowered(model)
    weight = first_weight(graph)
    graph.weights[weight.name] = replace(weight, sha256="0" * 64)
    assert rules(model, graph) == {"weights"}


@pytest.mark.parametrize(
    "change",
    [
        {"requires_grad": False},
        {"spec": TensorSpec(torch.float64, (1,), (1,))},
        {"target": "nobody.weight"},
        {"kind": WeightKind.BUFFER},
    ],
)
def test_a_weight_that_is_no_longer_the_same_is_drift(model: Program, change: dict[str, object]) -> None:
    graph = lowered(model)
    trained = next(weight for weight in graph.weights.values() if weight.requires_grad)
    graph.weights[trained.name] = replace(trained, **change)  # type: ignore[arg-type]
    assert "weights" in rules(model, graph)


def test_a_dropped_output_is_drift(model: Program) -> None:
    graph = lowered(model)
    graph.outputs = graph.outputs[:-1]
    assert rules(model, graph) == {"outputs"}


def test_an_extra_output_is_drift(model: Program) -> None:
    graph = lowered(model)
    graph.outputs = (*graph.outputs, Output(OutputKind.USER, Ref(some_node(graph).name)))
    assert rules(model, graph) == {"outputs"}


def test_swapped_outputs_are_drift(zoo: Callable[[str], Program]) -> None:
    program = zoo("operators:suite")
    graph = lowered(program)
    one, two, *rest = graph.outputs
    graph.outputs = (two, one, *rest)
    assert "outputs" in rules(program, graph)


def test_an_output_that_takes_another_nodes_name_is_drift(zoo: Callable[[str], Program]) -> None:
    program = zoo("operators:suite")
    graph = lowered(program)
    softmax, norm = (output.value for output in graph.outputs[:2])
    assert isinstance(softmax, Ref)
    assert isinstance(norm, Ref)
    forged = graph.nodes[norm.name]
    graph.nodes = {**graph.nodes, softmax.name: replace(forged, name=softmax.name, origins=(softmax.name,))}
    assert rules(program, graph) == {"topology"}
    graph.nodes[softmax.name] = replace(forged, name=softmax.name)
    assert "outputs" in rules(program, graph)


def test_an_output_rewired_under_forged_origins_is_drift(zoo: Callable[[str], Program]) -> None:
    program = zoo("operators:suite")
    graph = lowered(program)
    softmax, norm = (output.value for output in graph.outputs[:2])
    assert isinstance(softmax, Ref)
    assert isinstance(norm, Ref)
    graph.nodes[norm.name] = replace(graph.nodes[norm.name], origins=(norm.name, softmax.name))
    graph.outputs = (replace(graph.outputs[0], value=norm), *graph.outputs[1:])
    assert rules(program, graph) == {"topology"}


def test_another_dtype_at_the_boundary_is_drift(model: Program) -> None:
    graph = lowered(model)
    value = graph.outputs[-1].value
    assert isinstance(value, Ref)
    spec = graph.spec_of(value.name)
    assert spec is not None
    node = graph.nodes[value.name]
    graph.nodes[node.name] = replace(node, results=(replace(spec, dtype=torch.float16),))
    assert rules(model, graph) == {"boundary_dtypes"}


def test_another_input_is_drift(model: Program) -> None:
    graph = lowered(model)
    graph.inputs = tuple(replace(item, requires_grad=not item.requires_grad) for item in graph.inputs)
    assert rules(model, graph) == {"boundary_dtypes"}


def constant(name: str, target: str, spec: TensorSpec) -> Weight:
    return Weight(name, WeightKind.CONSTANT, target, spec, "0" * 64)


def test_a_folded_constant_without_an_origin_is_drift(model: Program) -> None:
    graph = lowered(model)
    graph.weights["invented"] = constant("invented", "nowhere", TensorSpec(torch.float32, (1,), (1,)))
    assert rules(model, graph) == {"constants"}


def test_a_constant_that_stands_for_a_computed_value_is_drift(model: Program) -> None:
    graph = lowered(model)
    node = graph.nodes[next(name for name in reversed(graph.nodes) if graph.spec_of(name))]
    spec = graph.spec_of(node.name)
    assert spec is not None
    graph.weights["frozen"] = constant("frozen", node.origins[0], spec)
    assert rules(model, graph) == {"constants"}


def test_a_node_that_uses_a_foreign_value_is_drift(zoo: Callable[[str], Program]) -> None:
    program = zoo("language:bert")
    graph = lowered(program)
    first, *_, last = (node for node in graph.nodes.values() if node.op == "aten.linear.default")
    graph.nodes[first.name] = replace(first, args=(first.args[0], last.args[1], *first.args[2:]))
    assert rules(program, graph) == {"topology"}


def test_unconnected_origins_are_drift(zoo: Callable[[str], Program]) -> None:
    program = zoo("language:bert")
    graph = lowered(program)
    linear = next(node for node in graph.nodes.values() if node.op == "aten.linear.default")
    norm = next(node for node in reversed(graph.nodes.values()) if node.op == "aten.layer_norm.default")
    graph.nodes[linear.name] = replace(linear, origins=(linear.name, norm.name))
    assert rules(program, graph) == {"topology"}


def test_a_fused_region_is_no_drift(zoo: Callable[[str], Program]) -> None:
    program = zoo("operators:suite")
    graph = program.graph.copy()
    scaled, softmax = (
        next(n for n in graph.nodes.values() if n.op == op) for op in ("aten.mul.Tensor", "aten.softmax.int")
    )
    assert isinstance(scaled.args[0], Ref)
    fused = replace(
        softmax, op="aten.cos.default", args=scaled.args[:1], kwargs=(), origins=(scaled.name, softmax.name)
    )
    graph.nodes[softmax.name] = fused
    graph.erase(scaled.name)
    assert rules(program, graph) == set()


def test_an_operator_may_become_what_the_contract_says(zoo: Callable[[str], Program]) -> None:
    program = zoo("language:llama")
    graph = lowered(program)
    power = next(node for node in graph.nodes.values() if node.op == "aten.pow.Tensor_Scalar")
    graph.nodes[power.name] = replace(power, op="aten.mul.Tensor", args=(power.args[0], power.args[0]))
    assert rules(program, graph) == {"topology"}
    assert rules(program, graph, IrContract.read(CONTRACT)) == set()


EDITS = {
    "float": lambda value: value * 1.000001 + 1e-6,
    "int": lambda value: value + 1,
    "bool": lambda value: not value,
}


@pytest.mark.parametrize("kind", EDITS)
def test_an_edited_constant_argument_is_drift_wherever_it_is(model: Program, kind: str) -> None:
    graph = lowered(model)
    for node in graph.nodes.values():
        for position, value in enumerate(node.args):
            if type(value).__name__ == kind:
                edited = graph.copy()
                args = (*node.args[:position], EDITS[kind](value), *node.args[position + 1 :])
                edited.nodes[node.name] = replace(node, args=args)
                assert "constants" in rules(model, edited), node


def scaled(*scales: float, merged: bool = False) -> Graph:
    """``x`` times each of ``scales``, all of them outputs, or one node that stands for all the products."""
    spec = TensorSpec(torch.float32, (2,), (1,))
    names = [f"mul_{number}" for number in range(len(scales))]
    nodes = {
        name: Node(name, "aten.mul.Tensor", (Ref("x"), scale), (), (spec,), False, (name,))
        for name, scale in zip(names, scales, strict=True)
    }
    if merged:
        nodes = {names[0]: replace(nodes[names[0]], origins=tuple(names))}
        names = names[:1] * len(scales)
    outputs = tuple(Output(OutputKind.USER, Ref(name)) for name in names)
    return Graph((Input("x", spec),), {}, nodes, outputs)


def constants_drifted(captured: Graph, lowered: Graph) -> bool:
    return "constants" in {drift.rule for drift in drifts(captured, "0", lowered, "0")}


def test_an_edited_constant_is_told_with_whose_it_is() -> None:
    (drift,) = drifts(scaled(0.25), "0", scaled(0.125), "0")
    told = (
        "argument 'other' of the artifact's node mul_0 (aten.mul.Tensor) is 0.125, that of the program's mul_0 is 0.25"
    )
    assert drift.what == told


def test_constants_are_compared_by_their_bits() -> None:
    assert not constants_drifted(scaled(math.nan), scaled(math.nan))
    assert constants_drifted(scaled(0.0), scaled(-0.0))
    assert constants_drifted(scaled(1.0), scaled(1))
    assert not constants_drifted(scaled(0.5, 0.5), scaled(0.5, 0.5, merged=True))
    assert constants_drifted(scaled(0.5, 0.5), scaled(0.25, 0.25, merged=True))


def test_an_output_that_is_a_nan_is_itself() -> None:
    graph = scaled(0.5)
    graph.outputs = (*graph.outputs, Output(OutputKind.USER, math.nan))
    assert drifts(graph, "0", graph.copy(), "0") == []


def test_a_rule_that_is_left_out_is_not_enforced(model: Program) -> None:
    graph = lowered(model)
    graph.outputs = graph.outputs[:-1]
    assert rules(model, graph, IrContract(frozenset({"weights"}))) == set()


def test_the_projects_contract_forbids_everything_that_can_be_forbidden() -> None:
    assert IrContract.read(CONTRACT).must_not_change == set(MUST_NOT_CHANGE)
    assert IrContract.parse(yaml.safe_load(CONTRACT.read_text())) == IrContract.read(CONTRACT)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("may_change: []\nmust_not_change: [outputz]", "outputz"),
        ("may_change: []\nmust_not_change: []\nmay_chang: []", "may_chang"),
        ("may_change: []", "must_not_change"),
        ("may_change: [", "cannot be read"),
    ],
)
def test_a_contract_with_an_unknown_word_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "ir_contract.yaml"
    path.write_text(text)
    with pytest.raises(Refusal, match=told):
        IrContract.read(path)
