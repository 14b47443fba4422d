"""Files that a person writes in YAML: parsed without running anything in them, or refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tensorfarm.contract.refusal import Refusal


def read_yaml(path: Path, what: str) -> Any:
    """The parsed file; ``what`` says in errors what kind of file it is. Refuses what cannot be read or is no YAML."""
    try:
        return yaml.safe_load(path.read_text())
    except OSError as error:
        raise Refusal(f"{what} {path} cannot be read: {error.strerror}", next_step="check its path") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        fact = f"{what} {path} cannot be read: it is no YAML: {' '.join(str(error).split())}"
        raise Refusal(fact, next_step="mend it there") from None
