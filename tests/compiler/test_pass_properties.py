"""Random graphs mean the same after any passes, with any of their sites switched off."""

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tensorfarm.compiler.passes.fold_constants import evaluated
from tensorfarm.compiler.pipeline import BUILT_IN, parse, resolved
from tensorfarm.compiler.sequence import EVERYTHING, Decided, run_passes
from tensorfarm.contract import ops
from tensorfarm.contract.graph import Graph, Input, Node, Output, OutputKind, Ref, TensorSpec, Weight, WeightKind
from tensorfarm.contract.ir_contract import drifts, folded_constants
from tensorfarm.contract.manifest import Decision, Entry, EntryKind, Numerics
from tensorfarm.contract.switches import Switches
from tensorfarm.contract.tensors import tensor_sha256

# (operator, arguments after the operands, keywords); every value is 3 by 3, so any operand fits anywhere.
UNARY = (
    ("aten.neg.default", (), ()),
    ("aten.clone.default", (), ()),
    ("aten.alias.default", (), ()),
    ("aten.detach.default", (), ()),
    ("aten.sin.default", (), ()),
    ("aten.transpose.int", (0, 1), ()),
    ("aten.reshape.default", ((3, 3),), ()),
    ("aten.mul.Tensor", (0.3,), ()),
    ("aten.add.Tensor", (1,), ()),
    ("aten.add.Tensor", (1.0,), ()),
    ("aten._to_copy.default", (), (("dtype", torch.float32),)),
    ("aten._to_copy.default", (), (("dtype", torch.float64),)),
    ("aten._to_copy.default", (), (("dtype", torch.bfloat16),)),
)
BINARY = (("aten.add.Tensor", (), ()), ("aten.mul.Tensor", (), ()), ("aten.sub.Tensor", (), ()))
FACTORY = (
    ("aten.full.default", ((3, 3), 0.7), ()),
    ("aten.full.default", ((3, 3), -0.0), ()),
    ("aten.full.default", ((3, 3), 0.0), ()),
    ("aten.ones.default", ((3, 3),), ()),
)
RANDOM = (("aten.rand.default", ((3, 3),), ()),)
KINDS = ((UNARY, 1), (UNARY, 1), (BINARY, 2), (FACTORY, 0), (RANDOM, 0))

drawn_node = st.tuples(*(st.integers(0, 999) for _ in range(4)))
drawn_graph = st.tuples(
    st.lists(drawn_node, min_size=1, max_size=14), st.lists(st.integers(0, 999), min_size=1, max_size=3)
)
drawn_switches = st.builds(Switches, st.none() | st.integers(0, 12), st.frozensets(st.integers(0, 12), max_size=6))
drawn_passes = st.lists(st.sampled_from(sorted(BUILT_IN)), min_size=1, max_size=4)


def built(drawn: tuple[list[tuple[int, ...]], list[int]]) -> tuple[Graph, dict[str, torch.Tensor], torch.Tensor]:
    """A graph from drawn numbers, its weights and its input."""
    steps, returned = drawn
    seeds = torch.Generator().manual_seed(3)
    weight, buffer, x = (torch.randn(3, 3, generator=seeds) for _ in range(3))
    values = {"x": x, "w": weight, "b": buffer}
    weights = {
        "w": Weight("w", WeightKind.PARAMETER, "layer.w", TensorSpec.of(weight), tensor_sha256(weight), True),
        "b": Weight("b", WeightKind.BUFFER, "layer.b", TensorSpec.of(buffer), tensor_sha256(buffer)),
    }
    graph = Graph((Input("x", TensorSpec.of(x), None, True),), weights)
    for number, (kind, which, left, right) in enumerate(steps):
        table, arity = KINDS[kind % len(KINDS)]
        op, rest, keywords = table[which % len(table)]
        known = list(values)
        operands = [known[pick % len(known)] for pick in (left, right)[:arity]]
        name = f"n{number}"
        values[name] = ops.resolve(op)(*(values[item] for item in operands), *rest, **dict(keywords))
        args = (*(Ref(item) for item in operands), *rest)
        graph.insert(Node(name, op, args, keywords, (TensorSpec.of(values[name]),), False, (name,)))
    known = list(values)
    graph.outputs = tuple(Output(OutputKind.USER, Ref(known[pick % len(known)])) for pick in returned)
    return graph, {"w": weight, "b": buffer}, x


def transformed(
    graph: Graph, weights: dict[str, torch.Tensor], names: list[str], switches: Switches = EVERYTHING
) -> tuple[Graph, dict[str, torch.Tensor], list[Decided]]:
    rewritten = graph.copy()
    decided = run_passes(rewritten, resolved(parse("fx:" + ",".join(names))), switches)
    folded = {item.name: evaluated(graph, item.target) for item in folded_constants(graph, rewritten)}
    return rewritten, {name: {**weights, **folded}[name] for name in rewritten.weights}, decided


def same_bits(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.dtype, one.shape, tensor_sha256(one)) == (other.dtype, other.shape, tensor_sha256(other))


def all_same(old: list[torch.Tensor | None], new: list[torch.Tensor | None]) -> bool:
    return len(old) == len(new) and all(same_bits(*pair) for pair in zip(old, new, strict=True))


def applied_numerics(decided: list[Decided]) -> set[Numerics]:
    sites = (item.entry for item in decided if item.entry.kind is EntryKind.SITE)
    return {entry.numerics for entry in sites if entry.decision is Decision.APPLIED}


def shared(values: list[torch.Tensor]) -> set[tuple[int, int]]:
    """Which of the values lie in one memory."""
    places = [value.untyped_storage().data_ptr() for value in values]
    return {(i, j) for i in range(len(places)) for j in range(i) if places[i] == places[j]}


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn_graph, drawn_passes, drawn_switches)
@example(([(0, 1, 0, 0), (0, 1, 0, 0)], [3, 4]), ["cse"], EVERYTHING)
@example(([(3, 1, 0, 0), (3, 2, 0, 0)], [3, 4]), ["cse", "fold-constants"], EVERYTHING)
def test_a_graph_means_the_same_whichever_sites_are_on(
    run: Callable[..., Any], drawn: Any, names: list[str], switches: Switches
) -> None:
    graph, weights, x = built(drawn)
    rewritten, kept, decided = transformed(graph, weights, names, switches)
    outputs, gradients, after = run(graph, weights, {"x": x})
    new_outputs, new_gradients, new_after = run(rewritten, {**weights, **kept}, {"x": x})
    assert all_same(outputs, new_outputs)
    assert all_same(after, new_after)
    assert [value is None for value in gradients] == [value is None for value in new_gradients]
    assert shared([*new_outputs, *new_after]) <= shared([*outputs, *after])
    if applied_numerics(decided) <= {Numerics.EXACT}:
        assert all_same(gradients, new_gradients)
    else:
        pairs = zip(gradients, new_gradients, strict=True)
        assert all(
            torch.allclose(old, new, rtol=1e-1, atol=1e-1) for old, new in pairs if old is not None and new is not None
        )


@settings(max_examples=120, deadline=None)
@given(drawn_graph, drawn_passes)
def test_an_honest_rewriting_never_drifts(drawn: Any, names: list[str]) -> None:
    graph, weights, _ = built(drawn)
    rewritten, _, _ = transformed(graph, weights, names)
    assert drifts(graph, "h", rewritten, "h") == []


@settings(max_examples=60, deadline=None)
@given(drawn_graph, drawn_passes)
def test_sites_do_not_depend_on_names(drawn: Any, names: list[str]) -> None:
    graph, weights, _ = built(drawn)
    other = renamed(graph)
    _, _, decided = transformed(graph, weights, names)
    run_off = run_passes(other, resolved(parse("fx:" + ",".join(names))))

    def places(entries: list[Decided]) -> list[tuple[str, ...]]:
        return [(item.entry.name, item.entry.site, item.entry.decision, item.entry.reason) for item in entries]

    assert places(decided) == places(run_off)


@settings(max_examples=60, deadline=None)
@given(drawn_graph, drawn_passes, st.integers(0, 12))
def test_with_the_first_n_on_a_run_is_the_full_one_up_to_its_nth_site(drawn: Any, names: list[str], n: int) -> None:
    graph, weights, _ = built(drawn)
    _, _, full = transformed(graph, weights, names)
    _, _, partial = transformed(graph, weights, names, Switches(n))
    assert numbered(partial)[:n] == numbered(full)[:n]
    assert all(entry.decision is Decision.REFUSED for entry in numbered(partial)[n:])
    if n >= len(numbered(full)):
        assert [item.entry for item in partial] == [item.entry for item in full]


@settings(max_examples=60, deadline=None)
@given(drawn_graph, drawn_passes, drawn_switches)
def test_sites_before_the_first_that_is_off_are_those_of_the_full_run(
    drawn: Any, names: list[str], switches: Switches
) -> None:
    graph, weights, _ = built(drawn)
    _, _, full = transformed(graph, weights, names)
    _, _, partial = transformed(graph, weights, names, switches)
    everything, some = numbered(full), numbered(partial)
    first = next((number for number in range(len(everything)) if not switches.on(number)), len(everything))
    assert some[:first] == everything[:first]
    assert [place(entry) for entry in some[first : first + 1]] == [
        place(entry) for entry in everything[first : first + 1]
    ]
    assert [entry.attributes["ordinal"] for entry in some] == [str(number) for number in range(len(some))]
    assert [entry.decision is not Decision.REFUSED for entry in some] == [switches.on(i) for i in range(len(some))]


def numbered(decided: list[Decided]) -> list[Entry]:
    return [item.entry for item in decided if "ordinal" in item.entry.attributes]


def place(entry: Entry) -> tuple[str, str, str]:
    return entry.name, entry.site, entry.attributes["nodes"]


def renamed(graph: Graph) -> Graph:
    def name(old: str) -> str:
        return f"other_{old}"

    def swap(argument: Any) -> Any:
        if isinstance(argument, Ref):
            return Ref(name(argument.name))
        return tuple(map(swap, argument)) if isinstance(argument, tuple) else argument

    inputs = tuple(Input(name(item.name), item.spec, item.literal, item.requires_grad) for item in graph.inputs)
    weights = {
        name(item.name): Weight(name(item.name), item.kind, item.target, item.spec, item.sha256, item.requires_grad)
        for item in graph.weights.values()
    }
    made = Graph(inputs, weights)
    for node in graph.nodes.values():
        args = tuple(map(swap, node.args))
        called = name(node.name)
        made.insert(Node(called, node.op, args, node.kwargs, node.results, node.many, (called,)))
    made.outputs = tuple(Output(item.kind, swap(item.value), item.target) for item in graph.outputs)
    return made
