"""Any rows for a person: a table where it fits the screen, one line a value where it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

_NO_LIMIT = 10_000


def fits(console: Console, table: Table) -> bool:
    """Whether the table's widest cells fit side by side."""
    return Measurement.get(console, console.options.update(max_width=_NO_LIMIT), table).maximum <= console.width


def print_rows(console: Console, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    """Print ``rows``, each with a text for every one of ``columns``."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(row[name] for name in columns))
    if not rows or fits(console, table):
        console.print(table)
    else:
        width = max(map(len, columns))
        for number, row in enumerate(rows, 1):
            console.print(f"-- row {number}")
            for name in columns:
                console.print(f"{name:{width}}  {row[name]}", soft_wrap=True)
    console.print(f"({len(rows)} row{'' if len(rows) == 1 else 's'})")
