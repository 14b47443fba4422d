"""The table at the end of a sweep: one row a cell, and where the time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

Row = Mapping[str, Any]
STAGES = ("capture", "compile", "gate", "bench")


def print_sweep(console: Console, rows: Sequence[Row], times: Row) -> None:
    """Print rows of the ``report_sweep`` query and the ``sweep_times`` row."""
    table = Table(title=None, header_style="bold", box=None, pad_edge=False)
    for heading in ("program", "pipeline", "outcome", "forward", "gradient", "compile", "gate", "eager", "compiled"):
        table.add_column(heading, justify="left" if heading in ("program", "pipeline", "outcome") else "right")
    table.add_column("speed", justify="right")
    table.add_column("artifact")
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)
    console.print(_time_line(times), highlight=False)


def _cells(row: Row) -> list[str]:
    outcome = str(row["outcome"] or "running")
    if row["outcome_kind"]:
        outcome += f" ({row['outcome_kind']})"
    style = "green" if row["outcome"] == "admitted" else "red"
    eager, compiled = row["eager_p50"], row["candidate_p50"]
    return [
        str(row["program"]),
        str(row["pipeline"]),
        f"[{style}]{outcome}[/]" + (" (cached)" if row["cached"] else ""),
        _ratio(row["worst_forward"]),
        _ratio(row["worst_gradient"]),
        _seconds(row["compile_seconds"]),
        _seconds(row["gate_seconds"]),
        _milliseconds(eager),
        _milliseconds(compiled),
        f"{eager / compiled:.2f}×" if eager and compiled else "",
        str(row["artifact_sha256"] or "")[:12],
    ]


def _ratio(value: float | None) -> str:
    """Worst error as a share of its limit."""
    return "" if value is None else f"{value:.2g} of limit"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value * 1e3:.2f} ms"


def _time_line(times: Row) -> str:
    busy = ", ".join(f"{stage} {times[f'{stage}_seconds'] or 0.0:.1f} s" for stage in STAGES)
    wall = times["wall_seconds"]
    return f"busy: {busy}" + (f"; wall {wall:.1f} s" if wall is not None else "")
