"""``certify``: the gate as a function, for live objects and for import strings, with or without the farm.

Invariant: whatever goes wrong with what is judged is a finding; what cannot be judged at all is refused in one line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tensorfarm.contract.contract_template import DTYPES, Draft, rendered
from tensorfarm.contract.numerics import NumericalContract, parse_contract, read_contract_fields, validated
from tensorfarm.contract.program import MODES
from tensorfarm.contract.refusal import Refusal, refuse_unknown
from tensorfarm.gate.attestation import Certificate
from tensorfarm.gate.intake import Named, judged_apart, subject_of
from tensorfarm.gate.limits import SECONDS, limits_here
from tensorfarm.gate.live import judged_in_place
from tensorfarm.gate.setting import LEVELS, Level, refuse_seed

DEFAULT_CONTRACT = "float32"
_SHIPPED = "2026-01-01"

Contract = str | Path | Mapping[str, Any] | NumericalContract


def certify(
    reference: Callable[..., Any] | str | Path,
    compiled: Callable[..., Any] | str | Path | Mapping[str, Any],
    inputs: Any = None,
    contract: Contract | None = None,
    mode: str | None = None,
    level: str = "standard",
    seed: int = 0,
    python_path: Sequence[str | Path] = (),
    seconds: float | None = None,
) -> Certificate:
    """Does ``compiled`` still mean what ``reference`` means? The verdict; it is never raised.

    Live objects, a module or function and what a compiler made of it, are judged here on ``inputs`` (a tuple for
    positions, a mapping for keywords). They share this process, so families that need one of their own do not run, and
    the attestation says ``isolation: none``. ``mode`` is then ``training`` where the module is in training and
    something wants a gradient, else ``inference``.

    Import strings are judged in processes of their own: ``reference`` is ``package.module:factory``,
    ``path.py:factory`` or a ``.pt2`` or ``.program`` file, ``compiled`` a mapping (``{"kind": "compiled", "source": …,
    "backend": …}``), a function or a file; the factory gives the inputs, ``python_path`` the folders of its code,
    ``seconds`` how long each of the processes may take (600 where it is not given), and ``mode`` is ``inference``
    unless it is given.

    ``contract`` is a file, its fields, a parsed contract (live objects only), or one of ``float32``, ``float64``,
    ``float16`` and ``bfloat16``: the template's; float32 where none is given. ``level`` is ``quick``, ``standard`` or
    ``full``.

    Raises Refusal for a contract with a fault, an unknown level or mode, a seed or seconds out of range, an original
    that cannot be copied, and names that lead nowhere.
    """
    refuse_unknown("level", level, LEVELS)
    if mode is not None:
        refuse_unknown("mode", mode, MODES)
    refuse_seed(seed)
    if not isinstance(reference, (str, Path)):
        if isinstance(compiled, (str, Path, Mapping)):
            raise _mixed()
        if seconds is not None:
            raise Refusal(
                "seconds were given for live objects",
                limit="nobody can end what runs in the caller's own process",
                next_step="name both for processes that can be ended, or leave it out",
            )
        parsed = contract if isinstance(contract, NumericalContract) else parse_contract(contract_fields(contract))
        return judged_in_place(reference, compiled, inputs, parsed, mode, Level[level.upper()], seed)
    if not isinstance(compiled, (str, Path, Mapping)):
        raise _mixed()
    if inputs is not None:
        raise Refusal("inputs were given beside import strings", next_step=f"let {reference} return (module, inputs)")
    if isinstance(contract, NumericalContract):
        raise Refusal("a parsed contract cannot be sent to a judge", next_step="give its file or its fields")
    return judged_apart(
        Named(
            reference=str(reference),
            subject=subject_of(compiled),
            contract=contract_fields(contract),
            mode=mode or MODES[0],
            level=level,
            seed=seed,
            python_path=[str(Path(folder).resolve()) for folder in python_path],
            limits=limits_here(SECONDS if seconds is None else seconds),
        )
    )


def contract_fields(contract: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields of a contract: of a file, of a mapping, or of the template for a dtype. Refuses an invalid one."""
    if isinstance(contract, Mapping):
        return validated(contract)
    name = DEFAULT_CONTRACT if contract is None else str(contract)
    if name in DTYPES:
        return validated(yaml.safe_load(rendered(Draft(f"template_{name}", _SHIPPED, name, name, name))), name)
    if not name or (not Path(name).suffix and not Path(name).exists()):
        raise Refusal(
            f"contract {name!r} is neither a file nor a dtype",
            limit=", ".join(DTYPES),
            next_step="correct the name, or the path of the file",
        )
    return read_contract_fields(Path(name))


def _mixed() -> Refusal:
    return Refusal(
        "one of reference and compiled is an object, the other a name",
        limit="both live in this process, or both are named and loaded apart",
        next_step="name both for full isolation, or pass both objects",
    )
