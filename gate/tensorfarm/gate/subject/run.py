"""One run of an artifact for the judge: inputs from a file, everything that came out into files.

The inputs are passed as they are, not as copies, so that a write to them shows. Nothing here judges.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract.exchange import (
    INPUTS,
    OUTPUTS,
    REQUEST,
    SubjectReport,
    SubjectRequest,
    read_request,
    write_report,
)
from tensorfarm.contract.refusal import one_line
from tensorfarm.contract.tensors import read_tensors, write_tensors
from tensorfarm.gate.seal import COMPILERS, install
from tensorfarm.gate.subject.load import Loaded, load_artifact


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Step of the farm. ``request``: ``folder`` (holds the judge's request and inputs), ``threads``.

    Runs nothing where the judge has already found that the artifact is another program.
    """
    folder = Path(request["folder"])
    torch.set_num_threads(int(request.get("threads", 1)))
    seal = install(COMPILERS)
    if not (folder / REQUEST).is_file():
        return {"skipped": "the judge asked for nothing: the artifact is not the program"}
    asked = read_request(folder)
    report = SubjectReport(artifact_sha256=asked.artifact_sha256)
    started = time.perf_counter()
    try:
        loaded = load_artifact(Path(asked.artifact), asked.artifact_sha256, asked.candidate_id)
        report = _called(folder, asked, loaded, report)
    except Exception as error:
        report = replace(report, error=one_line(error), evidence={"error_kind": "error"})
    except BaseException as error:
        # The cache code of Inductor swallows exceptions, so a blocked compilation is no Exception.
        if type(error).__name__ != "RecompileBlocked":
            raise
        report = replace(report, error=one_line(error), evidence={"error_kind": "recompile"})
    write_report(folder, replace(report, seconds=time.perf_counter() - started))
    return {"error": report.error, "attempts": seal.attempts}


def _called(folder: Path, asked: SubjectRequest, loaded: Loaded, report: SubjectReport) -> SubjectReport:
    stored = read_tensors(folder / INPUTS)
    inputs = {
        item.name: stored[f"input:{item.name}"].requires_grad_(item.requires_grad)
        for item in loaded.artifact.graph.inputs
        if item.spec is not None
    }
    training = asked.mode == "training"
    with torch.set_grad_enabled(training):
        outputs = tuple(loaded.call(*inputs.values()))
    tensors = {position: value for position, value in enumerate(outputs) if isinstance(value, torch.Tensor)}
    written = {f"output:{position}": value for position, value in tensors.items()}
    requires_grad = {str(position): value.requires_grad for position, value in tensors.items()}
    if training:
        cotangents = {
            int(key.removeprefix("cotangent:")): value for key, value in stored.items() if key.startswith("cotangent:")
        }
        written |= _gradients(loaded, inputs, tensors, cotangents)
    written |= {f"input:{name}": value for name, value in inputs.items()}
    written |= {f"buffer:{name}": value for name, value in loaded.buffers.items()}
    write_tensors(folder / OUTPUTS, {key: value.detach() for key, value in written.items()})
    return replace(
        report,
        requires_grad=requires_grad,
        literals={str(position): value for position, value in enumerate(outputs) if position not in tensors},
        evidence=loaded.evidence(),
    )


def _gradients(
    loaded: Loaded,
    inputs: Mapping[str, torch.Tensor],
    outputs: Mapping[int, torch.Tensor],
    cotangents: Mapping[int, torch.Tensor],
) -> dict[str, torch.Tensor]:
    """Gradients that exist, by ``gradient:NAME``. An output that has no graph is left out: its flag says so."""
    wanted = {name: value for name, value in (*loaded.parameters.items(), *inputs.items()) if value.requires_grad}
    roots = [position for position in cotangents if position in outputs and outputs[position].requires_grad]
    if not wanted or not roots:
        return {}
    seen = torch.autograd.grad(
        [outputs[position] for position in roots],
        list(wanted.values()),
        [cotangents[position] for position in roots],
        allow_unused=True,
    )
    found: dict[str, torch.Tensor | None] = dict(zip(wanted, seen, strict=True))
    return {f"gradient:{name}": value for name, value in found.items() if value is not None}
