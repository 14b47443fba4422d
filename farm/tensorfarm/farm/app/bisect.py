"""Bisect one candidate by itself: a sweep of one cell that measures nothing and bisects with a width of your choice.

So it is recorded, shown and resumed as any sweep is, and there is one way to run a probe.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tensorfarm.contract.digest import finite
from tensorfarm.contract.numerics import refuse_invalid
from tensorfarm.contract.outcome import Outcome
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.app.named_candidate import candidate_named
from tensorfarm.farm.app.sweep import SweepRequest, SweepResult, Watch, run_sweep
from tensorfarm.farm.app.sweep_file import Budget, SweepConfig, config_of, schema
from tensorfarm.farm.pipeline.plan import BisectPlan
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader


@dataclass(frozen=True)
class BisectRequest:
    """``what`` is a candidate id of the store, or the first characters of one; or a module, with the fields that a
    sweep file would give it.
    """

    store: Path
    what: str
    width: int
    pipeline: str = ""
    contract: Path | None = None
    ir_contract: Path | None = None
    mode: str = "inference"
    python_path: Sequence[Path] = ()
    address: str | None = None


@dataclass(frozen=True)
class BisectReport:
    """``finished`` are the fields of ``BisectionFinished``; ``steps`` the probes in order. Empty where interrupted.

    ``note`` says where the candidate that was bisected is not the one that was named.
    """

    sweep_id: str
    note: str
    finished: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]]

    def as_json(self) -> dict[str, Any]:
        return finite(asdict(self))


def run_bisect(request: BisectRequest, watch: Watch) -> tuple[SweepResult, BisectReport]:
    """Compile, judge and bisect. Raises Refusal for a candidate that passes, or whose failure no site can explain."""
    named, config = ("", _of_module(request)) if _is_module(request.what) else _of_candidate(request)
    config = replace(
        config,
        name=f"bisect-{config.programs[0].name}",
        pairs=0,
        fresh_hours=None,
        bisect=BisectPlan(request.width, 1),
        budget=Budget(),
    )
    result = run_sweep(SweepRequest(request.store, config, address=request.address), watch)
    with Reader(StoreLayout(request.store)) as reader:
        row = reader.named("bisection_end", sweep_id=result.sweep_id).to_pylist()[0]
        steps = reader.named("bisection_steps", sweep_id=result.sweep_id).to_pylist()
    finished = json.loads(row["finished"]) if row["finished"] else {}
    if result.finished and not finished:
        raise _nothing_to_bisect(json.loads(row["ended"]), json.loads(row["compiled"] or "{}"))
    return result, BisectReport(result.sweep_id, _note(named, finished), finished, steps)


def _is_module(what: str) -> bool:
    return ":" in what or what.endswith(".pt2")


def _of_module(request: BisectRequest) -> SweepConfig:
    if not request.pipeline or request.contract is None:
        missing = " and ".join(
            name for name, there in (("--pipeline", request.pipeline), ("--contract", request.contract)) if not there
        )
        raise Refusal(
            f"module {request.what} is to be compiled and judged without {missing}",
            limit="a module needs a pipeline and a contract; a candidate of the store has both",
            next_step="give them, for instance --pipeline fx:dce --contract configs/contracts/float32.yaml",
        )
    value: dict[str, Any] = {
        "sweep": "bisect",
        "contract": str(request.contract.absolute()),
        "python_path": [str(folder.absolute()) for folder in request.python_path],
        "mode": request.mode,
        "pipelines": [request.pipeline],
        "programs": [{"module": request.what}],
    }
    if request.ir_contract is not None:
        value["ir_contract"] = str(request.ir_contract.absolute())
    refuse_invalid(value, schema(), "farm bisect")
    return config_of(value, Path.cwd())


def _of_candidate(request: BisectRequest) -> tuple[str, SweepConfig]:
    """The candidate's id, and the one cell of the sweep that it is from."""
    with Reader(StoreLayout(request.store)) as reader:
        candidate = candidate_named(reader, request.what)
        text = reader.named("sweep_config", sweep_id=candidate.sweep_id).to_pylist()[0]["config"]
    config = SweepConfig.from_json(text)
    for program in config.programs:
        for pipeline in program.pipelines:
            if f"{program.name}/{pipeline}" == candidate.subject:
                return candidate.candidate_id, replace(config, programs=(replace(program, pipelines=(pipeline,)),))
    raise Refusal(f"cell {candidate.subject} is not in its own sweep file", next_step='run "farm store fsck"')


def _note(named: str, finished: Mapping[str, Any]) -> str:
    """A candidate is rebuilt from today's sources: where those changed, another one is bisected."""
    bisected = finished.get("candidate_id", named)
    if not named or bisected == named:
        return ""
    return (
        f"candidate {named[:12]} cannot be built any more, since its program, a pass or the toolchain changed:"
        f" what was bisected is {bisected[:12]}"
    )


def _nothing_to_bisect(ended: Mapping[str, Any], compiled: Mapping[str, Any]) -> Refusal:
    cell = f"{ended['program']}/{ended['pipeline']}"
    if ended["outcome"] == Outcome.ADMITTED:
        return Refusal(
            f"{cell} passes the gate",
            limit="only a candidate that the gate refuses can be bisected",
            next_step='see "farm report sweep"',
        )
    sites = f"; {compiled['n_sites']} sites can be switched" if compiled else ""
    return Refusal(
        f"{cell} ends as {ended['outcome']}{sites}: {ended['message']}",
        limit="a bisection needs a verdict of the gate and at least one site",
        next_step="mend that first",
    )
