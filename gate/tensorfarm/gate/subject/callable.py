"""Runner of any Python callable: a function, a module, or what a factory makes. Nothing is done to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from tensorfarm.contract.exchange import SubjectRequest
from tensorfarm.gate.subject import source
from tensorfarm.gate.subject.load import NO_TENSORS, Loaded, Prepare, by_leaves, tensors_of_module
from tensorfarm.gate.subject.state import seed, set_state


def load(subject: Mapping[str, Any], request: SubjectRequest, device: str, prepare: Prepare | None = None) -> Loaded:
    """``subject``: ``source``, ``python_path``, ``factory`` (calling the name gives the callable), ``state``."""
    target = _target(subject)
    module = target if isinstance(target, torch.nn.Module) else None
    if module is not None:
        module = set_state(module, subject, device)
        target = module = prepare(module) if prepare else module
    return Loaded(
        run=by_leaves(target, request.in_spec),
        evidence=lambda: {"runtime": "python"},
        fresh=lambda: load(subject, request, device, prepare),
        tensors=lambda: NO_TENSORS if module is None else tensors_of_module(module),
        module=module,
    )


def _target(subject: Mapping[str, Any]) -> Callable[..., Any]:
    folders = subject.get("python_path", ())
    if not subject.get("factory"):
        return source.named(subject["source"], folders)
    seed(subject)
    return source.target_of(subject["source"], folders)
