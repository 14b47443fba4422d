"""One session of a subject for the judge: trials from a file, everything that came out into files.

Each trial has a fresh subject and each call inputs of its own, that share storages with one another as the judge's do.
What is looked at after a call is what it was given, so that a write to it shows. The last call of the second trial
finds new memory filled, so that an answer which was never written shows. Nothing here judges.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract.exchange import (
    BEGUN,
    INPUTS,
    OUTPUTS,
    REQUEST,
    CallReport,
    CallRequest,
    SubjectReport,
    SubjectRequest,
    TrialRequest,
    read_request,
    tensor_key,
    write_report,
)
from tensorfarm.contract.refusal import one_line
from tensorfarm.contract.tensors import read_tensors, write_tensors
from tensorfarm.gate import between, devices, heap
from tensorfarm.gate.calling import RECOMPILE_BLOCKED, observed
from tensorfarm.gate.copies import as_one, on_device, snapshot
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.reused import with_overwritten
from tensorfarm.gate.seal import COMPILERS, install
from tensorfarm.gate.subject.load import Loaded, load
from tensorfarm.gate.subject.scratch import scratch_in
from tensorfarm.gate.trial import MAIN, Derivative
from tensorfarm.gate.variant import varied


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Step of the farm. ``request``: ``folder`` (holds the judge's request and inputs), ``session``, ``threads``.

    Runs nothing where the judge has already found that the artifact is another program.
    """
    folder, session = Path(request["folder"]), str(request.get("session") or MAIN.name)
    heap.prepared()
    seal = install(COMPILERS)
    if not (folder / REQUEST).is_file():
        return {"skipped": "the judge asked for nothing: the artifact is not the program"}
    asked = read_request(folder)
    out = folder / session
    out.mkdir(exist_ok=True)
    device = str(asked.sessions[session]["device"])
    why = devices.present(device)
    if why:
        write_report(out, SubjectReport(error=f"{device}: {why}", evidence={"error_kind": "absent"}))
        return {"error": why, "attempts": seal.attempts}
    devices.enter(device)
    torch.set_num_threads(int(asked.sessions[session]["threads"]))
    started = time.perf_counter()
    stored = on_device(read_tensors(folder / INPUTS), device)
    with scratch_in(out):
        report = _report(asked, session, device, stored, out)
    write_report(out, replace(report, seconds=time.perf_counter() - started))
    return {"error": report.error, "attempts": seal.attempts}


def _report(
    asked: SubjectRequest, session: str, device: str, stored: Mapping[str, torch.Tensor], out: Path
) -> SubjectReport:
    calls: dict[str, tuple[CallReport, ...]] = {}
    written: dict[str, torch.Tensor] = {}
    report = SubjectReport(artifact_sha256=str(asked.subject.get("sha256", "")))
    plain: Loaded | None = None
    try:
        for trial in asked.trials:
            if session not in trial.sessions:
                continue
            if trial.variant:
                loaded = load(
                    asked.subject, asked, device, lambda module, variant=trial.variant: varied(module, variant)
                )
            else:
                loaded = plain = load(asked.subject, asked, device) if plain is None else plain.fresh()
            # Once is enough: it costs two more passes over all that is taken and freed.
            seen = _called(loaded, asked, trial, stored, out, last_on_filled_memory=len(calls) == 1)
            calls[trial.name] = tuple(one.report for one in seen)
            for number, one in enumerate(seen):
                written |= {tensor_key(trial.name, number, key): value for key, value in one.tensors.items()}
            report = replace(report, calls=calls, evidence={**report.evidence, **loaded.evidence()})
    except Exception as error:
        report = replace(report, calls=calls, error=one_line(error), evidence={"error_kind": "error"})
    except BaseException as error:
        # The cache code of Inductor swallows exceptions, so a blocked compilation is no Exception.
        if type(error).__name__ != RECOMPILE_BLOCKED:
            raise
        report = replace(report, calls=calls, error=one_line(error), evidence={"error_kind": "recompile"})
    write_tensors(out / OUTPUTS, written)
    return report


def _called(
    loaded: Loaded,
    asked: SubjectRequest,
    trial: TrialRequest,
    stored: Mapping[str, torch.Tensor],
    out: Path,
    *,
    last_on_filled_memory: bool,
) -> list[Observation]:
    seen: list[Observation] = []
    for number, call in enumerate(trial.calls):
        # Whoever finds it dead looks here for where it was.
        (out / BEGUN).write_text(f"{trial.name}|{number}")
        if call.between and loaded.module is not None:
            between.apply(loaded.module, call.between, number)
        keys = {leaf["name"]: tensor_key(trial.name, number, f"input:{leaf['name']}") for leaf in asked.leaves}
        leaves = _leaves(asked, call, {name: stored[key] for name, key in keys.items() if key in stored})
        given = {
            position: stored[tensor_key(trial.name, number, f"cotangent:{position}")] for position in call.cotangents
        }

        def vectors(values: Sequence[Any], given: Mapping[int, torch.Tensor] = given) -> Mapping[int, torch.Tensor]:
            return {position: vector for position, vector in given.items() if position < len(values)}

        last = number + 1 == len(trial.calls)
        with heap.filled() if last and last_on_filled_memory else nullcontext():
            seen.append(observed(loaded, leaves, Derivative(call.derivative), vectors, call.seed, copied=not last))
    return with_overwritten(seen)


def _leaves(asked: SubjectRequest, call: CallRequest, tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Every input by name, in order, on storages that no other call has."""
    own = snapshot(tensors)
    leaves: dict[str, Any] = {}
    for leaf in asked.leaves:
        name = leaf["name"]
        if name in own:
            leaves[name] = own[name].requires_grad_(
                bool(leaf["requires_grad"]) and (own[name].is_floating_point() or own[name].is_complex())
            )
        else:
            leaves[name] = call.literals.get(name, leaf["literal"])
    return as_one(leaves)
