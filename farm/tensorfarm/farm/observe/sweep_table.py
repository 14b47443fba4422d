"""The table at the end of a sweep: one row a cell, and where the time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tensorfarm.farm.pipeline.commands import Stage

Row = Mapping[str, Any]


def print_sweep(console: Console, rows: Sequence[Row], times: Row) -> None:
    """Print rows of the ``report_sweep`` query and the ``sweep_times`` row."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    for heading in ("program", "pipeline", "outcome"):
        table.add_column(heading, overflow="fold")
    for heading in ("forward", "gradient", "compile", "gate", "eager", "compiled", "speed"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("artifact", no_wrap=True)
    labels = _labels(rows)
    for row in rows:
        table.add_row(*_cells(row, labels[str(row["pipeline"])]))
    console.print(table)
    for pipeline, label in labels.items():
        if label != pipeline:
            console.print(f"{label} is {pipeline}")
    console.print("forward and gradient: worst error as a share of its limit")
    console.print(_time_line(times))


def _labels(rows: Sequence[Row]) -> dict[str, str]:
    """A short name for each pipeline: its backend, numbered where a backend has several."""
    pipelines = list(dict.fromkeys(str(row["pipeline"]) for row in rows))
    backends = [pipeline.partition(":")[0] for pipeline in pipelines]
    numbered = [f"{name}#{backends[: at + 1].count(name)}" for at, name in enumerate(backends)]
    return {
        pipeline: backend if backends.count(backend) == 1 else number
        for pipeline, backend, number in zip(pipelines, backends, numbered, strict=True)
    }


def _cells(row: Row, pipeline: str) -> list[str]:
    outcome = str(row["outcome"] or "running")
    if row["outcome_kind"]:
        outcome += f" ({row['outcome_kind']})"
    style = "green" if row["outcome"] == "admitted" else "red"
    return [
        str(row["program"]),
        pipeline,
        f"[{style}]{outcome}[/]" + (" (cached)" if row["cached"] else ""),
        _ratio(row["forward_over_limit"]),
        _ratio(row["gradient_over_limit"]),
        _seconds(row["compile_seconds"]),
        _seconds(row["gate_seconds"]),
        _milliseconds(row["eager_p50_seconds"]),
        _milliseconds(row["candidate_p50_seconds"]),
        "" if row["speedup"] is None else f"{row['speedup']:.2f}×",
        str(row["artifact_sha256"] or "")[:12],
    ]


def _ratio(value: float | None) -> str:
    """Worst error as a share of its limit."""
    return "" if value is None else f"{value:.2g}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value * 1e3:.2f} ms"


def _time_line(times: Row) -> str:
    busy = ", ".join(f"{stage} {times[f'{stage}_seconds'] or 0.0:.1f} s" for stage in Stage)
    wall = times["wall_seconds"]
    return f"busy: {busy}" + (f"; wall {wall:.1f} s" if wall is not None else "")
