"""From a functional exported program to a contract graph: names, weights with their ties, calls, what is written back.

Invariant: what has no place in a straight-line graph of static shapes is refused, never dropped.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, TensorArgument
from torch.export.graph_signature import OutputKind as ExportedOutputKind

from tensorfarm.contract import ops
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
from tensorfarm.contract.tensors import tensor_sha256

_WEIGHT_KINDS = {
    InputKind.PARAMETER: WeightKind.PARAMETER,
    InputKind.BUFFER: WeightKind.BUFFER,
    InputKind.CONSTANT_TENSOR: WeightKind.CONSTANT,
}
# In a functional graph nothing aliases, so a view is a reshape; ``view`` would also demand the strides that the
# exporter guessed, which are not those of every attention kernel.
_SAME_ELEMENTS = {"aten.view.default": "aten.reshape.default", "aten._unsafe_view.default": "aten.reshape.default"}
_TORCH = Path(torch.__file__).parent
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


class Conversion:
    """One conversion. After ``graph()``, ``weights`` holds the tensors by the graph's weight names.

    ``wants_gradient`` says of each qualified weight name whether it is trained; ``examples`` are the flat inputs.
    """

    def __init__(self, program: ExportedProgram, wants_gradient: Mapping[str, bool], examples: Sequence[Any]) -> None:
        self.program = program
        self.wants_gradient = wants_gradient
        self.examples = examples
        self.weights: dict[str, torch.Tensor] = {}
        self._inputs: list[Input] = []
        self._entries: dict[str, Weight] = {}
        self._nodes: dict[str, Node] = {}
        self._taken: set[str] = set()
        self._values: dict[torch.fx.Node, Argument] = {}
        self._name_at: dict[tuple[object, ...], str] = {}
        self._name_of_target: dict[str, str] = {}
        self._written = {
            spec.target
            for spec in program.graph_signature.output_specs
            if spec.kind is ExportedOutputKind.BUFFER_MUTATION
        }

    def graph(self) -> Graph:
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "get_attr":
                self._attribute(node)
            elif node.op != "output":
                self._call(node)
        return Graph(tuple(self._inputs), self._entries, self._nodes, tuple(self._outputs()))

    def _placeholder(self, node: torch.fx.Node) -> None:
        spec = next(item for item in self.program.graph_signature.input_specs if item.arg.name == node.name)
        if spec.kind is InputKind.USER_INPUT:
            self._user_input(node, spec.arg)
        elif spec.kind in _WEIGHT_KINDS and spec.target is not None:
            if node.users or spec.target in self._written:
                self._weight(node, _WEIGHT_KINDS[spec.kind], spec.target, self._tensor_called(spec.target))
        else:
            raise IllegalGraph(f"input {node.name} is a {spec.kind.name.lower()}", limit="tensors and Python scalars")

    def _user_input(self, node: torch.fx.Node, argument: object) -> None:
        name = self._fresh(node.name)
        if isinstance(argument, ConstantArgument):
            self._inputs.append(Input(name, None, argument.value))
            self._values[node] = argument.value
        elif isinstance(argument, TensorArgument):
            example = self.examples[len(self._inputs)]
            self._inputs.append(Input(name, _spec(node, node.meta["val"]), None, bool(example.requires_grad)))
            self._values[node] = Ref(name)
        else:
            raise IllegalGraph(f"input {node.name} is a {type(argument).__name__}", limit="tensors and Python scalars")

    def _tensor_called(self, target: str) -> torch.Tensor:
        found = self.program.state_dict.get(target, self.program.constants.get(target))
        if not isinstance(found, torch.Tensor):
            raise IllegalGraph(f"weight {target} is a {type(found).__name__}", limit="tensors")
        return found

    def _weight(self, node: torch.fx.Node, kind: WeightKind, target: str, tensor: torch.Tensor) -> None:
        """Tied weights, the same view of the same memory, become one value under the name met first."""
        place = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
        name = self._name_at.get(place) if tensor.numel() else None
        if name is None:
            name = self._fresh(node.name)
            dense = tensor.detach().cpu().clone(memory_format=torch.preserve_format)
            trained = kind is WeightKind.PARAMETER and self.wants_gradient.get(target, False)
            self.weights[name] = dense
            self._entries[name] = Weight(name, kind, target, TensorSpec.of(dense), tensor_sha256(dense), trained)
            self._name_at[place] = name
        self._name_of_target[target] = name
        self._values[node] = Ref(name)

    def _attribute(self, node: torch.fx.Node) -> None:
        """A tensor that the exporter left on the module is a weight; a region's body is refused where it is called."""
        found: Any = operator.attrgetter(str(node.target))(self.program.graph_module)
        if isinstance(found, torch.Tensor):
            self._weight(node, WeightKind.CONSTANT, str(node.target), found)

    def _call(self, node: torch.fx.Node) -> None:
        if isinstance(node.target, HigherOrderOperator):
            raise IllegalGraph(
                f"node {node.name} ({node.target.name()}) at {place_of(node)} is control flow",
                limit="straight-line tensor programs",
                next_step="remove the branch or loop from the captured part",
            )
        op = ops.name_of(node.target)
        if op in ops.ASSERTIONS:
            return
        value: Any = node.meta.get("val")
        many = isinstance(value, (tuple, list))
        results = tuple(None if item is None else _spec(node, item) for item in (value if many else (value,)))
        name = self._fresh(node.name)
        self._nodes[name] = Node(
            name=name,
            op=_SAME_ELEMENTS.get(op, op),
            args=tuple(self._argument(item, node) for item in node.args),
            kwargs=tuple(sorted((key, self._argument(item, node)) for key, item in node.kwargs.items())),
            results=results,
            many=many,
            origins=(name,),
            source=_source_line(node),
        )
        self._values[node] = Ref(name)

    def _argument(self, value: Any, user: torch.fx.Node) -> Argument:
        if isinstance(value, torch.fx.Node):
            return self._values[value]
        if isinstance(value, (tuple, list)):
            return tuple(self._argument(item, user) for item in value)
        if isinstance(value, torch.device):
            return TargetDevice()
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise _symbolic(user)
        return value

    def _outputs(self) -> list[Output]:
        returned = next(node for node in self.program.graph.nodes if node.op == "output")
        made: list[Output] = []
        for value, spec in zip(returned.args[0], self.program.graph_signature.output_specs, strict=True):
            content = self._argument(value, returned)
            if spec.kind is ExportedOutputKind.USER_OUTPUT:
                made.append(Output(OutputKind.USER, content))
            elif spec.kind is ExportedOutputKind.BUFFER_MUTATION:
                # The buffer may be tied to one that was met first: that one's entry is the one there is.
                buffer = self._entries[self._name_of_target[str(spec.target)]]
                made.append(Output(OutputKind.MUTATES_BUFFER, content, buffer.target))
            elif spec.kind is ExportedOutputKind.USER_INPUT_MUTATION:
                made.append(Output(OutputKind.MUTATES_INPUT, content, str(spec.target)))
            else:
                raise IllegalGraph(f"output {spec.target} is a {spec.kind.name.lower()}", limit="values and mutations")
        return made

    def _fresh(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self._taken:
            name, count = f"{wanted}_{count}", count + 1
        self._taken.add(name)
        return name


def _spec(node: torch.fx.Node, value: object) -> TensorSpec:
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise _symbolic(node)
    if not isinstance(value, torch.Tensor):
        raise IllegalGraph(
            f"node {node.name} at {place_of(node)} gives a {type(value).__name__}", limit="tensors of static shape"
        )
    sizes: tuple[object, ...] = (*value.shape, *value.stride())
    if any(isinstance(size, torch.SymInt) for size in sizes):
        raise _symbolic(node)
    return TensorSpec.of(value)


def _symbolic(node: torch.fx.Node) -> IllegalGraph:
    return IllegalGraph(
        f"node {node.name} at {place_of(node)} has a symbolic size",
        limit="static shapes",
        next_step="export it without dynamic_shapes",
    )


def place_of(node: torch.fx.Node) -> str:
    """The user's line that made ``node``, for a message."""
    return _source_line(node) or "unknown line"


def _source_line(node: torch.fx.Node) -> str:
    """``file.py:12 in forward`` of the user's innermost frame; the file's folder is left out."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    # Code that tracing generated has a name in angle brackets; torch's own modules are not where the user would look.
    written = [frame for frame in frames if not frame[0].startswith("<")]
    own = [frame for frame in written if not Path(frame[0]).is_relative_to(_TORCH)]
    if not written:
        return ""
    file, line, function = (own or written)[-1]
    return f"{Path(file).name}:{line} in {function}"
