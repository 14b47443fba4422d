"""The import seal: a judge that can load what it judges is no witness.

Installed first thing in the judge's process. An attempt to import a sealed module fails there and is kept, and so is
what had been loaded before: both are in the verdict as evidence. The launcher that forked the judge belongs to the
farm, so farm modules may already be loaded; a compiler may not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tensorfarm.contract.digest import sha256_json
from tensorfarm.contract.refusal import Refusal

COMPILERS = ("tensorfarm.compiler", "tensorfarm.cost_model", "tensorfarm.bisect")
CODE_GENERATORS = (
    "torch._inductor.compile_fx",
    "torch._inductor.graph",
    "torch._inductor.lowering",
    "torch._inductor.codegen",
)
FARM, PROGRAMS = "tensorfarm.farm", "tensorfarm.farm.zoo"


class Sealed(ImportError):
    """A sealed module was asked for."""


class Seal:
    """Finder that comes before all others. ``names`` are sealed with everything below them."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.attempts: list[str] = []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not self.covers(fullname):
            return None
        self.attempts.append(fullname)
        raise Sealed(f"{fullname} is sealed in this process", name=fullname)

    def covers(self, name: str) -> bool:
        if not name.startswith((FARM, *self.names)) or _within(name, PROGRAMS):
            return False
        return (name != FARM and _within(name, FARM)) or any(_within(name, sealed) for sealed in self.names)

    def evidence(self) -> dict[str, Any]:
        """What the seal covers and caught, and a digest of everything this process has loaded."""
        loaded = sorted(sys.modules)
        return {
            "sealed": [*self.names, f"{FARM}.*"],
            "attempts": list(self.attempts),
            "launcher": [name for name in loaded if self.covers(name)],
            "modules": len(loaded),
            "modules_sha256": sha256_json(loaded),
        }


def install(names: Sequence[str]) -> Seal:
    """Seal this process, once. Refuses a process that already holds one of ``names``."""
    present = next((finder for finder in sys.meta_path if isinstance(finder, Seal)), None)
    if present is not None and present.names == tuple(names):
        return present
    seal = Seal(names)
    # Whatever is below a sealed name was imported after it.
    held = [name for name in names if name in sys.modules]
    if held:
        raise Refusal(
            f"this process already holds {', '.join(sorted(held)[:3])}",
            limit="a judge without a compiler",
            next_step="run the gate in a process of its own",
        )
    sys.meta_path.insert(0, seal)
    return seal


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")
