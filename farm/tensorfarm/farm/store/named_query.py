"""SQL that has a name lives in ``queries/<name>.sql``, where it can be read, run by hand and shared by two callers."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tensorfarm.contract.refusal import Refusal

FOLDER = Path(__file__).parent / "queries"


@cache
def named_query(name: str) -> str:
    """The text of ``queries/<name>.sql``. Refuses a name that has no file."""
    known = sorted(path.stem for path in FOLDER.glob("*.sql"))
    if name not in known:
        raise Refusal(f"there is no query {name!r}", limit=f"one of {', '.join(known)}")
    return (FOLDER / f"{name}.sql").read_text()
