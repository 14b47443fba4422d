"""Random small graphs for property tests: legal, live in every node, and no two values the same computation.

Distinctness is what makes the properties true: in such a graph any change of an operand changes an output's expression.
"""

import itertools
import random
from collections.abc import Callable
from dataclasses import replace

import torch
from hypothesis import strategies as st

from tensorfarm.contract import ops
from tensorfarm.contract.canonical import draws
from tensorfarm.contract.graph import (
    Argument,
    Graph,
    Input,
    Node,
    Output,
    OutputKind,
    Ref,
    TensorSpec,
    Weight,
    WeightKind,
    rewired,
    substituted,
)

SHAPE = (2, 4)
FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=64).filter(lambda value: value != 0)
BINARY = ("aten.sub.Tensor", "aten.add.Tensor", "aten.mul.Tensor", "aten.div.Tensor")


def spec(dtype: torch.dtype = torch.float32, shape: tuple[int, ...] = SHAPE) -> TensorSpec:
    return TensorSpec(dtype, shape, (shape[-1], 1))


class Growth:
    """A graph while it grows. A call that repeats an earlier computation is not added: the earlier value is given."""

    def __init__(self) -> None:
        self.graph = Graph((), {})
        self.known: dict[str, str] = {}

    def call(self, op: str, *args: Argument, results: tuple[TensorSpec, ...] = (), many: bool = False, **named) -> Ref:
        expression = repr((op, args, sorted(named.items())))
        if expression not in self.known:
            name = self.known[expression] = f"n{len(self.graph.nodes)}"
            kwargs = tuple(sorted(named.items()))
            self.graph.insert(Node(name, op, args, kwargs, results or (spec(),), many, (name,), "model.py:1"))
        return Ref(self.known[expression])

    def values(self) -> list[str]:
        names = [item.name for item in self.graph.inputs if item.spec] + list(self.graph.weights)
        return names + [node.name for node in self.graph.nodes.values() if not node.many]


def _boundary(growth: Growth, draw: Callable) -> None:
    flags = draw(st.lists(st.booleans(), min_size=2, max_size=3))
    growth.graph.inputs = (
        *(Input(f"x{place}", spec(), None, flag) for place, flag in enumerate(flags)),
        Input("flag", None, draw(st.sampled_from([True, 3, 0.5, "mean", None]))),
    )
    for place in range(draw(st.integers(1, 3))):
        kind = WeightKind.BUFFER if place == 1 else WeightKind.PARAMETER
        weight = Weight(f"w{place}", kind, f"layer.{place}", spec(), f"{place:064x}", kind is WeightKind.PARAMETER)
        growth.graph.weights[weight.name] = weight


def _step(growth: Growth, draw: Callable) -> None:
    some = st.sampled_from(growth.values()).map(Ref)
    kind = draw(st.sampled_from(["binary", "binary", "relu", "scale", "clamp", "softmax", "cast", "split", "draw"]))
    x = draw(some)
    match kind:
        case "binary":
            growth.call(draw(st.sampled_from(BINARY)), x, draw(some))
        case "relu":
            growth.call("aten.relu.default", x)
        case "scale":
            growth.call("aten.mul.Scalar", x, draw(FLOATS | st.integers(-3, 3)))
        case "clamp":
            growth.call("aten.clamp.default", x, draw(st.none() | FLOATS), draw(FLOATS))
        case "softmax":
            growth.call("aten.softmax.int", x, draw(st.sampled_from([0, 1, -1])))
        case "cast":
            growth.call("aten._to_copy.default", x, dtype=draw(st.sampled_from([torch.float64, torch.bfloat16])))
        case "split":
            half = spec(shape=(2, 2))
            pair = growth.call("aten.split.Tensor", x, 2, 1, results=(half, half), many=True)
            halves = tuple(growth.call("getitem", pair, place, results=(half,)) for place in (0, 1))
            growth.call("aten.cat.default", halves, 1)
        case _:
            growth.call("aten.bernoulli.p", x, draw(st.floats(0.1, 0.9)))


@st.composite
def graphs(draw: Callable) -> Graph:
    """A graph in which every mutation of ``test_semantic_hash`` finds a place."""
    growth = Growth()
    _boundary(growth, draw)
    difference = growth.call("aten.sub.Tensor", Ref("x0"), Ref("x1"))
    product = growth.call("aten.mul.Tensor", Ref("w0"), Ref("x0"))
    growth.call("aten._to_copy.default", growth.call("aten.mul.Scalar", difference, 2.5), dtype=torch.float64)
    growth.call("aten.softmax.int", product, -1)
    first = growth.call("aten.bernoulli.p", product, 0.5)
    growth.call("aten.bernoulli.p", difference, 0.25)
    for _ in range(draw(st.integers(0, 9))):
        _step(growth, draw)
    graph = growth.graph
    used = graph.users()
    sinks = [name for name in graph.nodes if name not in used]
    outputs = [Output(OutputKind.USER, Ref(name)) for name in sinks]
    outputs.append(Output(OutputKind.USER, (first, 7, None)))
    if "w1" in graph.weights:
        outputs.append(Output(OutputKind.MUTATES_BUFFER, difference, "layer.1"))
    graph.outputs = tuple(outputs)
    graph.validate()
    return graph


def renamed(graph: Graph, chance: random.Random) -> Graph:
    """The same graph under other names, weights listed in another order, and nothing for people left in it."""
    old = [item.name for item in graph.inputs] + list(graph.weights) + list(graph.nodes)
    new = [f"v{number}" for number in range(len(old))]
    chance.shuffle(new)
    called = dict(zip(old, new, strict=True))

    def swap(name: str) -> Argument:
        return Ref(called[name])

    weights = [replace(item, name=called[item.name], target=called[item.name]) for item in graph.weights.values()]
    targets = {item.target: called[item.name] for item in graph.weights.values()} | called | {"": ""}
    chance.shuffle(weights)
    nodes = [replace(rewired(node, swap), name=called[name], source="") for name, node in graph.nodes.items()]
    return Graph(
        tuple(replace(item, name=called[item.name]) for item in graph.inputs),
        {item.name: item for item in weights},
        {node.name: node for node in nodes},
        tuple(Output(item.kind, substituted(item.value, swap), targets[item.target]) for item in graph.outputs),
    )


def reordered(graph: Graph, chance: random.Random, random_order: list[str] | None = None) -> Graph:
    """Another order of the nodes that respects their operands and keeps the order of draws (or takes the one given)."""
    drawn = [name for name, node in graph.nodes.items() if draws(node)] if random_order is None else random_order
    after: dict[str, set[str]] = {name: set(node.operands()) & graph.nodes.keys() for name, node in graph.nodes.items()}
    for earlier, later in itertools.pairwise(drawn):
        after[later].add(earlier)
    order: list[str] = []
    while len(order) < len(graph.nodes):
        ready = [name for name in graph.nodes if name not in order and after[name] <= set(order)]
        order.append(chance.choice(ready))
    return Graph(graph.inputs, dict(graph.weights), {name: graph.nodes[name] for name in order}, graph.outputs)


def respelled(graph: Graph, chance: random.Random) -> Graph:
    """The same calls, spelled otherwise: arguments by name that were by position, defaults written out."""
    changed = graph.copy()
    for name, node in graph.nodes.items():
        schema = ops.schema_of(node.op)
        if schema is None:
            continue
        formals = [formal for formal in schema.arguments if not formal.kwarg_only]
        kept = chance.randint(0, len(node.args))
        named = dict(node.kwargs) | {formals[place].name: node.args[place] for place in range(kept, len(node.args))}
        given = {formal.name for formal in formals[:kept]} | named.keys()
        for formal in schema.arguments:
            if formal.name not in given and formal.has_default_value() and chance.random() < 0.5:
                default = formal.default_value
                named[formal.name] = tuple(default) if isinstance(default, list) else default
        changed.nodes[name] = replace(node, args=node.args[:kept], kwargs=tuple(sorted(named.items())))
    return changed
