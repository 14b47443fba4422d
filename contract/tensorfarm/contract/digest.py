"""One way to hash and one way to spell JSON, so that equal things have equal bytes everywhere."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_CHUNK_BYTES = 1 << 20


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces. Refuses NaN and Infinity: floats are encoded by their bits before."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def finite(value: Any) -> Any:
    """JSON has no infinities: they travel as the strings ``inf``, ``-inf`` and ``nan``, which ``float`` reads back."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def sha256_bytes(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()


def sha256_text(text: str) -> str:
    return sha256_bytes(text.encode())


def sha256_json(value: object) -> str:
    return sha256_text(canonical_json(value))


def sha256_file(path: Path) -> str:
    """Hex sha256 of a file's bytes, read in chunks."""
    seen = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            seen.update(chunk)
    return seen.hexdigest()


def sha256_tree(root: Path, pattern: str = "**/*.py") -> str:
    """Hex sha256 over the relative names and bytes of the files under ``root`` that match ``pattern``."""
    files = sorted(path for path in root.glob(pattern) if path.is_file())
    return sha256_json([[path.relative_to(root).as_posix(), sha256_file(path)] for path in files])
