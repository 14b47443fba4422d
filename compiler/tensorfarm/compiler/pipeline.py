"""Pipelines as text: a backend with options, then passes with options, in order: ``fx:dce,fold-constants{limit=64}``.

The same text is the command-line argument, the manifest entry and the bisection's input. Invariant: printing what was
parsed gives the text back, character for character; parsing imports nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, cast, get_type_hints

from tensorfarm.compiler.backends import BACKENDS, BackendSpec
from tensorfarm.compiler.passes.cast_cleanup import DropNoopCasts
from tensorfarm.compiler.passes.common_subexpressions import CommonSubexpressions
from tensorfarm.compiler.passes.dead_code import DeadCode
from tensorfarm.compiler.passes.fold_constants import FoldConstants
from tensorfarm.compiler.rewrite_pass import Pass
from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.refusal import Refusal

BUILT_IN: dict[str, type[Pass]] = {
    kind.name: kind for kind in (CommonSubexpressions, DeadCode, DropNoopCasts, FoldConstants)
}

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = re.compile(rf"(?P<name>{_NAME}(?:[.-]{_NAME})*(?::{_NAME})?)(?:\{{(?P<options>[^{{}}]*)\}})?")
_OPTION = re.compile(rf"(?P<key>{_NAME})=(?P<value>[A-Za-z0-9_.+-]+)")
_DOTTED = re.compile(rf"{_NAME}(?:\.{_NAME})+")
_CORRECT = "correct the pipeline in the sweep file"
_ON_PYTHON_PATH = "check its spelling, and that its folder is listed under python_path"
_READERS = {int: int, float: float, str: str, bool: {"true": True, "false": False}.__getitem__}


@dataclass(frozen=True)
class Call:
    """A name with options, values as they were written."""

    name: str
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        options = ",".join(f"{key}={value}" for key, value in self.options)
        return f"{self.name}{{{options}}}" if options else self.name


@dataclass(frozen=True)
class Pipeline:
    backend: Call
    passes: tuple[Call, ...] = ()

    def __str__(self) -> str:
        passes = ",".join(map(str, self.passes))
        return f"{self.backend}:{passes}" if passes else str(self.backend)


def parse(text: str) -> Pipeline:
    """Read a pipeline. Raises Refusal with the position of the first character that does not belong."""
    # A backend's name has no colon: what follows the first one are passes.
    head = re.match(rf"(?P<name>{_NAME})(?:\{{(?P<options>[^{{}}]*)\}})?", text)
    if head is None:
        raise _misspelt(text, 0, "a backend's name")
    backend = _call(text, head)
    if head.end() == len(text):
        return Pipeline(backend)
    if text[head.end()] != ":":
        raise _misspelt(text, head.end(), '":" and passes, or the end')
    passes, at = list[Call](), head.end() + 1
    while True:
        found = _TOKEN.match(text, at)
        if found is None:
            raise _misspelt(text, at, f"a pass: {', '.join(sorted(BUILT_IN))} or module:Class")
        passes.append(_call(text, found))
        at = found.end()
        if at == len(text):
            return Pipeline(backend, tuple(passes))
        if text[at] != ",":
            raise _misspelt(text, at, '"," and another pass, or the end')
        at += 1


def _call(text: str, found: re.Match[str]) -> Call:
    options, written = list[tuple[str, str]](), found["options"]
    if written is not None:
        at = found.start("options")
        for part in written.split(","):
            option = _OPTION.fullmatch(part)
            if option is None:
                raise _misspelt(text, at, "key=value")
            if option["key"] in dict(options):
                raise _misspelt(text, at, f"another option than {option['key']}, which is given already")
            options.append((option["key"], option["value"]))
            at += len(part) + 1
    return Call(found["name"], tuple(options))


def _misspelt(text: str, position: int, expected: str) -> Refusal:
    seen = f"has {text[position : position + 12]!r}" if position < len(text) else "ends"
    return Refusal(
        f"pipeline {text!r} {seen} at position {position}",
        limit=f"expected {expected}",
        next_step=_CORRECT,
    )


def known_backend(pipeline: Pipeline) -> BackendSpec:
    """The backend. Refuses one that is not there, an option or a value that it does not have, and passes it ignores."""
    name = pipeline.backend.name
    if name not in BACKENDS:
        raise Refusal(
            f"backend {name!r} is unknown",
            limit=f"known: {', '.join(sorted(BACKENDS))}",
            next_step="correct the pipeline in the sweep file",
        )
    spec = BACKENDS[name]
    for key, value in pipeline.backend.options:
        if key in spec.users_code and _DOTTED.fullmatch(value):
            continue
        if value not in spec.options.get(key, ()):
            known = [f"{option}={choice}" for option, choices in spec.options.items() for choice in choices]
            known += [f"{option}=module.Name" for option in spec.users_code]
            raise Refusal(
                f"backend {name} has no option {key}={value}",
                limit=f"known: {', '.join(known) or 'none'}",
                next_step="correct the pipeline in the sweep file",
            )
    if pipeline.passes and not spec.takes_passes:
        raise Refusal(
            f"pass {pipeline.passes[0]} stands before {name}, which takes the captured graph as it is",
            next_step="use the backend fx for passes",
        )
    return spec


def resolved(pipeline: Pipeline) -> list[Pass]:
    """The passes as objects, options set. Imports users' modules; raises Refusal for what is not there."""
    for name in _users_options(pipeline):
        users_code(name)
    return [_pass(call, position) for position, call in enumerate(pipeline.passes)]


def users_code(name: str) -> Callable[..., Any]:
    """What a backend's option names as ``module.Name``; a class is called for its object. Refuses what is not there."""
    module_name, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise Refusal(f"{name!r} cannot be imported: {error}", next_step=_ON_PYTHON_PATH) from None
    try:
        made = found() if isinstance(found, type) else found
    except Exception as error:
        raise Refusal(
            f"{name}() raised {type(error).__name__}: {error}", next_step="let it take no arguments"
        ) from error
    if not callable(made):
        raise Refusal(f"{name!r} cannot be called with a graph", next_step="see examples/inductor_planted.py")
    return cast("Callable[..., Any]", made)


def _pass(call: Call, position: int) -> Pass:
    kind = _imported(call, position) if ":" in call.name else BUILT_IN.get(call.name)
    if kind is None:
        raise Refusal(
            f"pass {position} of the pipeline is {call.name!r}, which is unknown",
            limit=f"known: {', '.join(sorted(BUILT_IN))}, or module:Class for your own",
            next_step=_CORRECT,
        )
    return cast(Pass, kind(**_typed_options(kind, call)))


def _imported(call: Call, position: int) -> type[Any]:
    module_name, _, class_name = call.name.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise Refusal(
            f"pass {position} of the pipeline is {call.name!r}, which cannot be imported: {error}",
            next_step=_ON_PYTHON_PATH,
        ) from None
    missing = [name for name in ("name", "numerics", "sites", "rewrite") if not hasattr(found, name)]
    if missing or not is_dataclass(found):
        raise Refusal(
            f"{call.name!r} is no pass: it has no {', '.join(missing)}"
            if missing
            else f"{call.name!r} is no dataclass",
            limit="a frozen dataclass with name, numerics, sites and rewrite",
            next_step="see examples/my_passes.py",
        )
    return cast(type[Any], found)


def _typed_options(kind: type[Any], call: Call) -> dict[str, Any]:
    hints, known = get_type_hints(kind), {field.name for field in fields(kind)}
    values: dict[str, Any] = {}
    for key, text in call.options:
        if key not in known:
            raise Refusal(
                f"pass {call.name!r} has no option {key!r}",
                limit=f"known: {', '.join(sorted(known)) or 'none'}",
                next_step=_CORRECT,
            )
        try:
            values[key] = _READERS[hints[key]](text)
        except (KeyError, ValueError):
            wanted = getattr(hints[key], "__name__", str(hints[key]))
            raise Refusal(f"option {key}={text} of pass {call.name!r} is no {wanted}", next_step=_CORRECT) from None
    return values


def pass_digests(pipeline: Pipeline) -> dict[str, str]:
    """For each of the user's passes, ``module:Class`` or a backend's ``module.Name``, the sha256 of its module's
    source: part of the candidate's identity.
    """
    modules = {call.name: call.name.partition(":")[0] for call in pipeline.passes if ":" in call.name}
    modules |= {name: name.rpartition(".")[0] for name in _users_options(pipeline)}
    sources = {module: _source(module) for module in modules.values()}
    return {name: sha256_file(sources[module]) for name, module in modules.items()}


def _users_options(pipeline: Pipeline) -> Sequence[str]:
    return [value for key, value in pipeline.backend.options if key in known_backend(pipeline).users_code]


def _source(module_name: str) -> Path:
    try:
        spec = importlib.util.find_spec(module_name)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise Refusal(
            f"module {module_name!r} of a pass has no source file",
            next_step=_ON_PYTHON_PATH,
        )
    return Path(spec.origin)
