"""A toolchain: the environment in which candidates are compiled, as facts that can be hashed.

The hash is part of every candidate's key: another torch, another g++, another processor or an edited compiler makes
another candidate.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from tensorfarm.contract.digest import sha256_json, sha256_tree

_PACKAGES = ("torch", "triton", "transformers")
_VARIABLES = ("ATEN_CPU_CAPABILITY", "CXX", "CFLAGS", "CXXFLAGS", "TORCHINDUCTOR_FREEZING")


@dataclass(frozen=True)
class Toolchain:
    """``facts`` are names and versions; ``id`` is their hash; ``target`` what it compiles for (``cpu/AVX512``)."""

    facts: Mapping[str, str]
    target: str

    @property
    def id(self) -> str:
        return sha256_json(dict(self.facts))


def this_toolchain() -> Toolchain:
    """The toolchain of the running interpreter. Imports torch, to ask it for the instruction set it will use."""
    import torch  # only here: a driver that answers from its records never needs it

    capability = torch.backends.cpu.get_cpu_capability()
    return Toolchain({**installed_facts(), "cpu_capability": capability}, f"cpu/{capability}")


def installed_facts() -> dict[str, str]:
    """What a toolchain's facts are without importing torch: cheap enough to ask of every node."""
    facts = {"python": platform.python_version(), "machine": platform.machine(), "g++": _compiler_version()}
    for package in _PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "absent"
    facts |= {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    facts["compiler_source"] = sources_digest("tensorfarm.compiler", "tensorfarm.contract")
    return facts


def sources_digest(*packages: str) -> str:
    """sha256 over the source files of importable packages, without importing them."""
    return sha256_json([sha256_tree(folder) for package in packages for folder in _folders_of(package)])


def _folders_of(package: str) -> list[Path]:
    spec = util.find_spec(package)
    return [Path(place) for place in (spec.submodule_search_locations if spec else None) or ()]


def _compiler_version() -> str:
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        return "absent"
    answer = subprocess.run([compiler, "-dumpfullversion", "-dumpmachine"], capture_output=True, text=True, check=False)
    return " ".join(answer.stdout.split())
