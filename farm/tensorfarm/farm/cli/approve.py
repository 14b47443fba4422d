"""``farm approve``: sign off a program's identity."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensorfarm.contract.approve import LOCK_NAME
from tensorfarm.farm.app.approval import approve_program


def approve(
    program: Annotated[str, typer.Argument(help="package.module:factory, or a .pt2 file.")],
    lock: Annotated[Path, typer.Option("--lock", help="Lock file to write.")] = Path(LOCK_NAME),
    python_path: Annotated[list[str] | None, typer.Option("--python-path", help="Folder to import from.")] = None,
) -> None:
    """Capture PROGRAM and write its semantic hash into the lock file. A sweep refuses it from then on if it changed."""
    approval = approve_program(program, lock, tuple(python_path or ()))
    before = "" if approval.before in (None, approval.semantic_hash) else f" (was {approval.before})"
    print(f"approved {program} as {approval.semantic_hash}{before} in {lock}")


def register(application: typer.Typer) -> None:
    application.command("approve")(approve)
