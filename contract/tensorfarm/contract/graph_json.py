"""The graph as JSON: exact (floats by their bits), ordered, and independent of the torch that wrote it."""

from __future__ import annotations

from typing import Any, cast

import torch

from tensorfarm.contract.digest import canonical_json, sha256_text
from tensorfarm.contract.graph import (
    Argument,
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

FORMAT = "tensorfarm.graph/1"
_TORCH_ENUMS = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}


def encoded_argument(value: Argument) -> Any:
    """One argument as plain JSON values. Raises IllegalGraph for what no graph may hold."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, complex):
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, Ref):
        return {"ref": value.name}
    if isinstance(value, TargetDevice):
        return {"device": "target"}
    if isinstance(value, tuple):
        return [encoded_argument(item) for item in value]
    # Asked of an object: an exporter may have left anything here, whatever the annotation says.
    leaf = cast("object", value)
    for tag, kind in _TORCH_ENUMS.items():
        if isinstance(leaf, kind):
            return {tag: str(leaf).removeprefix("torch.")}
    raise IllegalGraph(f"an argument of type {type(leaf).__name__} cannot be part of a graph")


def decoded_argument(value: Any) -> Argument:
    """The inverse of ``encoded_argument``. Raises IllegalGraph on an unknown tag."""
    if isinstance(value, list):
        return tuple(decoded_argument(item) for item in value)
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    match tag:
        case "float":
            return float.fromhex(content)
        case "complex":
            return complex(float.fromhex(content[0]), float.fromhex(content[1]))
        case "ref":
            return Ref(content)
        case "device":
            return TargetDevice()
        case "dtype" | "layout" | "memory_format":
            return getattr(torch, content)
        case _:
            raise IllegalGraph(f"unknown argument tag {tag!r} in a stored graph")


def _encoded_spec(spec: TensorSpec | None) -> Any:
    if spec is None:
        return None
    return [str(spec.dtype).removeprefix("torch."), list(spec.shape), list(spec.stride)]


def _decoded_spec(value: Any) -> TensorSpec:
    dtype, shape, stride = value
    return TensorSpec(getattr(torch, dtype), tuple(shape), tuple(stride))


def encoded(graph: Graph) -> dict[str, Any]:
    """The graph as plain JSON values; ``decoded`` is its inverse."""
    return {
        "format": FORMAT,
        "inputs": [
            {
                "name": item.name,
                "spec": _encoded_spec(item.spec),
                "literal": encoded_argument(item.literal),
                "requires_grad": item.requires_grad,
            }
            for item in graph.inputs
        ],
        "weights": [
            {
                "name": item.name,
                "kind": item.kind.value,
                "target": item.target,
                "spec": _encoded_spec(item.spec),
                "sha256": item.sha256,
                "requires_grad": item.requires_grad,
            }
            for item in graph.weights.values()
        ],
        "nodes": [
            {
                "name": node.name,
                "op": node.op,
                "args": [encoded_argument(item) for item in node.args],
                "kwargs": {key: encoded_argument(item) for key, item in node.kwargs},
                "results": [_encoded_spec(spec) for spec in node.results],
                "many": node.many,
                "origins": list(node.origins),
                "source": node.source,
            }
            for node in graph.nodes.values()
        ],
        "outputs": [
            {"kind": item.kind.value, "value": encoded_argument(item.value), "target": item.target}
            for item in graph.outputs
        ],
    }


def decoded(value: dict[str, Any]) -> Graph:
    """Read a graph. Raises IllegalGraph on another format or a malformed one."""
    if value.get("format") != FORMAT:
        raise IllegalGraph(f"graph format {value.get('format')!r} is not {FORMAT!r}")
    try:
        return Graph(
            inputs=tuple(
                Input(
                    item["name"],
                    None if item["spec"] is None else _decoded_spec(item["spec"]),
                    decoded_argument(item["literal"]),
                    item["requires_grad"],
                )
                for item in value["inputs"]
            ),
            weights={
                item["name"]: Weight(
                    item["name"],
                    WeightKind(item["kind"]),
                    item["target"],
                    _decoded_spec(item["spec"]),
                    item["sha256"],
                    item["requires_grad"],
                )
                for item in value["weights"]
            },
            nodes={item["name"]: _decoded_node(item) for item in value["nodes"]},
            outputs=tuple(
                Output(OutputKind(item["kind"]), decoded_argument(item["value"]), item["target"])
                for item in value["outputs"]
            ),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise IllegalGraph(f"malformed graph: {type(error).__name__}: {error}") from error


def _decoded_node(item: dict[str, Any]) -> Node:
    return Node(
        name=item["name"],
        op=item["op"],
        args=tuple(decoded_argument(argument) for argument in item["args"]),
        kwargs=tuple(sorted((key, decoded_argument(argument)) for key, argument in item["kwargs"].items())),
        results=tuple(None if spec is None else _decoded_spec(spec) for spec in item["results"]),
        many=item["many"],
        origins=tuple(item["origins"]),
        source=item["source"],
    )


def dumps(graph: Graph) -> str:
    """The graph as canonical JSON: equal graphs, names included, give equal text."""
    return canonical_json(encoded(graph))


def graph_hash(graph: Graph) -> str:
    """sha256 of the exact graph, names and origins included, source lines left out: what chains manifest entries."""
    value = encoded(graph)
    for node in value["nodes"]:
        del node["source"]
    return sha256_text(canonical_json(value))
