"""Files that a person writes in YAML: parsed without running anything in them, or refused in one line.

Invariant: no field that was written is silently dropped, so a key that is given twice is an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tensorfarm.contract.refusal import Refusal


class _OneValueAKey(yaml.SafeLoader):
    """PyYAML keeps the last of two values of a key. Seen where nodes are composed: merging (``<<``) repeats keys."""

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
    """The parsed file; ``what`` says in errors what kind of file it is. Refuses what cannot be read or is no YAML."""
    try:
        return yaml.load(path.read_text(), _OneValueAKey)
    except OSError as error:
        raise Refusal(f"{what} {path} cannot be read: {error.strerror}", next_step="check its path") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: bytes that are no text, and dates and numbers that Python cannot hold.
        fact = f"{what} {path} cannot be read: it is no YAML: {' '.join(str(error).split())}"
        raise Refusal(fact, next_step="mend it there") from None
