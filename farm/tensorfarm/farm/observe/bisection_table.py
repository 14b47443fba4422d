"""The end of a bisection for a person: its probes, then the culprit and the script that shows it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

_STYLE = {"good": "green", "bad": "red", "skip": "yellow", "unsteady": "yellow"}


def print_bisection(
    console: Console, finished: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], store: Path
) -> None:
    """Print the fields of ``BisectionFinished`` and the rows of its probes."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    for heading in ("round", "sites on", "answer", "seconds"):
        table.add_column(heading, justify="left" if heading in ("sites on", "answer") else "right")
    for row in steps:
        answer = row["outcome"]
        table.add_row(str(row["round"]), row["probe"], f"[{_STYLE[answer]}]{answer}[/]", f"{row['seconds']:.1f}")
    console.print(table)
    cost = f"{finished['probes']} probes in {finished['rounds']} rounds, {finished['seconds']:.1f} s"
    console.print(f"{finished['status']}: {finished['message']} ({cost})", markup=False, soft_wrap=True)
    if finished["reproducer"]:
        print_reproducer(console, finished["reproducer"], store)


def print_reproducer(console: Console, reproducer: str, store: Path) -> None:
    """The line to copy. ``reproducer`` is a path below the store's root, ``store`` the root as it was given."""
    script = shlex.quote(str(store / reproducer))
    console.print(f"python {script} fails; python {script} --off passes", markup=False, soft_wrap=True)
