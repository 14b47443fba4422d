"""Runner of a file that ``torch.export.save`` wrote: its program as a module, run by plain eager torch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch

from tensorfarm.contract.exchange import SubjectRequest
from tensorfarm.contract.refusal import Refusal, one_line
from tensorfarm.gate.subject.load import Loaded, by_leaves, tensors_of_module
from tensorfarm.gate.subject.state import set_state


def load(subject: Mapping[str, Any], request: SubjectRequest, device: str) -> Loaded:
    """``subject``: ``path`` and, where its weights are to be the original's, ``state``. Refuses an unreadable file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of a class of torch's own, of no use to anybody
            program = torch.export.load(subject["path"])
            module = set_state(program.module(), subject, device)
    except Refusal:
        raise
    except Exception as error:
        # The loader lets zip, JSON, pickle and schema errors of many types through.
        raise Refusal(
            f"{subject['path']} is not readable as an exported program: {one_line(error)}",
            limit="a file written by torch.export.save",
            next_step="export it again with this torch",
        ) from None
    return Loaded(
        run=by_leaves(module, request.in_spec),
        evidence=lambda: {"runtime": "exported", "nodes": len(program.graph.nodes)},
        fresh=lambda: load(subject, request, device),
        tensors=lambda: tensors_of_module(module),
        module=module,
    )
