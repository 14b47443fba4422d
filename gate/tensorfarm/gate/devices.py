"""The devices that a contract names, as sessions: a graphics card, or this CPU held to one instruction-set level.

A level stands in for another machine. torch chooses its kernels when the first operator runs and never again. So a
process is held to a level before that: by its environment, or in a fork of a parent that has only imported.
Invariant: a device that is not here is said to be absent, never replaced by another.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch

from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.trial import MAIN, Session

# By level: what torch calls it, and how it is asked of ATen (Inductor obeys that too), of oneDNN and of MKL.
_LEVELS: Mapping[str, tuple[str, str, str, str]] = {
    "default": ("DEFAULT", "default", "SSE41", "SSE4_2"),
    "avx2": ("AVX2", "avx2", "AVX2", "AVX2"),
    "avx512": ("AVX512", "avx512", "DEFAULT", "AVX512"),
}
_VARIABLES = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
# What ATen asks of a CPU before it offers a level.
_INSTRUCTIONS = {"default": (), "avx2": ("avx2", "fma3"), "avx512": ("avx512_vl", "avx512_bw", "avx512_dq", "fma3")}
_CPU, _CUDA = "cpu", "cuda"


def main_device(contract: NumericalContract) -> str:
    """Where the main session runs, whose answers all families judge: the CPU, or the first device where none is one."""
    kinds = {device.partition("/")[0] for device in contract.devices}
    return MAIN.device if _CPU in kinds else contract.devices[0]


def sessions_of(contract: NumericalContract) -> tuple[Session, ...]:
    """One session a device, in the contract's order; the main one is there if its device is listed."""
    main = main_device(contract)
    return tuple(MAIN if device == main else _session(device) for device in contract.devices)


def adds_products_one_by_one(contract: NumericalContract) -> bool:
    """Whether a listed device sums a product's terms one after the other. On a graphics card each thread does, up to
    all of them, where a CPU's kernels stop after some hundred."""
    return any(device.partition("/")[0] == _CUDA for device in contract.devices)


def environment_of(device: str) -> dict[str, str]:
    """What the session's process must find in its environment before it runs an operator."""
    level = _level(device)
    return dict(zip(_VARIABLES, _LEVELS[level][1:], strict=True)) if level else {}


def present(device: str) -> str:
    """Why this machine cannot run a session on ``device``; empty where it can."""
    level = _level(device)
    if device.partition("/")[0] == _CUDA:
        return "" if torch.cuda.is_available() else "torch sees no CUDA device here"
    if level and not _runs(level):
        return f"this CPU has no {level}"
    return ""


def enter(device: str) -> None:
    """Hold this process to the device's level. Refuses one where torch has already chosen another, or is without it."""
    os.environ.update(environment_of(device))
    level = _level(device)
    if not level:
        return
    held = torch.backends.cpu.get_cpu_capability()
    if held != _LEVELS[level][0]:
        raise Refusal(
            f"torch runs at {held} in this process",
            limit=f"{device} was asked for, before the first operator",
            next_step="start the session in a process that has run no operator, on a CPU of that level",
        )


def _session(device: str) -> Session:
    _level(device)
    return Session(device.replace("/", "-"), device, MAIN.threads, environment_of(device))


def _level(device: str) -> str:
    """Empty for a device without levels. Refuses a device that is not known."""
    kind, _, level = device.partition("/")
    if kind == _CUDA or device == _CPU or (kind == _CPU and level in _LEVELS):
        return level if kind == _CPU else ""
    raise Refusal(
        f"the device {device!r} is unknown",
        limit=f"cpu, {', '.join(f'cpu/{name}' for name in _LEVELS)}, cuda",
        next_step="correct the contract's devices",
    )


def _runs(level: str) -> bool:
    capabilities = torch.cpu.get_capabilities()
    return all(capabilities.get(name, False) for name in _INSTRUCTIONS[level])
