"""The graph's own rules as a table, its edits, and its JSON."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.random_graphs import graphs, spec

from tensorfarm.contract import graph_json
from tensorfarm.contract.graph import (
    Graph,
    IllegalGraph,
    Input,
    Node,
    Output,
    OutputKind,
    Ref,
    TargetDevice,
    TensorSpec,
    Weight,
    WeightKind,
)


def legal() -> Graph:
    """out = relu(x + w), both terms named ``sum``; the buffer ``w`` gets the sum."""
    add = Node("sum", "aten.add.Tensor", (Ref("x"), Ref("w")), (), (spec(),), origins=("sum",), source="model.py:3")
    relu = Node("relu", "aten.relu.default", (Ref("sum"),), (), (spec(),), origins=("relu",))
    return Graph(
        (Input("x", spec()),),
        {"w": Weight("w", WeightKind.BUFFER, "layer.w", spec(), "0" * 64)},
        {"sum": add, "relu": relu},
        (Output(OutputKind.USER, Ref("relu")), Output(OutputKind.MUTATES_BUFFER, Ref("sum"), "layer.w")),
    )


def _with(name: str, /, **changes: object) -> Callable[[Graph], None]:
    def change(graph: Graph) -> None:
        graph.nodes[name] = replace(graph.nodes[name], **changes)

    return change


def _outputs(*outputs: Output) -> Callable[[Graph], None]:
    return lambda graph: setattr(graph, "outputs", outputs)


def _inputs(*inputs: Input) -> Callable[[Graph], None]:
    return lambda graph: setattr(graph, "inputs", inputs)


def _backwards(graph: Graph) -> None:
    graph.nodes = dict(reversed(graph.nodes.items()))


ILLEGAL = [
    ("two inputs of one name", _inputs(Input("x", spec()), Input("x", spec())), "two values are called x"),
    ("an input called like a weight", _inputs(Input("w", spec())), "two values are called w"),
    ("a weight under another key", lambda graph: graph.weights.update(x2=graph.weights["w"]), "values are called w"),
    (
        "a node called like an input",
        lambda graph: graph.insert(Node("x", "aten.relu.default", (Ref("w"),))),
        "called x",
    ),
    ("a node under another key", _with("sum", name="other"), "two values are called other"),
    ("a use before the definition", _backwards, "relu (aten.relu.default) uses sum before it is defined"),
    ("a use of nothing", _with("relu", args=(Ref("gone"),)), "uses gone before"),
    ("a use of nothing inside a tuple", _with("relu", args=((Ref("sum"), Ref("gone")),)), "uses gone before"),
    ("a use of itself", _with("relu", args=(Ref("relu"),)), "uses relu before"),
    ("an unknown operator", _with("relu", op="aten.relook.default"), "operator 'aten.relook.default' is unknown"),
    ("a name that is no operator", _with("relu", op="relu"), "operator 'relu' is unknown"),
    ("a writing operator", _with("sum", op="aten.add_.Tensor"), "sum (aten.add_.Tensor) at model.py:3 writes"),
    ("an argument too many", _with("relu", args=(Ref("sum"), 1)), "arguments that it does not take"),
    ("an unknown argument", _with("relu", kwargs=(("beta", 1),)), "arguments that it does not take"),
    ("an argument given twice", _with("relu", kwargs=(("self", Ref("x")),)), "arguments that it does not take"),
    ("an output that is not there", _outputs(Output(OutputKind.USER, Ref("gone"))), "output 0 is gone"),
    ("a write to no buffer", _outputs(Output(OutputKind.MUTATES_BUFFER, Ref("sum"), "w")), "mutates_buffer 'w'"),
    ("a write to no input", _outputs(Output(OutputKind.MUTATES_INPUT, Ref("sum"), "w")), "mutates_input 'w'"),
]


def test_the_legal_graph_is_legal() -> None:
    legal().validate()


@pytest.mark.parametrize(("change", "says"), [row[1:] for row in ILLEGAL], ids=[row[0] for row in ILLEGAL])
def test_each_broken_rule_is_named(change: Callable[[Graph], None], says: str) -> None:
    graph = legal()
    change(graph)
    with pytest.raises(IllegalGraph) as refused:
        graph.validate()
    assert says in str(refused.value)
    assert refused.value.exit_code == 10


def test_replacing_a_use_reaches_nested_arguments_and_outputs() -> None:
    graph = legal()
    graph.insert(Node("cat", "aten.cat.default", ((Ref("sum"), Ref("x")), 1), (), (spec(),)))
    graph.replace_uses("sum", "x")
    assert graph.nodes["cat"].args == ((Ref("x"), Ref("x")), 1)
    assert [output.value for output in graph.outputs] == [Ref("relu"), Ref("x")]
    assert "sum" not in graph.users()


def test_a_value_in_use_cannot_be_erased() -> None:
    for name in ("sum", "relu"):
        with pytest.raises(IllegalGraph, match=f"{name} is still used"):
            legal().erase(name)


def test_an_inserted_node_stands_before_the_one_named() -> None:
    graph = legal()
    graph.insert(Node("new", "aten.relu.default", (Ref("x"),)), before="relu")
    assert list(graph.nodes) == ["sum", "new", "relu"]
    with pytest.raises(IllegalGraph, match="two nodes are called new"):
        graph.insert(Node("new", "aten.relu.default", (Ref("x"),)))


def test_a_copy_does_not_share_its_nodes() -> None:
    graph = legal()
    graph.copy().nodes.clear()
    assert list(graph.nodes) == ["sum", "relu"]


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_a_graph_comes_back_from_its_json(graph: Graph) -> None:
    back = graph_json.decoded(json.loads(graph_json.dumps(graph)))
    assert back == graph
    assert list(back.nodes) == list(graph.nodes)
    assert graph_json.graph_hash(back) == graph_json.graph_hash(graph)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text()
    | st.sampled_from([torch.bfloat16, torch.bool, torch.strided, torch.channels_last, TargetDevice(), Ref("x")])
)


@settings(deadline=None)
@given(st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=12))
def test_an_argument_comes_back_from_its_json_with_its_type_and_sign(value: object) -> None:
    text = json.dumps(graph_json.encoded_argument(value))
    back = graph_json.decoded_argument(json.loads(text))
    assert repr(back) == repr(value)


def test_an_argument_that_is_no_value_is_refused() -> None:
    with pytest.raises(IllegalGraph, match="type Tensor cannot be part of a graph"):
        graph_json.encoded_argument(torch.ones(1))


@pytest.mark.parametrize(
    "damage",
    [
        lambda value: value.update(format="tensorfarm.graph/0"),
        lambda value: value.pop("nodes"),
        lambda value: value["nodes"][0].pop("op"),
        lambda value: value["nodes"][0]["args"].append({"pickle": "x"}),
        lambda value: value["inputs"][0].update(spec=["float33", [1], [1]]),
        lambda value: value["outputs"][0].update(kind="sideways"),
    ],
)
def test_malformed_graph_json_is_refused(damage: Callable[[dict], object]) -> None:
    value = graph_json.encoded(legal())
    damage(value)
    with pytest.raises(IllegalGraph):
        graph_json.decoded(value)


def test_the_graph_hash_sees_origins_and_not_source_lines() -> None:
    moved, invented = legal(), legal()
    _with("sum", source="model.py:99")(moved)
    _with("sum", origins=("other",))(invented)
    assert graph_json.graph_hash(moved) == graph_json.graph_hash(legal())
    assert graph_json.graph_hash(invented) != graph_json.graph_hash(legal())


def test_a_spec_is_that_of_the_tensor() -> None:
    assert TensorSpec.of(torch.ones(2, 3).t()) == TensorSpec(torch.float32, (3, 2), (1, 3))
