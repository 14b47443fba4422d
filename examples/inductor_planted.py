"""A deliberately wrong post-grad pass for Inductor: ``inductor{post_grad=inductor_planted.subtract_instead}``.

A post-grad pass is called with the ``torch.fx.Graph`` of the forward and with that of the backward.
"""

import torch


def subtract_instead(graph: torch.fx.Graph) -> None:
    """The last sum of two computed values in the forward graph (a residual, say) becomes a difference."""
    names = [node.name for node in graph.find_nodes(op="placeholder")]
    if any(name.startswith("tangents") for name in names):
        return
    additions = graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
    computed = [node for node in additions if [item.op for item in node.all_input_nodes] == ["call_function"] * 2]
    if computed:
        computed[-1].target = torch.ops.aten.sub.Tensor
