"""Options that several commands share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Store = Annotated[Path, typer.Option("--store", help="Folder of the store.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
AsOf = Annotated[str | None, typer.Option("--as-of", help="Read the store as it was then (ISO 8601, UTC).")]
DEFAULT_STORE = Path(".tensorfarm")
