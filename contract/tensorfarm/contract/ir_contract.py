"""What a compiler may change of a program and what it must not, and the comparison that finds out.

Pure over two graphs: the captured one and the one in the artifact. A node of the lowered graph claims to stand for
captured nodes; the claims must fit each other, the operators and the flow of values. Whether the values are right,
those of folded constants included, is the gate's to compute: a plausible lie about provenance is found there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensorfarm.contract.canonical import bound_arguments, draws
from tensorfarm.contract.graph import Argument, Graph, Node, Ref, TensorSpec, Weight, WeightKind, references
from tensorfarm.contract.numerics import refuse_invalid
from tensorfarm.contract.yaml_file import read_yaml

MAY_CHANGE = ("schedule", "layout", "fusion", "kernel", "memory_plan")
MUST_NOT_CHANGE = ("semantic_hash", "outputs", "topology", "constants", "weights", "boundary_dtypes")

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["may_change", "must_not_change"],
    "properties": {
        "may_change": {"type": "array", "items": {"enum": [*MAY_CHANGE]}, "uniqueItems": True},
        "must_not_change": {"type": "array", "items": {"enum": [*MUST_NOT_CHANGE]}, "uniqueItems": True},
        "may_become": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        },
    },
}


@dataclass(frozen=True)
class Drift:
    """One thing that must not have changed and did. ``rule`` is a word of ``must_not_change``."""

    rule: str
    what: str


@dataclass(frozen=True)
class IrContract:
    """``may_become`` lists, per captured operator, others that a node standing for it may call.

    The file's ``may_change`` is for people: whatever ``must_not_change`` does not name may change.
    """

    must_not_change: frozenset[str]
    may_become: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    @staticmethod
    def read(path: Path) -> IrContract:
        """Read ``ir_contract.yaml``. Refuses unknown fields and words; a rule left out is not enforced."""
        return IrContract.parse(read_yaml(path, "IR contract"), str(path))

    @staticmethod
    def parse(value: Any, place: str = "IR contract") -> IrContract:
        """Validate an already parsed contract; ``place`` names it in errors."""
        refuse_invalid(value, _SCHEMA, place)
        allowed = {op: frozenset(others) for op, others in value.get("may_become", {}).items()}
        return IrContract(frozenset(value["must_not_change"]), allowed)


STRICT = IrContract(frozenset(MUST_NOT_CHANGE))


def drifts(
    captured: Graph, captured_hash: str, lowered: Graph, carried_hash: str, rules: IrContract = STRICT
) -> list[Drift]:
    """Everything forbidden that happened between the captured graph and the artifact's."""
    found: list[Drift] = []
    if carried_hash != captured_hash:
        found.append(
            Drift("semantic_hash", f"the artifact carries {carried_hash[:12]}, the program is {captured_hash[:12]}")
        )
    found += _boundary(captured, lowered)
    found += _weights(captured, lowered)
    found += _Topology(captured, lowered, rules).drifts()
    return [drift for drift in found if drift.rule in rules.must_not_change]


def folded_constants(captured: Graph, lowered: Graph) -> list[Weight]:
    """Constants that the lowered graph has and the captured one has not: each must equal what its origin computes.

    A folded constant's ``target`` names that origin.
    """
    known = {item.target for item in captured.weights.values()}
    return [
        weight
        for weight in lowered.weights.values()
        if weight.kind is WeightKind.CONSTANT and weight.target not in known and weight.target in captured.nodes
    ]


def _boundary(captured: Graph, lowered: Graph) -> list[Drift]:
    found: list[Drift] = []
    if captured.inputs != lowered.inputs:
        found.append(Drift("boundary_dtypes", "the inputs are not those of the program"))
    shape = [(item.kind, item.target) for item in captured.outputs]
    if shape != [(item.kind, item.target) for item in lowered.outputs]:
        found.append(
            Drift("outputs", f"the program has {len(shape)} outputs, the artifact {len(lowered.outputs)} or others")
        )
        return found
    for position, (old, new) in enumerate(zip(captured.outputs, lowered.outputs, strict=True)):
        if not isinstance(old.value, Ref) or not isinstance(new.value, Ref):
            if _constant(old.value) != _constant(new.value):
                found.append(Drift("outputs", f"output {position} was {old.value!r} and is {new.value!r}"))
        elif _meaning(captured, old.value.name) != _meaning(lowered, new.value.name):
            found.append(Drift("boundary_dtypes", f"output {position} ({old.kind.value}) changed dtype or shape"))
        elif not _stands_for(captured, lowered, new.value.name, old.value.name):
            found.append(Drift("outputs", f"output {position} is {new.value.name}, which is not {old.value.name}"))
    return found


def _constant(value: Argument) -> str:
    """An argument's text with references left out. By bits, not by ``==``: a NaN is itself, -0.0 and True are not 0.0
    and 1."""
    if isinstance(value, Ref):
        return "%"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_constant, value))}]"
    return value.hex() if isinstance(value, float) else repr(value)


def _constants(node: Node) -> dict[str, str]:
    return {key: _constant(value) for key, value in bound_arguments(node)}


def _holds_a_number(node: Node) -> bool:
    return any(type(value) in (float, int, complex) for _, value in bound_arguments(node))


def _meaning(graph: Graph, name: str) -> tuple[object, object]:
    spec: TensorSpec | None = graph.spec_of(name)
    return (None, None) if spec is None else (spec.dtype, spec.shape)


def _stands_for(captured: Graph, lowered: Graph, name: str, captured_name: str) -> bool:
    """A node stands for its origins, a weight for its target, an input for itself: a bare name proves nothing."""
    if name in lowered.nodes:
        return captured_name in lowered.nodes[name].origins
    if name in lowered.weights:
        original = captured.weights.get(captured_name)
        return lowered.weights[name].target == (captured_name if original is None else original.target)
    return name == captured_name


def _weights(captured: Graph, lowered: Graph) -> list[Drift]:
    found: list[Drift] = []
    known = {weight.target: weight for weight in captured.weights.values()}
    reach = _Reach(captured)
    folded = {weight.name for weight in folded_constants(captured, lowered)}
    for weight in lowered.weights.values():
        original = known.get(weight.target)
        if weight.name in folded:
            found += _folded(captured, weight, reach)
        elif original is None:
            rule = "constants" if weight.kind is WeightKind.CONSTANT else "weights"
            found.append(Drift(rule, f"weight {weight.target} is not the program's"))
        elif _content(original) != _content(weight):
            found.append(Drift("weights", f"weight {weight.target} was edited"))
    return found


def _content(weight: Weight) -> tuple[object, ...]:
    return weight.sha256, weight.kind, weight.requires_grad, weight.spec.dtype, weight.spec.shape


def _folded(captured: Graph, weight: Weight, reach: _Reach) -> list[Drift]:
    """Only what depends on neither inputs, weights that may change, nor random draws is a constant."""
    origin = weight.target
    if reach.found[origin]:
        names = ", ".join(sorted(reach.found[origin]))
        return [Drift("constants", f"constant {weight.name} stands for {origin}, which depends on {names}")]
    if weight.requires_grad or _meaning(captured, origin) != (weight.spec.dtype, weight.spec.shape):
        return [Drift("constants", f"constant {weight.name} has not the dtype and shape of {origin}")]
    return []


class _Topology:
    """Whether the claims of the lowered nodes are such as an honest rewriting could make."""

    def __init__(self, captured: Graph, lowered: Graph, rules: IrContract) -> None:
        self.captured, self.lowered, self.rules = captured, lowered, rules
        self.old_reach, self.new_reach = _Reach(captured), _Reach(lowered)
        self.ancestors = _ancestors(captured)

    def drifts(self) -> list[Drift]:
        found = [what for node in self.lowered.nodes.values() if (what := self._claim(node))]
        edited = [what for node in self.lowered.nodes.values() if (what := self._edited(node))]
        return [
            *(Drift("topology", what) for what in (*found, *self._draws(), *self._outputs())),
            *(Drift("constants", what) for what in edited),
        ]

    def _edited(self, node: Node) -> str:
        """A constant argument that is not its origin's: a scale, an ``eps``, a momentum, a dimension; empty if none.

        Asked of a node that still calls the operator of its origin: of its only one, of merged duplicates, or of one
        beside others that hold no number. A fusion may well compute new constants from those of its parts.
        """
        known = [self.captured.nodes[origin] for origin in node.origins if origin in self.captured.nodes]
        origins = [origin for origin in known if origin.op == node.op]
        if not origins or any(_holds_a_number(origin) for origin in known if origin.op != node.op):
            return ""
        wanted, seen = _constants(origins[0]), _constants(node)
        merged = all(_constants(origin) == wanted for origin in origins[1:]) and not any(
            other.name in self.ancestors[origin.name] for origin in origins for other in origins
        )
        if not merged or wanted == seen:
            return ""
        key = next(key for key in {**wanted, **seen} if wanted.get(key) != seen.get(key))
        bound = [dict(bound_arguments(given)) for given in (origins[0], node)]
        old, new = (repr(given[key]) if key in given else "the default" for given in bound)
        place = f"argument '{key}' of the artifact's node {node.name} ({node.op}) is {new}"
        return f"{place}, that of the program's {origins[0].name} is {old}"

    def _claim(self, node: Node) -> str:
        called = f"node {node.name} ({node.op})"
        if not node.origins:
            return f"{called} stands for nothing in the program"
        strangers = [origin for origin in node.origins if origin not in self.captured.nodes]
        if strangers:
            return f"{called} claims to stand for {', '.join(strangers)}, which is no node"
        origins = [self.captured.nodes[origin] for origin in node.origins]
        if len(origins) == 1 and not self._may_call(origins[0], node.op):
            return f"{called} claims to stand for {origins[0].name} ({origins[0].op}), which is another operator"
        if apart := self._not_connected(origins):
            return f"{called} claims to stand for {apart} as well, which has nothing to do with the rest"
        if odd := self._foreign_operand(node):
            return f"{called} uses {odd}, and nothing that it stands for depends on that"
        return ""

    def _may_call(self, origin: Node, op: str) -> bool:
        return op == origin.op or op in self.rules.may_become.get(origin.op, frozenset())

    def _not_connected(self, origins: list[Node]) -> str:
        """An origin that neither uses nor is used by the others, nor does the same as one of them; empty if none.

        A fusion is a connected region; a merged duplicate is the same operator elsewhere.
        """
        reached, waiting = [origins[0]], list(origins[1:])
        while waiting:
            joined = next((node for node in waiting if any(_touch(node, other) for other in reached)), None)
            if joined is None:
                return waiting[0].name
            waiting.remove(joined)
            reached.append(joined)
        return ""

    def _foreign_operand(self, node: Node) -> str:
        """An operand that stands for nothing the node's origins depend on; empty if none."""
        allowed = frozenset[str](node.origins).union(*(self.ancestors[origin] for origin in node.origins))
        for name in node.operands():
            meant = self._meant(name)
            if meant and not meant & allowed and not self._merged_constant(name, allowed):
                return name
        return ""

    def _meant(self, name: str) -> frozenset[str]:
        if name in self.lowered.nodes:
            return frozenset(self.lowered.nodes[name].origins)
        return frozenset({self.lowered.weights[name].target if name in self.lowered.weights else name})

    def _merged_constant(self, name: str, allowed: frozenset[str]) -> bool:
        """A weight has one target: a constant folded from merged duplicates names one of them, of the same operator."""
        if name not in self.lowered.weights or (target := self.lowered.weights[name].target) not in self.captured.nodes:
            return False
        op, meaning = self.captured.nodes[target].op, _meaning(self.captured, target)
        twins = (self.captured.nodes[other] for other in allowed if other in self.captured.nodes)
        return any(twin.op == op and _meaning(self.captured, twin.name) == meaning for twin in twins)

    def _draws(self) -> list[str]:
        """Random draws come from one stream: the same operators in the same order, or all later values change."""
        old, new = ([node.op for node in g.nodes.values() if draws(node)] for g in (self.captured, self.lowered))
        return (
            []
            if old == new
            else [f"the program draws random numbers {len(old)} times, the artifact {len(new)} or others"]
        )

    def _outputs(self) -> list[str]:
        """An output may lose a dependency (``where`` with a constant condition), never gain one."""
        if len(self.captured.outputs) != len(self.lowered.outputs):
            return []
        found: list[str] = []
        for position, (old, new) in enumerate(zip(self.captured.outputs, self.lowered.outputs, strict=True)):
            before, after = self.old_reach.of_all(references(old.value)), self.new_reach.of_all(references(new.value))
            if after - before:
                found.append(f"output {position} now depends on {', '.join(sorted(after - before))}")
        return found


def _touch(one: Node, other: Node) -> bool:
    return one.op == other.op or one.name in other.operands() or other.name in one.operands()


def _ancestors(graph: Graph) -> dict[str, frozenset[str]]:
    """For each node everything it is computed from: nodes and inputs by name, weights by qualified name."""
    found: dict[str, frozenset[str]] = {}
    for node in graph.nodes.values():
        operands = set(node.operands())
        named = {graph.weights[name].target if name in graph.weights else name for name in operands}
        found[node.name] = frozenset(named).union(*(found[name] for name in operands if name in found))
    return found


class _Reach:
    """What a value depends on: inputs by name, parameters and buffers by qualified name, random draws by operator."""

    def __init__(self, graph: Graph) -> None:
        self.found: dict[str, frozenset[str]] = {item.name: frozenset({item.name}) for item in graph.inputs}
        for weight in graph.weights.values():
            fixed = weight.kind is WeightKind.CONSTANT
            self.found[weight.name] = frozenset[str]() if fixed else frozenset({weight.target})
        for node in graph.nodes.values():
            drawn = frozenset({node.op}) if draws(node) else frozenset[str]()
            self.found[node.name] = self.of_all(node.operands()) | drawn

    def of_all(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset[str]().union(*(self.found[name] for name in names))
