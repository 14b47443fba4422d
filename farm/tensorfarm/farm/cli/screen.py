"""The console of every command: as wide as the terminal, or wide enough for a table where there is none."""

from __future__ import annotations

from rich.console import Console

_FILE_WIDTH = 200  # columns


def screen(*, stderr: bool = False, markup: bool = True) -> Console:
    """A console on standard output or error; without ``markup`` brackets are printed as they are."""
    console = Console(stderr=stderr, markup=markup, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, markup=markup, highlight=False, width=_FILE_WIDTH)
