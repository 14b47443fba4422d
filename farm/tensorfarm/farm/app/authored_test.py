"""A verdict as a pytest file of the user's own: the same things judged in the same way, by the fixture ``certify``.

Invariant: what the file needs lies beside it, or is named by where it lies from there.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import yaml

from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.intake import Named

_TEMPLATE = '''"""Judges {title}. Written by "farm verify --author"; run it with pytest."""

from pathlib import Path

pytest_plugins = ["tensorfarm.gate.pytest_plugin"]
HERE = Path(__file__).parent


def test_{name}(certify):
    certify(
        {reference},
        {compiled},
        contract=HERE / "{contract}",
        mode="{mode}",
        level="{level}",
        seed={seed},
        seconds={seconds:g},
        python_path=[{python_path}],
    )
'''


def refuse_uncollectable(file: Path) -> None:
    """Refuses a name that pytest would not collect, and a folder that is not there."""
    if not re.fullmatch(r"test_[A-Za-z0-9_]+\.py", file.name):
        raise Refusal(f"pytest would not collect {file.name}", limit="test_NAME.py", next_step="correct --author")
    if not file.parent.is_dir():
        raise Refusal(f"there is no folder {file.parent}", limit="a folder that is there", next_step="correct --author")


def write_test(file: Path, title: str, named: Named) -> None:
    """Write ``file`` and, beside it, the contract and copies of the files that are judged."""
    try:
        file.write_text(_text(file, title, named))
    except OSError as error:
        raise Refusal(f"{file} cannot be written: {error.strerror}", next_step="correct --author") from None


def _text(file: Path, title: str, named: Named) -> str:
    folder, name = file.resolve().parent, file.stem.removeprefix("test_")
    subject, reference = repr(dict(named.subject)), repr(named.reference)
    if "path" in named.subject:
        # A file is named by itself: what it is made of is read from it again.
        subject = _copied(Path(named.subject["path"]), folder, name)
    if Path(named.reference).is_file():
        reference = _copied(Path(named.reference), folder, f"{name}_original")
    contract = folder / f"{name}.contract.yaml"
    contract.write_text(yaml.safe_dump(dict(named.contract), sort_keys=False))
    return _TEMPLATE.format(
        title=title.replace('"', "'").replace("\\", "/"),
        name=name,
        reference=reference,
        compiled=subject,
        contract=contract.name,
        mode=named.mode,
        level=named.level,
        seed=named.seed,
        seconds=named.limits.seconds,
        python_path=", ".join(f'HERE / "{os.path.relpath(item, folder)}"' for item in named.python_path),
    )


def _copied(path: Path, folder: Path, name: str) -> str:
    """The file's copy in ``folder``, as Python."""
    place = folder / f"{name}{path.suffix}"
    if place != path.resolve():
        shutil.copyfile(path, place)
    return f'HERE / "{place.name}"'
