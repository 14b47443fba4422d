"""Files that a person writes in YAML: parsed without running anything in them, or refused in one line.

Invariants: no field that was written is silently dropped, so a key that is given twice is an error; nothing is built
of a text before it is known how much that is, since a few aliases of aliases stand for more than any machine holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tensorfarm.contract.refusal import Refusal

MOST_BYTES, MOST_VALUES, MOST_DIGITS = 1 << 20, 100_000, 1000
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_LESS, _OPEN = "write less there", -1
# PyYAML lets through what Python says of bytes that are no text, of dates and numbers that it cannot hold, and of words
# that do not fit their tag.
_UNREADABLE = (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)


class _OneValueAKey(yaml.SafeLoader):
    """PyYAML keeps the last of two values of a key. Seen where nodes are composed: merging (``<<``) repeats keys.

    A number that no other reader holds is refused there too: to build one of a megabyte takes a minute.
    """

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node = super().compose_scalar_node(anchor)
        if node.tag in _NUMBERS and len(node.value) > MOST_DIGITS:
            problem = f"a number of {len(node.value)} characters (at most {MOST_DIGITS})"
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key.value!r} is given twice", problem_mark=key.start_mark
                )
            if isinstance(key, yaml.ScalarNode):
                seen.add((key.tag, key.value))
        return node


def read_yaml(path: Path, what: str) -> Any:
    """The parsed file; ``what`` says in errors what kind of file it is.

    Refuses what cannot be read, is no YAML, or is larger than any that a person writes.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise Refusal(f"{what} {path} cannot be read: {error.strerror}", next_step="check its path") from None
    return parsed_yaml(text, f"{what} {path}")


def parsed_yaml(text: str | bytes, place: str) -> Any:
    """The value of a text that ``place`` names in errors. Refuses what ``read_yaml`` refuses."""
    if len(text) > MOST_BYTES:
        raise Refusal(f"{place} has more than {MOST_BYTES} bytes", limit=f"at most {MOST_BYTES}", next_step=_LESS)
    try:
        loader = _OneValueAKey(text)
        node = loader.get_single_node()
        values = 0 if node is None else _written_out(node, {})
        if values <= MOST_VALUES:
            return None if node is None else loader.construct_document(node)
    except _UNREADABLE as error:
        fact = f"{place} cannot be read: it is no YAML: {' '.join(str(error).split())}"
        raise Refusal(fact, next_step="mend it there") from None
    fact = f"{place} has more than {MOST_VALUES} values with its aliases written out"
    raise Refusal(fact, limit=f"at most {MOST_VALUES}", next_step=_LESS)


def _written_out(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for where every alias is written out: what is built of it takes as long."""
    size = known.get(id(node))
    if size is None:
        known[id(node)] = _OPEN
        size = known[id(node)] = 1 + sum(_written_out(part, known) for part in _parts(node))
    elif size == _OPEN:
        problem = "an alias stands inside of what it names"
        raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)
    return size


def _parts(node: yaml.Node) -> Iterable[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return (part for pair in node.value for part in pair)
    return node.value if isinstance(node, yaml.SequenceNode) else ()
