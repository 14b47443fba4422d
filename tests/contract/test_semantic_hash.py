"""The semantic hash: what must leave no trace in it, and what must."""

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.random_graphs import Growth, graphs, renamed, reordered, respelled, spec

from tensorfarm.contract.canonical import canonical_text, draws
from tensorfarm.contract.graph import (
    Argument,
    Graph,
    Input,
    Node,
    Output,
    OutputKind,
    Ref,
    TargetDevice,
    Weight,
    WeightKind,
    rewired,
)
from tensorfarm.contract.identity import CandidateKey, input_spec_id, mint_semantic_hash
from tensorfarm.contract.tensors import tensor_sha256

PROPERTY = settings(max_examples=60, deadline=None)
CHANCE = st.randoms(use_true_random=False)


@PROPERTY
@given(graphs(), CHANCE)
def test_renaming_leaves_no_trace(graph: Graph, chance: random.Random) -> None:
    other = renamed(graph, chance)
    other.validate()
    assert canonical_text(other) == canonical_text(graph)


@PROPERTY
@given(graphs(), CHANCE)
def test_the_order_of_independent_nodes_leaves_no_trace(graph: Graph, chance: random.Random) -> None:
    other = reordered(graph, chance)
    other.validate()
    assert canonical_text(other) == canonical_text(graph)


@PROPERTY
@given(graphs(), CHANCE)
def test_arguments_by_name_and_written_out_defaults_leave_no_trace(graph: Graph, chance: random.Random) -> None:
    other = respelled(graph, chance)
    other.validate()
    assert canonical_text(other) == canonical_text(graph)


@PROPERTY
@given(graphs())
def test_dead_pure_nodes_and_strides_leave_no_trace(graph: Graph) -> None:
    other = graph.copy()
    other.insert(Node("dead", "aten.tanh.default", (Ref("x0"),), (), (spec(),), origins=("dead",)))
    other.inputs = tuple(
        replace(item, spec=replace(item.spec, stride=(1, 2))) if item.spec else item for item in graph.inputs
    )
    assert mint_semantic_hash(other) == mint_semantic_hash(graph)
    assert input_spec_id(other) != input_spec_id(graph)


def test_placement_leaves_no_trace() -> None:
    bare, placed = Growth(), Growth()
    bare.call("aten.zeros.default", (2, 4))
    placed.call("aten.zeros.default", (2, 4), device=TargetDevice(), pin_memory=False, layout=torch.strided)
    for growth in (bare, placed):
        growth.graph.outputs = (Output(OutputKind.USER, Ref("n0")),)
    assert canonical_text(bare.graph) == canonical_text(placed.graph)


Choose = Callable[[list[str]], str]


def _swap_operands(ops_wanted: tuple[str, ...]) -> Callable[[Graph, Choose], Graph]:
    def mutate(graph: Graph, choose: Choose) -> Graph:
        places = [key for key, node in graph.nodes.items() if node.op in ops_wanted and node.args[0] != node.args[1]]
        node = graph.nodes[choose(places)]
        graph.nodes[node.name] = replace(node, args=(node.args[1], node.args[0]))
        return graph

    return mutate


def _constant(change: Callable[[float], Argument]) -> Callable[[Graph, Choose], Graph]:
    def mutate(graph: Graph, choose: Choose) -> Graph:
        scaled = [name for name, node in graph.nodes.items() if isinstance(node.args[-1], float)]
        node = graph.nodes[choose(scaled)]
        graph.nodes[node.name] = replace(node, args=(*node.args[:-1], change(node.args[-1])))
        return graph

    return mutate


def _dtype_argument(graph: Graph, choose: Choose) -> Graph:
    node = graph.nodes[choose([name for name, node in graph.nodes.items() if "dtype" in dict(node.kwargs)])]
    graph.nodes[node.name] = replace(node, kwargs=(("dtype", torch.float16),))
    return graph


def _weight_bytes(graph: Graph, choose: Choose) -> Graph:
    live = {name for node in graph.nodes.values() for name in node.operands()}
    weight = graph.weights[choose([name for name in graph.weights if name in live])]
    graph.weights[weight.name] = replace(weight, sha256="f" + weight.sha256[1:])
    return graph


def _rewire(graph: Graph, choose: Choose) -> Graph:
    node = graph.nodes[choose([name for name, node in graph.nodes.items() if node.op != "getitem"])]
    old = choose(sorted(set(node.operands())))
    half = node.op == "aten.cat.default"
    names = [item.name for item in graph.inputs if item.spec] + list(graph.weights) + list(graph.nodes)
    earlier = names[: names.index(node.name)]
    fits = [name for name in earlier if name != old and not (name in graph.nodes and graph.nodes[name].many)]
    shape = graph.spec_of(old).shape
    new = choose([name for name in fits if half or graph.spec_of(name).shape == shape])
    graph.nodes[node.name] = rewired(node, lambda name: Ref(new if name == old else name))
    return graph


def _duplicate_shared(graph: Graph, choose: Choose) -> Graph:
    users = {name: found for name, found in graph.users().items() if name in graph.nodes and len(found) > 1}
    name = choose(list(users))
    node, user = graph.nodes[name], graph.nodes[choose(users[name])]
    graph.insert(replace(node, name="twin"), before=user.name)
    graph.nodes[user.name] = rewired(user, lambda used: Ref("twin" if used == name else used))
    return graph


def _drop_output(graph: Graph, choose: Choose) -> Graph:
    place = int(choose([str(number) for number in range(len(graph.outputs))]))
    graph.outputs = graph.outputs[:place] + graph.outputs[place + 1 :]
    return graph


def _swap_outputs(graph: Graph, choose: Choose) -> Graph:
    graph.outputs = (graph.outputs[1], graph.outputs[0], *graph.outputs[2:])
    return graph


def _reorder_draws(graph: Graph, choose: Choose) -> Graph:
    drawn = [name for name, node in graph.nodes.items() if draws(node)]
    return reordered(graph, random.Random(0), [drawn[1], drawn[0]])


def _input_gradient(graph: Graph, choose: Choose) -> Graph:
    first = graph.inputs[0]
    graph.inputs = (replace(first, requires_grad=not first.requires_grad), *graph.inputs[1:])
    return graph


def _weight_gradient(graph: Graph, choose: Choose) -> Graph:
    graph.weights["w0"] = replace(graph.weights["w0"], requires_grad=not graph.weights["w0"].requires_grad)
    return graph


def _input_dtype(graph: Graph, choose: Choose) -> Graph:
    graph.inputs = (replace(graph.inputs[0], spec=spec(torch.bfloat16)), *graph.inputs[1:])
    return graph


def _input_literal(graph: Graph, choose: Choose) -> Graph:
    graph.inputs = (*graph.inputs[:-1], Input("flag", None, "sum"))
    return graph


MUTATIONS = {
    "swapped operands of a subtraction or division": _swap_operands(("aten.sub.Tensor", "aten.div.Tensor")),
    "swapped operands of a sum or product": _swap_operands(("aten.add.Tensor", "aten.mul.Tensor")),
    "a constant one unit in the last place away": _constant(lambda value: math.nextafter(value, math.inf)),
    "the other sign of a constant": _constant(lambda value: -value),
    "an integer constant for a float": _constant(int),
    "another dtype argument": _dtype_argument,
    "other weight bytes": _weight_bytes,
    "an operand wired to another value": _rewire,
    "a shared value computed twice": _duplicate_shared,
    "an output less": _drop_output,
    "two outputs swapped": _swap_outputs,
    "two random draws in the other order": _reorder_draws,
    "an input's gradient flag": _input_gradient,
    "a weight's gradient flag": _weight_gradient,
    "an input's dtype": _input_dtype,
    "a specialised input's value": _input_literal,
}


@pytest.mark.parametrize("kind", MUTATIONS)
@settings(max_examples=25, deadline=None)
@given(graph=graphs(), data=st.data())
def test_any_change_of_meaning_changes_the_hash(kind: str, graph: Graph, data: st.DataObject) -> None:
    before = mint_semantic_hash(graph)
    changed = MUTATIONS[kind](graph.copy(), lambda places: data.draw(st.sampled_from(places)))
    assert mint_semantic_hash(changed) != before


def _one_call(op: str, *args: Argument, **named: Argument) -> Graph:
    growth = Growth()
    growth.graph.inputs = (Input("x0", spec()), Input("x1", spec()))
    made = growth.call(op, *args, **named)
    growth.graph.outputs = (Output(OutputKind.USER, made),)
    return growth.graph


def test_a_negative_zero_is_not_a_zero() -> None:
    plus, minus = (_one_call("aten.mul.Scalar", Ref("x0"), zero) for zero in (0.0, -0.0))
    assert mint_semantic_hash(plus) != mint_semantic_hash(minus)


def test_a_float_constant_is_not_the_integer_it_equals() -> None:
    whole, real, true = (_one_call("aten.mul.Scalar", Ref("x0"), value) for value in (1, 1.0, True))
    assert len({mint_semantic_hash(graph) for graph in (whole, real, true)}) == 3


def test_a_negative_zero_is_not_the_default_zero() -> None:
    attend = "aten.scaled_dot_product_attention.default"
    bare, minus = (_one_call(attend, *[Ref("x0")] * 3, **given) for given in ({}, {"dropout_p": -0.0}))
    assert mint_semantic_hash(bare) != mint_semantic_hash(minus)


def test_a_true_is_not_the_default_one() -> None:
    bare, true = (_one_call("aten.add.Tensor", Ref("x0"), Ref("x1"), **given) for given in ({}, {"alpha": True}))
    assert mint_semantic_hash(bare) != mint_semantic_hash(true)


def test_two_weights_with_equal_bytes_stay_two_values() -> None:
    growth = Growth()
    growth.graph.weights = {
        name: Weight(name, WeightKind.PARAMETER, name, spec(), "0" * 64, requires_grad=True) for name in ("a", "b")
    }
    growth.call("aten.add.Tensor", Ref("a"), Ref("b"))
    growth.graph.outputs = (Output(OutputKind.USER, Ref("n0")),)
    tied = growth.graph.copy()
    tied.nodes["n0"] = rewired(tied.nodes["n0"], lambda _: Ref("a"))
    assert mint_semantic_hash(growth.graph) != mint_semantic_hash(tied)


def test_which_of_two_equal_draws_is_subtracted_counts() -> None:
    growth = Growth()
    growth.graph.inputs = (Input("x0", spec()),)
    for name in ("a", "b"):
        growth.graph.insert(Node(name, "aten.rand_like.default", (Ref("x0"),), (), (spec(),)))
    growth.call("aten.sub.Tensor", Ref("a"), Ref("b"))
    growth.graph.outputs = (Output(OutputKind.USER, Ref("n2")),)
    swapped = reordered(growth.graph, random.Random(0), ["b", "a"])
    assert mint_semantic_hash(growth.graph) != mint_semantic_hash(swapped)


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        ("aten.dropout.default", (Ref("x0"), 0.5, True), True),
        ("aten.dropout.default", (Ref("x0"), 0.5, False), False),
        ("aten.native_dropout.default", (Ref("x0"), 0.5, None), True),
        ("aten.rrelu.default", (Ref("x0"),), False),
        ("aten.scaled_dot_product_attention.default", (Ref("x0"),) * 3, False),
        ("aten.scaled_dot_product_attention.default", (Ref("x0"), Ref("x0"), Ref("x0"), None, 0.1), True),
        ("aten.rand_like.default", (Ref("x0"),), True),
        ("aten.relu.default", (Ref("x0"),), False),
    ],
)
def test_only_a_call_that_takes_random_numbers_draws(op: str, args: tuple[Argument, ...], expected: bool) -> None:
    assert draws(Node("n", op, args)) is expected


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([torch.float32, torch.bfloat16, torch.int8, torch.bool, torch.complex64]), st.data())
def test_one_bit_of_a_weight_changes_its_hash(dtype: torch.dtype, data: st.DataObject) -> None:
    weight = torch.arange(24).reshape(4, 6).to(dtype)
    flipped = weight.clone()
    raw = flipped.view(torch.uint8)
    place = data.draw(st.integers(0, raw.numel() - 1))
    bit = 0 if dtype is torch.bool else data.draw(st.integers(0, 7))
    raw.view(-1)[place] ^= 1 << bit
    assert tensor_sha256(flipped) != tensor_sha256(weight)


def test_a_weight_hash_sees_values_and_not_strides() -> None:
    weight = torch.arange(24.0).reshape(4, 6)
    assert tensor_sha256(weight.t().contiguous().t()) == tensor_sha256(weight)
    assert tensor_sha256(weight.reshape(6, 4)) != tensor_sha256(weight)
    assert tensor_sha256(torch.tensor(-0.0)) != tensor_sha256(torch.tensor(0.0))
    waves = torch.randn(3, dtype=torch.complex64)
    assert tensor_sha256(waves.conj()) == tensor_sha256(waves.conj().resolve_conj()) != tensor_sha256(waves)


def test_every_field_of_a_candidate_key_changes_its_id() -> None:
    key = CandidateKey("s", "i", "training", "c", "cpu", "t", "fx:dce", {"mine:Pass": "1"})
    others = [replace(key, **{name: "other"}) for name in vars(key) if name != "pass_digests"]
    others.append(replace(key, pass_digests={"mine:Pass": "2"}))
    assert len({key.candidate_id, *(other.candidate_id for other in others)}) == len(others) + 1
    assert replace(key, pass_digests=dict(key.pass_digests)).candidate_id == key.candidate_id
