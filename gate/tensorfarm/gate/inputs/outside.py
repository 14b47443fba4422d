"""What of the example lies outside the contract: bad input, to be told before anything runs."""

from __future__ import annotations

import torch

from tensorfarm.contract.contract_template import DTYPES
from tensorfarm.gate.opaque import holds_tensors, words_of
from tensorfarm.gate.setting import Setting


def outside_declared(setting: Setting) -> list[str]:
    """One sentence for each input of a dtype or with a finite value that the contract does not declare, and for each
    whose tensors are out of reach."""
    found = [_sentence(setting, name, value) for name, value in setting.tensors.items()]
    opaque = {leaf.name: words_of(leaf.literal) for leaf in setting.leaves if leaf.example is None}
    found += [
        f"input {name} is {words}, which can be neither copied nor looked at; give them themselves, or register the "
        "class by torch.export.register_dataclass or torch.utils._pytree"
        for name, words in opaque.items()
        if holds_tensors(words)
    ]
    return [sentence for sentence in found if sentence]


def _sentence(setting: Setting, name: str, value: torch.Tensor) -> str:
    contract = setting.contract
    if value.layout is not torch.strided:
        return f"input {name} is {_word(value.layout)}; contract {contract.id} is about strided tensors"
    floating = value.is_floating_point() or value.is_complex()
    declared = contract.dtypes.inputs
    if floating and declared != "any" and _word(value.dtype.to_real()) != declared:
        told = f"input {name} is {_word(value.dtype)}; contract {contract.id} declares {declared} inputs"
        return f"{told}; give a contract for {_word(value.dtype)}" if _word(value.dtype) in DTYPES else told
    if value.dtype is torch.bool or not value.numel():
        return ""
    least, most = contract.ranges["floating" if floating else "integer"]
    plain = value.detach().resolve_conj().resolve_neg()
    plain = torch.view_as_real(plain) if plain.is_complex() else plain
    # In its own dtype a bound that an int8 cannot hold would wrap around.
    wide = plain.double()
    outside = (wide.isfinite() & ((wide < least) | (wide > most))).nonzero()
    if not outside.shape[0]:
        return ""
    where = tuple(outside[0].tolist())
    return (
        f"input {name} is {wide[where].item():.9g} at {list(where)}; contract {contract.id} declares "
        f"{'floating' if floating else 'integer'} inputs from {least:.9g} to {most:.9g}"
    )


def _word(value: object) -> str:
    return str(value).removeprefix("torch.")
