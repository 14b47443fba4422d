"""A contract's first draft from a factory: the dtypes and the batch of its own inputs, parameters and outputs.

The original is called once, as it is. Nothing is compiled, and what the factory returned is left as it was.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tensorfarm.contract.capture import built
from tensorfarm.contract.contract_template import BATCH_LADDER, DTYPES, Draft
from tensorfarm.contract.refusal import Refusal, one_line

ANY = "any"


def draft_of(program: str, name: str, day: str, python_path: Iterable[Path]) -> Draft:
    """What a contract for ``package.module:factory`` says. Raises Refusal for one that cannot be called."""
    if program.endswith(".pt2"):
        raise Refusal(f"{program} is an exported program", limit="package.module:factory", next_step="name its factory")
    sys.path[:0] = [str(folder.resolve()) for folder in (*python_path, Path())]
    module, args, kwargs = built(program)
    inputs = list(_tensors((args, kwargs)))
    sizes = {value.shape[0] for value in inputs if value.dim()}
    return Draft(
        id=name,
        date=day,
        inputs=_dtype_of(inputs),
        params=_dtype_of([*module.parameters(), *module.buffers()]),
        outputs=_dtype_of(_outputs(program, module, args, kwargs)),
        batch=tuple(sorted({*BATCH_LADDER, *sizes})) if len(sizes) == 1 else BATCH_LADDER,
        dynamic=("B",) if len(sizes) == 1 else (),
    )


def _outputs(program: str, module: torch.nn.Module, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    module, args, kwargs = copy.deepcopy((module, args, kwargs))
    try:
        with torch.no_grad():
            return _tensors(module(*args, **kwargs))
    except Exception as error:
        raise Refusal(f"{program} raised {one_line(error)}", next_step="call it on its own and mend it") from error


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


def _dtype_of(tensors: Iterable[torch.Tensor]) -> str:
    """The one floating dtype among them, ``any`` where there are several, none, or one that has no name here."""
    found = {
        str(value.dtype).removeprefix("torch.") for value in tensors if value.is_floating_point() or value.is_complex()
    }
    return found.pop() if len(found) == 1 and found <= DTYPES.keys() else ANY
