"""Passes run in order, one site at a time; one that breaks is named together with those before it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from tensorfarm.compiler.passes.cast_cleanup import DropNoopCasts
from tensorfarm.compiler.passes.common_subexpressions import CommonSubexpressions
from tensorfarm.compiler.passes.dead_code import DeadCode
from tensorfarm.compiler.sequence import SWITCHED_OFF, BrokenPass, run_passes
from tensorfarm.compiler.site import Site
from tensorfarm.contract.graph import Graph, IllegalGraph, Ref
from tensorfarm.contract.graph_json import graph_hash
from tensorfarm.contract.manifest import Decision, Entry, EntryKind, Numerics
from tensorfarm.contract.program import Program
from tensorfarm.contract.switches import Switches


@dataclass(frozen=True)
class UsesWhatIsNotThere:
    name: ClassVar[str] = "uses-what-is-not-there"
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def sites(self, graph: Graph) -> Iterator[Site]:
        yield Site((next(reversed(graph.nodes)),))

    def rewrite(self, graph: Graph, site: Site) -> None:
        node = graph.nodes[site.nodes[0]]
        graph.nodes[node.name] = replace(node, args=(Ref("nowhere"), *node.args[1:]))


@dataclass(frozen=True)
class Raises:
    name: ClassVar[str] = "raises"
    numerics: ClassVar[Numerics] = Numerics.EXACT
    in_search: bool = False

    def sites(self, graph: Graph) -> Iterator[Site]:
        if self.in_search:
            raise KeyError("lost")
        yield Site((next(iter(graph.nodes)),))

    def rewrite(self, graph: Graph, site: Site) -> None:
        raise ZeroDivisionError("planted")


@dataclass(frozen=True)
class FeedsItself:
    name: ClassVar[str] = "feeds-itself"
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def sites(self, graph: Graph) -> Iterator[Site]:
        yield Site((next(reversed(graph.nodes)),))

    def rewrite(self, graph: Graph, site: Site) -> None:
        node = graph.nodes[site.nodes[0]]
        graph.insert(replace(node, name=f"{node.name}_more"))


@pytest.fixture
def t5(zoo: Callable[[str], Program]) -> Graph:
    return zoo("language:t5").graph.copy()


def sites(entries: list[Entry], name: str) -> list[Entry]:
    return [entry for entry in entries if entry.kind is EntryKind.SITE and entry.name == name]


def ran(graph: Graph, *passes: object, **options: object) -> list[Entry]:
    return [item.entry for item in run_passes(graph, passes, **options)]  # type: ignore[arg-type]


def test_a_pass_that_breaks_the_graph_is_named_with_those_before_it(t5: Graph) -> None:
    with pytest.raises(IllegalGraph) as broken:
        ran(t5, DeadCode(), CommonSubexpressions(), UsesWhatIsNotThere(), DeadCode())
    assert "pass uses-what-is-not-there (after dce, cse) at site 0" in str(broken.value)
    assert "uses nowhere before it is defined" in str(broken.value)


@pytest.mark.parametrize(
    ("culprit", "told"),
    [
        (Raises(), "pass raises (after dce) at site 0"),
        (Raises(in_search=True), "pass raises (after dce) raised while looking for sites: KeyError"),
        (FeedsItself(), "pass feeds-itself (after dce) found"),
    ],
)
def test_a_pass_that_fails_of_itself_is_named(zoo: Callable[[str], Program], culprit: object, told: str) -> None:
    with pytest.raises(BrokenPass) as broken:
        ran(zoo("operators:suite").graph.copy(), DeadCode(), culprit)
    assert told in str(broken.value)


def test_switching_off_every_site_leaves_the_graph_alone(t5: Graph) -> None:
    before = graph_hash(t5)
    entries = ran(t5, CommonSubexpressions(), DeadCode(), switches=Switches.parse("none"))
    assert graph_hash(t5) == before
    assert {entry.reason for entry in sites(entries, "cse")} == {SWITCHED_OFF}
    assert entries[-1].decision is Decision.NO_OP


def test_a_site_that_is_off_stays_and_those_before_it_do_not_move(t5: Graph) -> None:
    full, partial = t5.copy(), t5.copy()
    everything = sites(ran(full, CommonSubexpressions()), "cse")
    some = sites(ran(partial, CommonSubexpressions(), switches=Switches.parse("all but 3")), "cse")
    assert some[:3] == everything[:3]
    assert some[3] == replace(everything[3], decision=Decision.REFUSED, reason=SWITCHED_OFF)
    duplicate = everything[3].attributes["nodes"].split(",")[0]
    assert duplicate in partial.nodes
    assert duplicate not in full.nodes


def test_sites_are_numbered_across_passes(t5: Graph) -> None:
    entries = ran(t5, CommonSubexpressions(), DropNoopCasts(), DeadCode())
    numbered = [entry for entry in entries if "ordinal" in entry.attributes]
    assert [entry.attributes["ordinal"] for entry in numbered] == [str(number) for number in range(len(numbered))]
    assert {entry.name for entry in numbered} == {"cse", "drop-noop-casts"}


def test_the_first_n_are_on_across_passes(t5: Graph) -> None:
    total = len(sites(ran(t5.copy(), CommonSubexpressions()), "cse"))
    entries = ran(t5, CommonSubexpressions(), DropNoopCasts(), switches=Switches(total + 2))
    applied = [entry for entry in entries if entry.kind is EntryKind.SITE and entry.decision is Decision.APPLIED]
    assert len(applied) == total + 2
    assert {"", SWITCHED_OFF} <= {entry.reason for entry in sites(entries, "drop-noop-casts")}
