"""Capture: from a factory or an exported program to a ``Program`` with an identity. Runs once, in a pinned toolchain.

The graph is ``torch.export``'s, functionalised with an empty decomposition table: composite operators stay whole, so
autograd differentiates what the user wrote. Invariant: no one else mints a semantic hash.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import sys
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from tensorfarm.contract.conversion import Conversion
from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.graph import Graph, IllegalGraph
from tensorfarm.contract.identity import input_spec_id, mint_semantic_hash
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal, one_line
from tensorfarm.contract.restrictions import refuse_unsupported
from tensorfarm.contract.stopped_gradients import with_stopped_gradients
from tensorfarm.contract.structure import serialised, structure_text


def capture(source: str) -> Program:
    """Capture a factory (``package.module:name``) or a ``torch.export`` file (``path.pt2``).

    Raises Refusal for a source that is not there and IllegalGraph for a model that has no functional tensor graph.
    """
    if source.endswith(".pt2"):
        return capture_exported(Path(source))
    module, args, kwargs = built(source)
    return captured(source, _exported(source, module, args, kwargs))


def load_factory(source: str) -> Callable[[], tuple[torch.nn.Module, Any]]:
    """The function behind ``package.module:name`` or ``path.py:name``. Refuses what is not there."""
    return cast("Callable[[], tuple[torch.nn.Module, Any]]", load_function(source))


def load_function(source: str) -> Callable[..., Any]:
    """A function of the user's, named like a factory. Refuses a module or a name that is not there."""
    module_name, _, name = source.rpartition(":")
    if not module_name or not name:
        raise Refusal(
            f"{source!r} names no factory",
            limit="package.module:name, path.py:name, or a path that ends in .pt2",
            next_step="write it as package.module:name",
        )
    try:
        module = _of_file(Path(module_name)) if module_name.endswith(".py") else importlib.import_module(module_name)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        # The user's module runs while it is imported, so anything can come out of it.
        if isinstance(error, ModuleNotFoundError):
            fact, place = f"no module named {error.name!r}", "install the package, or add its folder to python_path"
        elif isinstance(error, FileNotFoundError) and module_name.endswith(".py"):
            fact, place = f"{module_name} does not exist", "check the path"
        else:
            fact, place = f"importing {module_name} raised {one_line(error)}", "import it on its own and mend it"
        raise Refusal(f"factory {source!r}: {fact}", next_step=place) from error
    factory = getattr(module, name, None)
    if not callable(factory):
        functions = [key for key, value in vars(module).items() if callable(value) and not isinstance(value, type)]
        offered = ", ".join(sorted(key for key in functions if not key.startswith("_"))[:8])
        raise Refusal(
            f"factory {source!r}: {module_name} has no function {name!r}", next_step=f"it offers {offered or 'none'}"
        )
    return factory


def _of_file(path: Path) -> ModuleType:
    """The module in a file, loaded once for its bytes; kept where tracebacks and ``inspect`` find it."""
    name = f"{path.stem}_{sha256_file(path)[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is no Python file")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def split_inputs(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A factory's example inputs as ``(args, kwargs)``: a mapping means keywords, a tuple or list positions."""
    if isinstance(example, Mapping):
        return (), {str(key): value for key, value in example.items()}
    return (tuple(example), {}) if isinstance(example, (tuple, list)) else ((example,), {})


def built(source: str) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Call a factory: ``(module, args, kwargs)``. Refuses a factory that raises or returns anything else."""
    factory = load_factory(source)
    try:
        made: Any = factory()
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise Refusal(
            f"factory {source!r} raised {one_line(error)}", next_step="call it on its own and mend it"
        ) from error
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[0], torch.nn.Module):
        raise Refusal(
            f"factory {source!r} returned {type(made).__name__}",
            limit="a tuple of an nn.Module and its example inputs",
            next_step="return (module, (input, ...)) or (module, {name: input})",
        )
    args, kwargs = split_inputs(made[1])
    return made[0], args, kwargs


def capture_exported(path: Path) -> Program:
    """Capture a file written by ``torch.export.save``. Its own bytes go along: they are the reference to judge by."""
    if not path.is_file():
        raise Refusal(f"exported program {path} does not exist", next_step="check the path in the sweep file")
    content = path.read_bytes()
    try:
        with _without_torch_s_own_warning():
            program = torch.export.load(io.BytesIO(content))
    except Exception as error:
        # The loader lets zip, JSON, pickle and schema errors of many types through.
        raise Refusal(
            f"{path.name} is not readable as an exported program: {one_line(error)}",
            limit="a file written by torch.export.save",
            next_step="export it again with this torch",
        ) from None
    return captured(path.name, program, content)


def captured(source: str, program: ExportedProgram, content: bytes | None = None) -> Program:
    """Turn an exported program into a ``Program``; ``content`` is the file's bytes where it came from one.

    Raises Refusal where it has no example inputs, IllegalGraph where it is no functional graph of static shapes.
    """
    if program.example_inputs is None:
        raise Refusal(f"{source} was exported without example inputs", next_step="export it with example inputs")
    examples = pytree.tree_leaves(program.example_inputs)
    refuse_unsupported(program)
    in_spec = serialised(program.call_spec.in_spec, source)
    takes, returns = structure_text(program.call_spec.in_spec), structure_text(program.call_spec.out_spec)
    functional = _functional(source, program)
    # Asked of the original: functionalisation forgets which weights want a gradient.
    wants_gradient = {name: bool(tensor.requires_grad) for name, tensor in program.state_dict.items()}
    conversion = Conversion(functional, wants_gradient, examples)
    graph = conversion.graph()
    graph.validate()
    return Program(
        source=source,
        semantic_hash=mint_semantic_hash(graph, takes, returns),
        input_spec_id=input_spec_id(graph),
        graph=graph,
        weights=conversion.weights,
        inputs=_example_tensors(graph, examples),
        in_spec=in_spec,
        takes=takes,
        returns=returns,
        exported=content,
    )


def _exported(source: str, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
    try:
        with _without_torch_s_own_warning():
            return torch.export.export(module, args, kwargs, strict=False)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        # Whatever the model's own code raises while it is traced comes out here.
        raise IllegalGraph(
            f"{source} cannot be captured: {one_line(error)}",
            next_step="torch.export needs a model without data-dependent control flow",
        ) from error


def _functional(source: str, program: ExportedProgram) -> ExportedProgram:
    try:
        with _without_torch_s_own_warning():
            return with_stopped_gradients(program).run_decompositions({})
    except Exception as error:
        # It traces the graph again, custom operators of the user's included.
        raise IllegalGraph(
            f"{source} cannot be made functional: {one_line(error)}",
            next_step="write the operator named there without in-place effects on views",
        ) from error


def _example_tensors(graph: Graph, examples: list[Any]) -> dict[str, torch.Tensor]:
    return {
        item.name: value.detach().clone(memory_format=torch.preserve_format)
        for item, value in zip(graph.inputs, examples, strict=True)
        if item.spec is not None
    }


@contextmanager
def _without_torch_s_own_warning() -> Generator[None]:
    """torch 2.13 warns of a class of its own while it copies a program; no user can act on that."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"`isinstance\(treespec, LeafSpec\)`", category=FutureWarning)
        yield
