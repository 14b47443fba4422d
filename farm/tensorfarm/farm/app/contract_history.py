"""The history of contract files as git has it: one revision a commit that touched a file, under whatever name it had.

Each is compared with its own parent, not with the commit that a log happens to list before it. Read with plumbing:
nothing of the repository's configuration formats what is parsed here.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from tensorfarm.contract.contract_drift import Revision
from tensorfarm.contract.numerics import FORMAT, plain
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.yaml_file import parsed_yaml

_ONE, _TWO = "\x01", "\x02"
_SHOWN = 12


@dataclass(frozen=True)
class Repository:
    """``root`` is the folder of the working tree, ``folder`` the one in it from which files are named."""

    root: Path
    folder: Path

    @staticmethod
    def at(folder: Path) -> Repository:
        """Refuses a folder that is not there, in no git repository, or in one without a commit."""
        if not folder.is_dir():
            raise Refusal(f"{folder} is no folder", next_step="correct --repo")
        found = _git(folder, "rev-parse", "--show-toplevel")
        if found is None:
            raise Refusal(f"{folder} is in no git repository", next_step="name one with --repo")
        if _git(folder, "rev-parse", "--verify", "-q", "HEAD") is None:
            raise Refusal(f"the git repository {folder} has no commit", next_step="commit the contract first")
        return Repository(Path(found.strip()).resolve(), folder.resolve())

    def contracts(self) -> list[str]:
        """Every contract of the newest commit, by its path from the root. Refuses a commit without one."""
        pattern = rf"^format: {FORMAT}"
        found = _git(self.root, "grep", "-lz", "-e", pattern, "HEAD", "--", "*.yaml", "*.yml")
        if not found:
            raise Refusal(f"{self.root} holds no committed contract", next_step="name a FILE, or commit one")
        return [name.removeprefix("HEAD:") for name in found.split("\0") if name]

    def named(self, file: Path) -> str:
        """A file's path from the root. Refuses one that no commit holds."""
        place = (self.folder / file).resolve()
        if not place.is_relative_to(self.root):
            raise Refusal(f"{file} is not in the repository {self.root}", next_step="correct it, or --repo")
        name = place.relative_to(self.root).as_posix()
        if _git(self.root, "cat-file", "-e", f"HEAD:{name}") is None:
            raise Refusal(f"{file} is not tracked: the newest commit does not hold it", next_step="commit it first")
        return name

    def fields(self, name: str, commit: str = "HEAD") -> Mapping[str, Any]:
        """A file as it was parsed at a commit, empty where it was not there. Refuses one that cannot be read."""
        text = _git(self.root, "cat-file", "blob", f"{commit}:{name}") or ""
        value = parsed_yaml(text, f"contract {name} as committed in {commit[:_SHOWN]}")
        return plain(value) if isinstance(value, Mapping) else {}

    def revisions(self, name: str) -> list[Revision]:
        """Every commit that changed a file, oldest first; what a merge itself changes is not seen.

        Renames are followed. A copy is followed where the new contract names the other as its parent.
        """
        log = _git(self.root, "log", "--follow", "--name-status", "-z", f"--format={_ONE}%H{_TWO}%cs{_TWO}", "--", name)
        found: list[Revision] = []
        for part in (log or "").split(_ONE)[1:]:
            commit, day, rest = part.split(_TWO)
            status, *names = (item for item in rest.replace("\n", "\0").split("\0") if item)
            revision = self._revision(commit, date.fromisoformat(day), status[0], names)
            found.insert(0, revision)
            if status[0] == "C" and not revision.before:
                break
        return _without_gaps(found)

    def _revision(self, commit: str, day: date, status: str, names: Sequence[str]) -> Revision:
        after = {} if status == "D" else self._readable(names[-1], commit)
        before = {} if status == "A" else self._readable(names[0], f"{commit}^")
        if status == "C" and not _descends(after, before):
            before = {}
        files = _git(self.root, "diff-tree", "--root", "--no-commit-id", "--name-only", "-r", "-z", commit) or ""
        return Revision(commit, day, before, after, tuple(filter(None, files.split("\0"))))

    def _readable(self, name: str, commit: str) -> Mapping[str, Any]:
        """Empty where it cannot be read: nobody can mend what is long committed."""
        try:
            return self.fields(name, commit)
        except Refusal:
            return {}


def _without_gaps(revisions: Iterable[Revision]) -> list[Revision]:
    """A version that is gone or unreadable is stepped over: what comes after it is compared with what came before."""
    found: list[Revision] = []
    last: Mapping[str, Any] = {}
    for revision in revisions:
        found.append(replace(revision, before=revision.before or last))
        last = revision.after or found[-1].before
    return found


def _descends(after: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    headers = [value.get("contract") for value in (after, before)]
    new, old = (header if isinstance(header, Mapping) else {} for header in headers)
    return old.get("id") is not None and new.get("parent") == old.get("id")


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints, None where it fails. Refuses a machine without git."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        raise Refusal("git is not installed", next_step="install git") from None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None
