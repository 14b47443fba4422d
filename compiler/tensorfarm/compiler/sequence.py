"""Runs passes over a graph, one site at a time, and writes down every decision.

Invariant: the order of sites is a function of the graph and the pipeline alone, so a site's number over all passes is
the same site in every run up to the first one that is switched off. The graph is legal after every application, or the
run ends with the pass that broke it and those before it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorfarm.compiler.rewrite_pass import Pass
from tensorfarm.compiler.site import Site, place_hash, structure
from tensorfarm.contract.digest import canonical_json
from tensorfarm.contract.graph import Graph, IllegalGraph
from tensorfarm.contract.graph_json import graph_hash
from tensorfarm.contract.manifest import Decision, Entry, EntryKind
from tensorfarm.contract.switches import Switches

SWITCHED_OFF = "switched off"
EVERYTHING = Switches()
# A pass that finds more sites than this per node of the graph it was given feeds itself.
_SITES_PER_NODE = 4


class BrokenPass(Exception):
    """A pass failed of itself: it raised, or never came to an end. The message names it and the passes before it."""


@dataclass(frozen=True)
class Decided:
    """An entry of the manifest and the time it took in nanoseconds, which the manifest does not say."""

    entry: Entry
    wall_ns: int = 0


def run_passes(graph: Graph, passes: Sequence[Pass], switches: Switches = EVERYTHING) -> list[Decided]:
    """Rewrite ``graph`` in place at the sites that ``switches`` leaves on. Raises IllegalGraph or BrokenPass, naming
    the pass.
    """
    decided: list[Decided] = []
    n_sites = 0
    for position, rewrites in enumerate(passes):
        before, start = graph_hash(graph), time.perf_counter_ns()
        run = _Run(graph, rewrites, position, n_sites, _story(passes, position))
        run.to_the_end(switches)
        n_sites += len(run.found)
        after = graph_hash(graph)
        decided += [Decided(entry) for entry in run.entries()]
        entry = Entry(
            EntryKind.PASS,
            rewrites.name,
            Decision.NO_OP if before == after else Decision.APPLIED,
            numerics=rewrites.numerics,
            ir_hash_before=before,
            ir_hash_after=after,
            attributes={"position": str(position), "sites": str(len(run.found))},
        )
        decided.append(Decided(entry, time.perf_counter_ns() - start))
    return decided


def _story(passes: Sequence[Pass], position: int) -> str:
    before = ", ".join(item.name for item in passes[:position])
    return f"pass {passes[position].name}" + (f" (after {before})" if before else " (the first)")


class _Run:
    """One pass over one graph. After each application it looks again: a site found before may be gone."""

    def __init__(self, graph: Graph, rewrites: Pass, position: int, first: int, story: str) -> None:
        self.graph, self.rewrites, self.position, self.first, self.story = graph, rewrites, position, first, story
        self.bound = _SITES_PER_NODE * (len(graph.nodes) + 1)
        self.found: list[Site] = []
        self.refused: list[Site] = []
        self.places: dict[str, int] = {}
        self.seen: set[tuple[str, ...]] = set()

    def to_the_end(self, switches: Switches) -> None:
        """Apply every site that is on; ``first`` is the number of this pass's first site."""
        while (site := self._next()) is not None:
            if switches.on(self.first + site.index):
                self.found.append(site)
                self._apply(site)
            else:
                self.found.append(replace(site, reason=SWITCHED_OFF))

    def entries(self) -> list[Entry]:
        return [self._entry(site) for site in (*self.found, *self.refused)]

    def _next(self) -> Site | None:
        """The first site that is legal and new. Without one, what was refused on the way is final."""
        refused: list[Site] = []
        try:
            for site in self.rewrites.sites(self.graph):
                if site.reason:
                    refused.append(site)
                elif site.nodes not in self.seen:
                    return self._new(site)
        except (BrokenPass, MemoryError):
            raise
        except Exception as error:
            raise BrokenPass(f"{self.story} raised while looking for sites: {_told(error)}") from error
        self.refused = [self._placed(site, -1) for site in refused]
        return None

    def _new(self, site: Site) -> Site:
        if len(self.found) >= self.bound:
            raise BrokenPass(f"{self.story} found {self.bound} sites and still finds more: it feeds itself")
        self.seen.add(site.nodes)
        return self._placed(site, len(self.found))

    def _placed(self, site: Site, index: int) -> Site:
        key = canonical_json(structure(self.graph, site.nodes[0]))
        occurrence = self.places[key] = self.places.get(key, -1) + 1
        place = place_hash(self.graph, site.nodes[0], occurrence)
        return replace(site, pass_name=self.rewrites.name, index=index, place=place)

    def _apply(self, site: Site) -> None:
        where = f"{self.story} at site {site.index} ({', '.join(site.nodes)})"
        try:
            self.rewrites.rewrite(self.graph, site)
            self.graph.validate()
        except IllegalGraph as error:
            raise IllegalGraph(f"{where} broke the graph: {error.fact}") from error
        except MemoryError:
            raise  # a limit of this child, which is told apart from a fault of the pass
        except Exception as error:
            raise BrokenPass(f"{where} raised {_told(error)}") from error

    def _entry(self, site: Site) -> Entry:
        attributes = {"position": str(self.position), "nodes": ",".join(site.nodes)}
        if site.index >= 0:
            attributes |= {"index": str(site.index), "ordinal": str(self.first + site.index)}
        return Entry(
            EntryKind.SITE,
            self.rewrites.name,
            Decision.REFUSED if site.reason else Decision.APPLIED,
            site.place,
            site.reason,
            site.numerics,
            attributes=attributes,
        )


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
