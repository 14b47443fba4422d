"""Run a sweep, or go on with one that was stopped: joins sweep file, store, engine and driver."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tensorfarm.compiler.pipeline import known_backend, parse, resolved
from tensorfarm.contract import events as e
from tensorfarm.contract.approve import Approvals
from tensorfarm.contract.digest import sha256_text
from tensorfarm.contract.numerics import parse_contract
from tensorfarm.contract.outcome import INTERRUPTED_EXIT_CODE, sweep_exit_code
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.app.admission import ArtifactCache
from tensorfarm.farm.app.bisection import BisectionDesk
from tensorfarm.farm.app.costing import CostDesk
from tensorfarm.farm.app.desk import SweepDesk
from tensorfarm.farm.app.driver import Driver
from tensorfarm.farm.app.interruption import Interruption
from tensorfarm.farm.app.jobs import JobBook
from tensorfarm.farm.app.pools import engine_config
from tensorfarm.farm.app.regression import RegressionDesk
from tensorfarm.farm.app.run_id import new_run_id
from tensorfarm.farm.app.sweep_file import SweepConfig, read_sweep_file
from tensorfarm.farm.engine.pool import Engine
from tensorfarm.farm.engine.toolchain import Toolchain, this_toolchain
from tensorfarm.farm.measure.baseline import METRIC
from tensorfarm.farm.pipeline.state import SweepState
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.leases import claimed_sweep
from tensorfarm.farm.store.reader import Reader
from tensorfarm.farm.store.sealer import seal
from tensorfarm.gate.attestation import gate_version

_HOUR_SECONDS = 3600


@dataclass(frozen=True)
class SweepRequest:
    """What the command line asked for. A resume needs neither ``config`` nor ``sweep_id``: the newest one is meant.

    ``config`` is a sweep file, or what one would say; ``lock`` takes the place of the lock file that the file names.
    """

    store: Path
    config: Path | SweepConfig | None = None
    lock: Path | None = None
    resume: bool = False
    sweep_id: str = ""
    address: str | None = None


@dataclass(frozen=True)
class SweepResult:
    sweep_id: str
    exit_code: int
    finished: bool


@dataclass
class Watch:
    """Callbacks of whoever looks on: ``began`` once the sweep has an id and a size, ``saw`` every recorded event."""

    began: Callable[[SweepState], None] = lambda state: None
    saw: Callable[[e.Event], None] = field(default=lambda event: None)


def run_sweep(request: SweepRequest, watch: Watch) -> SweepResult:
    """Start or resume a sweep and drive it to its end, or until it is interrupted.

    Raises Refusal for bad input before anything is written, and for what stops a sweep on the way after it was marked
    as interrupted.
    """
    started = time.monotonic()
    config = read_sweep_file(request.config, request.lock) if isinstance(request.config, Path) else request.config
    if config is not None:
        _refuse_unknown_names(config)
    # Nodes of a cluster work in folders of their own.
    layout = StoreLayout(request.store.absolute())
    layout.create()
    with closing(Journal(layout, claim_writer(layout))) as journal, Interruption() as interruption:
        toolchain = this_toolchain()
        sweep_id = _unfinished(request, config, layout) if request.resume else _new_id(config)
        with claimed_sweep(layout, sweep_id):
            opened = _reopened(layout, sweep_id, toolchain) if config is None or request.resume else _Opened(config)
            driver = _driver(layout, toolchain, sweep_id, opened, journal)
            driver.stopped, driver.watch = interruption.requested, watch.saw
            if not opened.history:
                driver.record([_started(sweep_id, opened.config, toolchain), *budgets(sweep_id, opened.config)])
            watch.began(driver.state)
            try:
                complete = _driven(driver, request.address, interruption)
            finally:
                shutil.rmtree(layout.judging(sweep_id), ignore_errors=True)
            if not complete:
                return SweepResult(sweep_id, INTERRUPTED_EXIT_CODE, False)
            exit_code = sweep_exit_code(driver.state.ended.values())
            driver.record([e.SweepFinished(sweep_id, sweep_id, exit_code, time.monotonic() - started)])
        seal(layout)
        return SweepResult(sweep_id, exit_code, True)


def _driven(driver: Driver, address: str | None, interruption: Interruption) -> bool:
    """Drive over an engine. What stops it on the way is recorded first: closing an engine takes a second."""
    sweep_id = driver.state.sweep_id
    try:
        with Engine.start(engine_config(address)) as engine:
            complete = driver.run(engine)
            if not complete:
                driver.record([e.SweepInterrupted(sweep_id, sweep_id, interruption.reason)])
            return complete
    except Refusal as refusal:
        driver.record([e.SweepInterrupted(sweep_id, sweep_id, str(refusal))])
        raise


@dataclass(frozen=True)
class _Opened:
    config: SweepConfig
    history: tuple[e.Recorded, ...] = ()


def _new_id(config: SweepConfig | None) -> str:
    if config is None:
        raise Refusal("no sweep file was given", next_step='run "farm sweep CONFIG", or "farm sweep --resume"')
    return new_run_id(config.name)


def _unfinished(request: SweepRequest, config: SweepConfig | None, layout: StoreLayout) -> str:
    """The newest sweep that fits the request and has not finished."""
    with Reader(layout) as reader:
        unfinished = [row for row in reader.named("sweeps").to_pylist() if row["exit_code"] is None]
    for row in unfinished:
        wanted = not request.sweep_id or row["sweep_id"] == request.sweep_id
        if wanted and (config is None or row["config_sha256"] == sha256_text(config.to_json())):
            return row["sweep_id"]
    raise Refusal(
        "there is no unfinished sweep to resume",
        limit=f"unfinished here: {', '.join(row['sweep_id'] for row in unfinished) or 'none'}",
        next_step="run farm sweep without --resume to start one",
    )


def _reopened(layout: StoreLayout, sweep_id: str, toolchain: Toolchain) -> _Opened:
    with Reader(layout) as reader:
        history = tuple(reader.events(sweep_id))
    first = e.decoded(history[0])
    if not isinstance(first, e.SweepStarted):
        raise Refusal(f"sweep {sweep_id} does not begin with its start", next_step='run "farm store fsck"')
    if first.toolchain_id != toolchain.id:
        raise Refusal(
            f"sweep {sweep_id} was started with toolchain {first.toolchain_id[:12]}, this one is {toolchain.id[:12]}",
            next_step="start a new sweep: results of two toolchains are not one sweep",
        )
    config = SweepConfig.from_json(first.config)
    _refuse_unknown_names(config)
    return _Opened(config, history)


def _refuse_unknown_names(config: SweepConfig) -> None:
    """Find a misspelt backend or pass now rather than after the captures."""
    sys.path[:0] = [folder for folder in config.python_path if folder not in sys.path]
    for text in dict.fromkeys(pipeline for program in config.programs for pipeline in program.pipelines):
        pipeline = parse(text)
        known_backend(pipeline)
        resolved(pipeline)


def _started(sweep_id: str, config: SweepConfig, toolchain: Toolchain) -> e.SweepStarted:
    text = config.to_json()
    return e.SweepStarted(
        sweep_id,
        sweep_id,
        name=config.name,
        config=text,
        config_sha256=sha256_text(text),
        target=toolchain.target,
        toolchain_id=toolchain.id,
        toolchain=", ".join(f"{name} {value}" for name, value in toolchain.facts.items()),
    )


def budgets(sweep_id: str, config: SweepConfig) -> list[e.BudgetDeclared]:
    """What a cell of this sweep may cost, and how long its measurement is fresh, whatever that says."""
    limits = {"compile_seconds": config.budget.compile_seconds, "calls": config.budget.calls}
    declared = [
        e.BudgetDeclared(sweep_id, sweep_id, scope=sweep_id, metric=metric, limit_value=limit)
        for metric, limit in limits.items()
        if limit is not None
    ]
    if config.fresh_hours is None:
        return declared
    fresh = math.ceil(config.fresh_hours * _HOUR_SECONDS)
    return [*declared, e.BudgetDeclared(sweep_id, sweep_id, sweep_id, METRIC, math.inf, fresh_for_seconds=fresh)]


def _driver(layout: StoreLayout, toolchain: Toolchain, sweep_id: str, opened: _Opened, journal: Journal) -> Driver:
    """A driver that stands where the history ends."""
    state = SweepState(opened.config.plan, sweep_id)
    for record in opened.history:
        state.apply(e.decoded(record))
    config = opened.config
    regressions = RegressionDesk(layout, sweep_id, config.threshold)
    desk = SweepDesk(
        sweep_id,
        JobBook(config, layout, toolchain, BisectionDesk(sweep_id, layout), regressions),
        parse_contract(config.contract),
        ArtifactCache(layout, gate_version()),
        Approvals(Path(config.lock)) if config.lock else None,
        CostDesk.open(sweep_id, layout, toolchain.target, config.budget.calls),
    )
    return Driver(state, journal, desk)
