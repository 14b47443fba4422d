"""What a subject is made from: a name in the user's own code, and the settings that go with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tensorfarm.contract.capture import load_function
from tensorfarm.contract.refusal import Refusal, one_line


def named(source: str, python_path: Sequence[str] = ()) -> Callable[..., Any]:
    """The callable of this name (``package.module:name``, ``path.py:name``). Refuses one that is not there.

    ``python_path`` is searched first, from now on: what is found there may import more when it is called.
    """
    sys.path[:0] = [folder for folder in python_path if folder not in sys.path]
    return load_function(source)


def target_of(source: str, python_path: Sequence[str] = ()) -> Callable[..., Any]:
    """What a factory makes to be called: the first of ``(module, inputs)``, or the module or function alone.

    Refuses a factory that raises or makes nothing that can be called.
    """
    factory = named(source, python_path)
    try:
        made: Any = factory()
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise Refusal(
            f"factory {source!r} raised {one_line(error)}", next_step="call it on its own and mend it"
        ) from error
    target = cast("tuple[Any, ...]", made)[0] if isinstance(made, tuple) and made else made
    if not callable(target):
        raise Refusal(
            f"factory {source!r} returned {type(made).__name__}",
            limit="an nn.Module or a function, alone or with its example inputs",
            next_step="return (module, (input, ...)) or (module, {name: input})",
        )
    return cast("Callable[..., Any]", target)


def options_of(subject: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The mapping that a subject has under ``name``, empty where it has none. Refuses anything else there."""
    value = subject.get(name) or {}
    if not isinstance(value, Mapping):
        raise Refusal(
            f"the subject's {name} is {type(value).__name__}", limit="a mapping", next_step="write it as name: value"
        )
    return {str(key): item for key, item in cast("Mapping[Any, Any]", value).items()}
