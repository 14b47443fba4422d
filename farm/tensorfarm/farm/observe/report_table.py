"""A report on a screen: one row a fact, the least telling columns left out where they do not fit."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tensorfarm.farm.observe.presentation import Column, Presentation, is_bad
from tensorfarm.farm.observe.rows import fits, print_rows

_FOLDED_WIDTH = 30  # columns of the screen


def print_report(console: Console, report: Presentation) -> None:
    """Print the table and the summary. Where even the columns that always stay are too wide, one line a value."""
    if report.rows:
        _print_rows(console, report)
    for line in report.summary:
        console.print(line, markup=False, soft_wrap=True)


def _print_rows(console: Console, report: Presentation) -> None:
    columns, width = list(report.columns), None
    while not fits(console, table := _table(report, columns, width)):
        droppable = [column for column in columns if column.rank]
        if width is None:
            width = _FOLDED_WIDTH
        elif droppable:
            columns.remove(max(droppable, key=lambda column: column.rank))
        else:
            texts = [{column.heading: column.text(row) for column in columns} for row in report.rows]
            print_rows(console, [column.heading for column in columns], texts)
            return
    console.print(table)


def _table(report: Presentation, columns: Sequence[Column], width: int | None) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    for column in columns:
        justify = "right" if column.is_number else "left"
        table.add_column(
            column.heading,
            justify=justify,
            no_wrap=not column.folds,
            overflow="fold",
            max_width=width if column.folds else None,
        )
    for row in report.rows:
        table.add_row(*(_cell(column.text(row)) for column in columns))
    return table


def _cell(text: str) -> Text:
    return Text(text, style="red" if is_bad(text) else "")
