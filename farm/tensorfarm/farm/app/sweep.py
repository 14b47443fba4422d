"""Run a sweep, or go on with one that was stopped: joins sweep file, store, engine and driver."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tensorfarm.compiler.pipeline import known_backend, parse, resolved
from tensorfarm.contract import events as e
from tensorfarm.contract.approve import Approvals
from tensorfarm.contract.digest import sha256_text
from tensorfarm.contract.numerics import parse_contract
from tensorfarm.contract.outcome import INTERRUPTED_EXIT_CODE, sweep_exit_code
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.app.admission import ArtifactCache
from tensorfarm.farm.app.desk import SweepDesk
from tensorfarm.farm.app.driver import Driver
from tensorfarm.farm.app.interruption import Interruption
from tensorfarm.farm.app.jobs import JobBook
from tensorfarm.farm.app.pools import engine_config
from tensorfarm.farm.app.sweep_file import SweepConfig, read_sweep_file
from tensorfarm.farm.engine.pool import Engine
from tensorfarm.farm.engine.toolchain import Toolchain, this_toolchain
from tensorfarm.farm.pipeline.state import SweepState
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader
from tensorfarm.farm.store.sealer import seal
from tensorfarm.gate.judge import gate_version


@dataclass(frozen=True)
class SweepRequest:
    """What the command line asked for. A resume needs neither ``config`` nor ``sweep_id``: the newest one is meant.

    ``lock`` takes the place of the lock file that the sweep file names.
    """

    store: Path
    config: Path | None = None
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
    config = read_sweep_file(request.config, request.lock) if request.config else None
    if config is not None:
        _refuse_unknown_names(config)
    layout = StoreLayout(request.store)
    layout.create()
    with closing(Journal(layout, claim_writer(layout))) as journal, Interruption() as interruption:
        toolchain = this_toolchain()
        opened = _resumed(request, config, layout, toolchain) if request.resume else _new(config)
        _refuse_unknown_names(opened.config)
        state = SweepState(opened.config.plan, opened.sweep_id)
        for record in opened.history:
            state.apply(e.decoded(record))
        with Engine.start(engine_config(request.address)) as engine:
            interruption.insist()
            desk = _desk(layout, toolchain, opened)
            driver = Driver(state, engine, journal, desk, stopped=interruption.requested, watch=watch.saw)
            if not opened.history:
                driver.record([_started(opened, toolchain)])
            watch.began(state)
            try:
                complete = driver.run()
            except Refusal as refusal:
                driver.record([e.SweepInterrupted(state.sweep_id, state.sweep_id, str(refusal))])
                raise
            if not complete:
                driver.record([e.SweepInterrupted(state.sweep_id, state.sweep_id, interruption.reason)])
                return SweepResult(state.sweep_id, INTERRUPTED_EXIT_CODE, False)
            exit_code = sweep_exit_code(state.ended.values())
            seconds = time.monotonic() - started
            driver.record([e.SweepFinished(state.sweep_id, state.sweep_id, exit_code, seconds)])
        seal(layout)
        return SweepResult(state.sweep_id, exit_code, True)


@dataclass(frozen=True)
class _Opened:
    sweep_id: str
    config: SweepConfig
    history: tuple[e.Recorded, ...] = ()


def _new(config: SweepConfig | None) -> _Opened:
    if config is None:
        raise Refusal("no sweep file was given", next_step='run "farm sweep CONFIG", or "farm sweep --resume"')
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")[:-3]
    return _Opened(f"{config.name}-{stamp}", config)


def _resumed(request: SweepRequest, config: SweepConfig | None, layout: StoreLayout, toolchain: Toolchain) -> _Opened:
    with Reader(layout) as reader:
        unfinished = [row for row in reader.named("sweeps").to_pylist() if row["exit_code"] is None]
        wanted = [
            row
            for row in unfinished
            if (not request.sweep_id or row["sweep_id"] == request.sweep_id)
            and (config is None or row["config_sha256"] == sha256_text(config.to_json()))
        ]
        if not wanted:
            known = ", ".join(row["sweep_id"] for row in unfinished) or "none"
            raise Refusal(
                "there is no unfinished sweep to resume",
                limit=f"unfinished here: {known}",
                next_step="run farm sweep without --resume to start one",
            )
        sweep_id = wanted[0]["sweep_id"]
        history = tuple(reader.events(sweep_id))
    first = e.decoded(history[0])
    if not isinstance(first, e.SweepStarted):
        raise Refusal(f"sweep {sweep_id} does not begin with its start", next_step='run "farm store fsck"')
    if first.toolchain_id != toolchain.id:
        raise Refusal(
            f"sweep {sweep_id} was started with toolchain {first.toolchain_id[:12]}, this one is {toolchain.id[:12]}",
            next_step="start a new sweep: results of two toolchains are not one sweep",
        )
    return _Opened(sweep_id, SweepConfig.from_json(first.config), history)


def _refuse_unknown_names(config: SweepConfig) -> None:
    """Find a misspelt backend or pass now rather than after the captures."""
    sys.path[:0] = [folder for folder in config.python_path if folder not in sys.path]
    for text in dict.fromkeys(pipeline for program in config.programs for pipeline in program.pipelines):
        pipeline = parse(text)
        known_backend(pipeline)
        resolved(pipeline)


def _started(opened: _Opened, toolchain: Toolchain) -> e.SweepStarted:
    text = opened.config.to_json()
    facts = ", ".join(f"{name} {value}" for name, value in toolchain.facts.items())
    return e.SweepStarted(
        opened.sweep_id,
        opened.sweep_id,
        opened.config.name,
        text,
        sha256_text(text),
        toolchain.target,
        toolchain.id,
        facts,
    )


def _desk(layout: StoreLayout, toolchain: Toolchain, opened: _Opened) -> SweepDesk:
    return SweepDesk(
        opened.sweep_id,
        JobBook(opened.config, layout, toolchain),
        parse_contract(opened.config.contract),
        ArtifactCache(layout, gate_version()),
        Approvals(Path(opened.config.lock)) if opened.config.lock else None,
    )
