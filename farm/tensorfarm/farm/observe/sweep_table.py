"""The table at the end of a sweep: one row a cell, what was wrong with those that failed, and where the time went.

On a narrow screen columns are left out, the least telling first; program, pipeline and outcome always stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tensorfarm.contract.outcome import Outcome
from tensorfarm.farm.observe.bisection_table import print_reproducer
from tensorfarm.farm.observe.rows import fits
from tensorfarm.farm.observe.wall_time import REST
from tensorfarm.farm.pipeline.commands import Stage

Row = Mapping[str, Any]
_LABEL_WIDTH = 32
_SHOWN_FAILURES = 8
_LEFT_OUT_FIRST = ("artifact", "gate", "compile", "eager", "compiled", "gradient", "forward", "speed")


def print_sweep(console: Console, rows: Sequence[Row], shares: Mapping[str, float], store: Path) -> None:
    """Print rows of the ``report_sweep`` query and the seconds of each stage and the rest.

    ``store`` is the path as it was given: what is printed can be copied.
    """
    labels = _labels(rows)
    console.print(_fitting(console, rows, labels))
    for pipeline, label in labels.items():
        if label != pipeline:
            console.print(f"{label} is {pipeline}", markup=False)
    console.print("forward and gradient: worst error as a share of its limit")
    _print_failures(console, rows, labels, store)
    parts = ", ".join(f"{stage} {shares[stage]:.1f} s" for stage in (*Stage, REST) if shares.get(stage))
    console.print(f"wall {sum(shares.values()):.1f} s: {parts}")


def _print_failures(console: Console, rows: Sequence[Row], labels: Mapping[str, str], store: Path) -> None:
    """Why each cell that ended was not admitted, and the script that shows what did it."""
    failed = [row for row in rows if row["outcome"] not in (None, Outcome.ADMITTED)]
    for row in failed[:_SHOWN_FAILURES]:
        cell = f"{row['program']}/{labels[str(row['pipeline'])]}"
        console.print(f"{cell}: {row['message'] or row['outcome']}", markup=False, soft_wrap=True)
        if row["reproducer"]:
            print_reproducer(console, row["reproducer"], store)
    if len(failed) > _SHOWN_FAILURES:
        console.print(f"and {len(failed) - _SHOWN_FAILURES} more that were not admitted")


def _fitting(console: Console, rows: Sequence[Row], labels: Mapping[str, str]) -> Table:
    columns = dict(_COLUMNS)
    for name in _LEFT_OUT_FIRST:
        table = _table(rows, labels, columns)
        if fits(console, table):
            return table
        del columns[name]
    return _table(rows, labels, columns)


def _table(rows: Sequence[Row], labels: Mapping[str, str], columns: Mapping[str, Callable[[Row], str]]) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    for heading in ("program", "pipeline", "outcome"):
        table.add_column(heading, overflow="fold")
    for heading in columns:
        table.add_column(heading, justify="left" if heading == "artifact" else "right", no_wrap=True)
    for row in rows:
        cells = (content(row) for content in columns.values())
        table.add_row(escape(str(row["program"])), escape(labels[str(row["pipeline"])]), _outcome(row), *cells)
    return table


def _labels(rows: Sequence[Row]) -> dict[str, str]:
    """A short name for each pipeline: itself, or its backend, numbered where a backend has several."""
    pipelines = list(dict.fromkeys(str(row["pipeline"]) for row in rows))
    backends = [pipeline.partition(":")[0] for pipeline in pipelines]
    labels: dict[str, str] = {}
    for at, (pipeline, backend) in enumerate(zip(pipelines, backends, strict=True)):
        numbered = backend if backends.count(backend) == 1 else f"{backend}#{backends[: at + 1].count(backend)}"
        labels[pipeline] = pipeline if len(pipeline) <= _LABEL_WIDTH else numbered
    return labels


def _outcome(row: Row) -> str:
    text = str(row["outcome"] or "not ended")
    if row["outcome_kind"]:
        text += f" ({escape(row['outcome_kind'])})"
    style = "green" if row["outcome"] == "admitted" else "red"
    return f"[{style}]{text}[/]" + (" (cached)" if row["cached"] else "")


def _ratio(value: float | None) -> str:
    """Worst error as a share of its limit."""
    return "" if value is None else f"{value:.2g}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value * 1e3:.2f} ms"


_COLUMNS: Mapping[str, Callable[[Row], str]] = {
    "forward": lambda row: _ratio(row["forward_over_limit"]),
    "gradient": lambda row: _ratio(row["gradient_over_limit"]),
    "compile": lambda row: _seconds(row["compile_seconds"]),
    "gate": lambda row: _seconds(row["gate_seconds"]),
    "eager": lambda row: _milliseconds(row["eager_p50_seconds"]),
    "compiled": lambda row: _milliseconds(row["candidate_p50_seconds"]),
    "speed": lambda row: "" if row["speedup"] is None else f"{row['speedup']:.2f}×",
    "artifact": lambda row: str(row["artifact_sha256"] or "")[:12],
}
