"""Runner of ``torch.compile`` of a module or a function: guards, recompilations and graph breaks are part of it.

This process compiles, which is what is judged here, with the caches of whole graphs that a user's process has: a key
that leaves something out answers one call with another's code. Invariant: the folder of caches is the session's own
unless one is given, so that no earlier session's compilation answers for this one.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tensorfarm.contract.exchange import SubjectRequest
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.subject import dynamo, source
from tensorfarm.gate.subject.load import NO_TENSORS, Loaded, Prepare, by_leaves, tensors_of_module
from tensorfarm.gate.subject.scratch import new_folder
from tensorfarm.gate.subject.state import seed, set_state

_CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
_CONFIGURATIONS = {
    "dynamo": "torch._dynamo.config",
    "functorch": "torch._functorch.config",
    "inductor": "torch._inductor.config",
}
_REMOTE_CACHES = (("inductor", "fx_graph_remote_cache"), ("functorch", "enable_remote_autograd_cache"))


def load(subject: Mapping[str, Any], request: SubjectRequest, device: str, prepare: Prepare | None = None) -> Loaded:
    """``subject``: ``source`` of a factory, ``python_path``, ``state``; ``backend`` (a name, or ``module:function``),
    ``options``, ``mode``, ``dynamic`` and ``fullgraph`` of ``torch.compile``; ``settings`` by configuration
    (``inductor``, ``functorch``, ``dynamo``); ``cache_dir``. Refuses a setting that is not known.
    """
    if not subject.get("cache_dir"):
        subject = {**subject, "cache_dir": str(new_folder("compiled"))}
    _configure(subject)
    dynamo.forget()
    seed(subject)
    target = source.target_of(subject["source"], subject.get("python_path", ()))
    module = target if isinstance(target, torch.nn.Module) else None
    if module is not None:
        module = set_state(module, subject, device)
        target = module = prepare(module) if prepare else module
    return Loaded(
        run=by_leaves(_compiled(target, subject), request.in_spec),
        evidence=lambda: {"runtime": "torch.compile", "backend": _backend_name(subject), **dynamo.evidence()},
        fresh=lambda: load(subject, request, device, prepare),
        tensors=lambda: NO_TENSORS if module is None else tensors_of_module(module),
        module=module,
    )


def _compiled(target: Callable[..., Any], subject: Mapping[str, Any]) -> Callable[..., Any]:
    name = _backend_name(subject)
    return torch.compile(
        target,
        backend=source.named(name, subject.get("python_path", ())) if ":" in name else name,
        options=source.options_of(subject, "options") or None,
        mode=subject.get("mode"),
        dynamic=subject.get("dynamic"),
        fullgraph=bool(subject.get("fullgraph", False)),
    )


def _backend_name(subject: Mapping[str, Any]) -> str:
    return str(subject.get("backend") or "inductor")


def _configure(subject: Mapping[str, Any]) -> None:
    """For good: the process is this subject's."""
    if _backend_name(subject) == "inductor":
        # Imported here: dynamo alone does not need Inductor's own modules, which take a second to import.
        from tensorfarm.contract.inductor_runtime import warm_toolchain

        warm_toolchain()
    os.environ[_CACHE_VARIABLE] = str(subject["cache_dir"])
    settings = source.options_of(subject, "settings")
    unknown = settings.keys() - _CONFIGURATIONS.keys()
    if unknown:
        raise Refusal(
            f"there is no configuration {', '.join(sorted(unknown))}",
            limit=", ".join(_CONFIGURATIONS),
            next_step="correct the subject's settings",
        )
    for owner, name in _REMOTE_CACHES:
        _set(owner, name, value=False)
    for owner in settings:
        for name, value in source.options_of(settings, owner).items():
            _set(owner, name, value)


def _set(owner: str, name: str, value: Any) -> None:
    configuration = importlib.import_module(_CONFIGURATIONS[owner])
    try:
        setattr(configuration, name, value)
    except AttributeError:
        raise Refusal(
            f"torch {torch.__version__} has no setting {owner}.{name}", next_step="correct the subject's settings"
        ) from None
