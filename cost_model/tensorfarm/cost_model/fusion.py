"""Which operators a fusing compiler would make one kernel of: producer into consumer where their loops have one size.

A model of fusion, not a compiler's: it is there before anything is compiled, and needs to be right on the average.
Products, convolutions and attention stay library calls; views vanish.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tensorfarm.contract.graph import Graph, Node
from tensorfarm.cost_model.operators import Specs, bytes_of
from tensorfarm.cost_model.work import EXTERNAL, Work, WorkKind, summed


@dataclass(frozen=True)
class Group:
    """``members`` are names of nodes, in order."""

    members: tuple[str, ...]
    work: Work


@dataclass(eq=False)
class _Open:
    """A group while it grows. ``loop`` is the number of elements that its kernel walks over.

    ``level`` is above that of every group it reads from, so that no two groups can wait for each other.
    """

    loop: int
    external: bool
    level: int
    members: list[str] = field(default_factory=list[str])


def fused_groups(graph: Graph, works: Mapping[str, Work], specs: Specs) -> list[Group]:
    """Groups in the order of their first member. Every node but a view is in exactly one."""
    sources = _sources(graph, works)
    home: dict[str, _Open] = {}
    for node in graph.nodes.values():
        work = works[node.name]
        if work.kind is WorkKind.VIEW:
            continue
        loop = _loop(node, specs)
        producers = _producers(node, sources, home)
        group = None if work.kind in EXTERNAL else _joined(producers, loop, home)
        if group is None:
            level = 1 + max((producer.level for producer in producers), default=0)
            group = _Open(loop, work.kind in EXTERNAL, level)
        group.members.append(node.name)
        home[node.name] = group
    distinct = {id(group): group for group in home.values()}
    leaving = _leaving(graph, works, home, sources)
    return [_closed(group, graph, works, specs, sources, leaving) for group in distinct.values()]


def _producers(node: Node, sources: Mapping[str, str], home: Mapping[str, _Open]) -> list[_Open]:
    """The groups that the node reads from, once each."""
    groups = (home.get(sources.get(operand, operand)) for operand in node.operands())
    return list(dict.fromkeys(group for group in groups if group is not None))


def _joined(producers: list[_Open], loop: int, home: dict[str, _Open]) -> _Open | None:
    """The highest producers as one group, where the node fits into all of them."""
    top = max((producer.level for producer in producers), default=0)
    highest = [producer for producer in producers if producer.level == top]
    if not highest or any(producer.external or producer.loop != loop for producer in highest):
        return None
    first, *others = highest
    for other in others:
        first.members.extend(other.members)
        home.update(dict.fromkeys(other.members, first))
    return first


def _loop(node: Node, specs: Specs) -> int:
    """A reduction walks over what it reads, anything else over what it writes: whichever is larger."""
    names = (node.name, *node.operands())
    return max((math.prod(spec.shape) for name in names for spec in specs[name]), default=0)


def _sources(graph: Graph, works: Mapping[str, Work]) -> dict[str, str]:
    """For each view the value that it is a view of."""
    found: dict[str, str] = {}
    for node in graph.nodes.values():
        first = next(node.operands(), None)
        if works[node.name].kind is WorkKind.VIEW and first is not None:
            found[node.name] = found.get(first, first)
    return found


def _leaving(
    graph: Graph, works: Mapping[str, Work], home: Mapping[str, _Open], sources: Mapping[str, str]
) -> frozenset[str]:
    """Values that are read outside of their group, or returned: these are written to memory."""
    found = {sources.get(name, name) for name in graph.output_names()}
    for node in graph.nodes.values():
        if works[node.name].kind is WorkKind.VIEW:
            continue
        for operand in node.operands():
            source = sources.get(operand, operand)
            if home.get(source) is not home[node.name]:
                found.add(source)
    return frozenset(found)


def _closed(
    group: _Open,
    graph: Graph,
    works: Mapping[str, Work],
    specs: Specs,
    sources: Mapping[str, str],
    leaving: frozenset[str],
) -> Group:
    members = [works[name] for name in group.members]
    if group.external:
        return Group(tuple(group.members), members[0])
    own = set(group.members)
    read: dict[str, int] = {}
    for name in group.members:
        for operand, size in _reads(graph.nodes[name], works[name], specs):
            source = sources.get(operand, operand)
            if source not in own:
                read[source] = max(read.get(source, 0), size)
    written = sum(works[name].bytes_written for name in group.members if name in leaving)
    work = Work(
        kind=_kind(members),
        ops=len(members),
        flops=0,
        bytes_read=sum(read.values()),
        bytes_written=written,
        strided_bytes=min(sum(member.strided_bytes for member in members), sum(read.values())),
        cold_bytes=sum(size for name, size in read.items() if name not in works),
        heavy=summed(pair for member in members for pair in member.heavy),
    )
    return Group(tuple(group.members), work)


def _reads(node: Node, work: Work, specs: Specs) -> Iterator[tuple[str, int]]:
    """Each operand with the bytes it brings. Together no more than the operator reads: a pick reads what it picks."""
    for operand in node.operands():
        yield operand, min(sum(bytes_of(spec) for spec in specs[operand]), work.bytes_read)


def _kind(members: list[Work]) -> WorkKind:
    kinds = {member.kind for member in members}
    for kind in (WorkKind.NORMALISATION, WorkKind.REDUCTION, WorkKind.PICK, WorkKind.POINTWISE):
        if kind in kinds:
            return kind
    return WorkKind.MOVE
