"""What an operator costs in principle, from its name and the shapes around it. No operator runs here.

Two tables and torch's own schemas: an operator that no table names is pointwise, unless its schema says that it returns
an alias of its input. Nothing is special for any program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorfarm.contract import ops
from tensorfarm.contract.graph import Node, TensorSpec
from tensorfarm.cost_model.work import Work, WorkKind

Specs = Mapping[str, tuple[TensorSpec, ...]]
"""The tensors that each name of a graph stands for."""

_KINDS: dict[str, WorkKind] = {
    name: kind
    for kind, names in {
        WorkKind.GEMM: "linear matmul mm bmm addmm baddbmm mv dot addmv einsum bilinear",
        WorkKind.CONVOLUTION: "conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d",
        WorkKind.ATTENTION: "scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu",
        WorkKind.NORMALISATION: "layer_norm native_layer_norm group_norm native_group_norm batch_norm rms_norm"
        " _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training softmax"
        " _softmax log_softmax _log_softmax instance_norm",
        WorkKind.REDUCTION: "sum mean amax amin var var_mean std std_mean prod max min logsumexp any all argmax argmin"
        " norm linalg_vector_norm cumsum cumprod max_pool1d max_pool2d avg_pool1d avg_pool2d adaptive_avg_pool1d"
        " adaptive_avg_pool2d max_pool2d_with_indices topk sort nll_loss cross_entropy_loss mse_loss",
        WorkKind.PICK: "index index_select gather embedding scatter scatter_add index_put masked_select",
        WorkKind.MOVE: "clone cat stack constant_pad_nd pad roll flip repeat repeat_interleave arange full full_like"
        " zeros zeros_like ones ones_like new_ones new_zeros new_full empty _to_copy copy tril triu",
    }.items()
    for name in names.split()
}

# Costly functions by operator; the names on the right are those that ``peaks`` measures.
_HEAVY: dict[str, str] = {
    "exp": "exp",
    "logsumexp": "exp",
    "softplus": "exp",
    "sigmoid": "sigmoid",
    "silu": "sigmoid",
    "mish": "tanh",
    "elu": "exp",
    "log": "log",
    "log1p": "log",
    "tanh": "tanh",
    "gelu": "erf",
    "erf": "erf",
    "sin": "sin",
    "cos": "sin",
    "sqrt": "sqrt",
    "rsqrt": "sqrt",
    "pow": "pow",
    "div": "divide",
    "reciprocal": "divide",
    "softmax": "softmax",
    "_softmax": "softmax",
    "log_softmax": "softmax",
    "_log_softmax": "softmax",
    "layer_norm": "layer_norm",
    "native_layer_norm": "layer_norm",
    "rms_norm": "layer_norm",
    "group_norm": "layer_norm",
}
# Read whole by most operators; by these only what is picked.
_PICKS = frozenset({"embedding", "index", "index_select", "gather"})
# Passes over memory, each a dispatch, of composite operators that have no kernel of their own on a CPU.
_PASSES = {"rms_norm": 5, "logsumexp": 4, "diff": 3, "instance_norm": 2, "std": 2, "roll": 2, "mse_loss": 3}
# Views where the input lies in order, copies where it does not.
_MAYBE_VIEWS = frozenset({"reshape", "contiguous", "flatten", "_reshape_copy"})


def packet(node: Node) -> str:
    """``add`` of ``aten.add.Tensor``."""
    return node.op if node.op == ops.GETITEM else node.op.split(".")[1]


def kind_of(node: Node, inputs: Sequence[TensorSpec]) -> WorkKind:
    """What limits this call."""
    name = packet(node)
    if name == ops.GETITEM or node.op in ops.ASSERTIONS:
        return WorkKind.VIEW
    if name in _KINDS:
        # ``max`` and ``min`` of two tensors are pointwise.
        pointwise = name in ("max", "min") and len(inputs) > 1
        return WorkKind.POINTWISE if pointwise else _KINDS[name]
    if name in _MAYBE_VIEWS:
        return WorkKind.VIEW if not inputs or in_order(inputs[0]) else WorkKind.MOVE
    if _returns_an_alias(node.op) or _is_a_dropout_that_is_off(name, node):
        return WorkKind.VIEW
    return WorkKind.POINTWISE


def work_of(node: Node, inputs: Sequence[TensorSpec]) -> Work:
    """The work of one call, by itself. ``inputs`` are its tensor operands, in order."""
    kind, name = kind_of(node, inputs), packet(node)
    results = [spec for spec in node.results if spec is not None]
    if kind is WorkKind.VIEW:
        return Work(kind, 1, 0, 0, 0)
    read = [bytes_of(spec) for spec in inputs]
    written = sum(bytes_of(spec) for spec in results)
    if name in _PICKS and read:
        read = [written, *read[1:]]
    elements = max([_elements(spec) for spec in (*inputs, *results)], default=0)
    if kind in (WorkKind.POINTWISE, WorkKind.MOVE):
        elements = sum(_elements(spec) for spec in results)
    heavy = ((_HEAVY[name], elements),) if name in _HEAVY else ()
    flops, grain = 0, 0
    if kind is WorkKind.GEMM:
        flops, grain = _product(node, name, inputs, results)
    elif kind is WorkKind.CONVOLUTION:
        flops, grain = _convolution(name, inputs, results)
    elif kind is WorkKind.ATTENTION:
        flops, grain, scores = _attention(inputs)
        heavy = (("softmax", scores),)
    strided = 0
    if kind in (WorkKind.POINTWISE, WorkKind.MOVE) and results:
        turned = [_is_turned(spec) != _is_turned(results[0]) for spec in inputs]
        strided = sum(size for size, differs in zip(read, turned, strict=True) if differs)
    return Work(kind, 1, flops, sum(read), written, strided, 0, grain, heavy)


def one_by_one(node: Node, work: Work) -> Work:
    """The work of a call where nothing is fused: a composite operator passes over memory again and again."""
    passes = _PASSES.get(packet(node), 1)
    return replace(
        work, ops=passes * work.ops, bytes_read=passes * work.bytes_read, bytes_written=passes * work.bytes_written
    )


def in_order(spec: TensorSpec) -> bool:
    """Whether the elements lie in memory in the order of their indices, without gaps."""
    expected = 1
    for size, stride in zip(reversed(spec.shape), reversed(spec.stride), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _is_turned(spec: TensorSpec) -> bool:
    """Whether neighbours by the last index are not neighbours in memory, though the tensor is not broadcast there."""
    inner = next((stride for size, stride in zip(spec.shape[::-1], spec.stride[::-1], strict=True) if size > 1), 1)
    return inner > 1


def bytes_of(spec: TensorSpec) -> int:
    """Distinct bytes: a broadcast dimension is there once."""
    sizes = (size for size, stride in zip(spec.shape, spec.stride, strict=True) if stride != 0)
    return math.prod(sizes) * spec.dtype.itemsize


def _elements(spec: TensorSpec) -> int:
    return math.prod(spec.shape)


def _returns_an_alias(op: str) -> bool:
    schema = ops.schema_of(op)
    return schema is not None and any(result.alias_info is not None for result in schema.returns)


def _is_a_dropout_that_is_off(name: str, node: Node) -> bool:
    return "dropout" in name and any(argument is False for argument in (*node.args, *dict(node.kwargs).values()))


def _product(node: Node, name: str, inputs: Sequence[TensorSpec], results: Sequence[TensorSpec]) -> tuple[int, int]:
    """Two operations for each multiplication; ``m·n·k`` of them, for each matrix of a batch."""
    if name == "einsum":
        return _einsum(node, inputs)
    bias_first = name in ("addmm", "baddbmm", "addmv")
    left, right = inputs[1:3] if bias_first else inputs[:2]
    depth = left.shape[-1] if left.shape else 1
    out = results[0].shape
    columns = right.shape[0] if name == "linear" else (right.shape[-1] if len(right.shape) > 1 else 1)
    shared = name == "linear" or len(right.shape) <= 2
    rows = math.prod(out) // max(columns, 1) if shared else (out[-2] if len(out) > 1 else 1)
    return 2 * math.prod(out) * depth, min(depth, columns, rows)


def _einsum(node: Node, inputs: Sequence[TensorSpec]) -> tuple[int, int]:
    terms = str(node.args[0]).replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, spec in zip(terms, inputs, strict=False):
        sizes |= dict(zip(term, spec.shape, strict=False))
    return 2 * math.prod(sizes.values()), min(sizes.values(), default=0)


def _convolution(name: str, inputs: Sequence[TensorSpec], results: Sequence[TensorSpec]) -> tuple[int, int]:
    """Each output element is a product with one filter; transposed, each input element is spread by one."""
    given, weight = inputs[0], inputs[1]
    places = given if "transpose" in name else results[0]
    filters = max(weight.shape[0], 1)
    return 2 * _elements(places) * (_elements(weight) // filters), weight.shape[1]


def _attention(inputs: Sequence[TensorSpec]) -> tuple[int, int, int]:
    """Flops of two products, their smallest extent, and the number of scores."""
    query, key, value = (spec.shape for spec in inputs[:3])
    scores = math.prod(query[:-1]) * key[-2]
    return 2 * scores * (query[-1] + value[-1]), min(query[-1], query[-2], key[-2]), scores
