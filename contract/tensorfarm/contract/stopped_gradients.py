"""Regions under ``no_grad``, rewritten as detached values before a program is made functional.

``run_decompositions`` inlines such a region and forgets that gradients stopped there (seen in torch 2.13), so that a
trained weight used inside would get another gradient. Invariant: values and mutations stay what they were.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.export import ExportedProgram

from tensorfarm.contract import ops

_SET_GRAD_ENABLED = "wrap_with_set_grad_enabled"


def with_stopped_gradients(program: ExportedProgram) -> ExportedProgram:
    """The same program with ``aten.detach`` after each floating value of a ``no_grad`` region; the original is kept."""
    if not any(_region_called(node) == _SET_GRAD_ENABLED for node in program.graph.nodes):
        return program
    module = copy.deepcopy(program.graph_module)
    # Copying renames what is called like a Python builtin (``input``); the signature knows values by their names.
    for original, copied in zip(program.graph.nodes, module.graph.nodes, strict=True):
        copied.name = original.name
    _stop_in(module, stopped=False)
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=program.graph_signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants,
        verifiers=program.verifiers,
    )


def _stop_in(module: torch.fx.GraphModule, *, stopped: bool) -> None:
    for node in list(module.graph.nodes):
        region = _region_called(node)
        for body in _bodies(module, node):
            _stop_in(body, stopped=not node.args[0] if region == _SET_GRAD_ENABLED else stopped)
        if stopped and _may_carry_gradient(node):
            with module.graph.inserting_after(node):
                detached = module.graph.call_function(torch.ops.aten.detach.default, (node,))
            detached.meta = copy.copy(node.meta)
            node.replace_all_uses_with(detached, delete_user_cb=lambda user, detached=detached: user is not detached)
    module.recompile()


def _region_called(node: torch.fx.Node) -> str:
    return node.target.name() if isinstance(node.target, HigherOrderOperator) else ""


def _bodies(module: torch.fx.GraphModule, node: torch.fx.Node) -> list[torch.fx.GraphModule]:
    if not _region_called(node):
        return []
    found = [getattr(module, str(item.target)) for item in node.all_input_nodes if item.op == "get_attr"]
    return [item for item in found if isinstance(item, torch.fx.GraphModule)]


def _may_carry_gradient(node: torch.fx.Node) -> bool:
    """A floating tensor made here: not what a writing operator or an inner region, settled on its own, gives back."""
    value: Any = node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, torch.Tensor) or _region_called(node):
        return False
    if any(_region_called(owner) for owner in node.all_input_nodes):
        return False
    schema = ops.schema_of(ops.name_of(node.target))
    return (value.dtype.is_floating_point or value.dtype.is_complex) and not (schema and schema.is_mutable)
