"""A pass that lingers the first time it is tried: a node can be killed under it. From then on it is in order."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tensorfarm.compiler.site import Site
from tensorfarm.contract.graph import Graph
from tensorfarm.contract.manifest import Numerics

NOTE = Path(__file__).with_name("lingered")


@dataclass(frozen=True)
class LingersOnce:
    """Writes its process into ``lingered`` and hangs, unless that file is there: then it does nothing."""

    name: ClassVar[str] = "lingers-once"
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def sites(self, graph: Graph) -> Iterator[Site]:
        if not NOTE.exists():
            NOTE.write_text(str(os.getpid()))
            time.sleep(600)
        yield from ()

    def rewrite(self, graph: Graph, site: Site) -> None:
        raise AssertionError("it has no site")
