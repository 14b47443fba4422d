"""What a subject is, by its kind: what may be asked of it, and what it may refuse.

Invariant: a fact is known before anything of the subject is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tensorfarm.contract.bundle import Bundle
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.setting import Facts

# What was built for one graph: other shapes and strides are refused by it.
_BUILT = Facts("", fixed_shapes=True, fixed_layouts=True)
_FORWARD_ONLY = replace(_BUILT, trainable=False)

_BY_RUNTIME: Mapping[str, Facts] = {
    "aoti": _FORWARD_ONLY,
    "graph": _BUILT,
    "inductor": _BUILT,
    "onnxruntime": _FORWARD_ONLY,
    "triton": _FORWARD_ONLY,
}
_BY_KIND: Mapping[str, Facts] = {
    "aoti": replace(_FORWARD_ONLY, secretive=True),
    "callable": Facts("", guarded=True),
    "captured": _BUILT,
    "compiled": Facts("", module=True, guarded=True, dynamo=True),
    "exported": replace(_BUILT, module=True),
    "mutant": _BUILT,
    "onnx": _FORWARD_ONLY,
    "triton": _FORWARD_ONLY,
}


def facts_of(subject: Mapping[str, Any], isolated: bool = True) -> Facts:
    """Facts of a subject; an artifact's hang on its runtime, which is read from the file where it is not told.

    A callable that a factory makes counts as a module; a mutant that is live is one, and looks at its inputs anew.
    Refuses an unknown kind or runtime.
    """
    kind = str(subject.get("kind"))
    if kind == "mutant" and subject.get("live"):
        return Facts(kind, isolated=isolated, module=True, guarded=True)
    known = _BY_RUNTIME if kind == "artifact" else _BY_KIND
    name = _runtime(subject) if kind == "artifact" else kind
    if name not in known:
        what = "runtime" if kind == "artifact" else "kind"
        raise Refusal(
            f"the {what} {name!r} of a subject is unknown", limit=", ".join(known), next_step=f"choose one as {what}"
        )
    module = known[name].module or (kind == "callable" and bool(subject.get("factory")))
    return replace(known[name], kind=kind, isolated=isolated, module=module)


def _runtime(subject: Mapping[str, Any]) -> str:
    if "runtime" in subject:
        return str(subject["runtime"])
    bundle = Bundle(Path(subject["path"]), subject.get("sha256"))
    return str(json.loads(bundle.read("artifact.json"))["runtime"])
