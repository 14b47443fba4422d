"""A folder of case files as candidates: ``torch.compile`` of each against its eager module, one line a case.

A file has ``model()`` and ``inputs()``; it may have ``GRADS``, ``SEQUENCE``, ``BETWEEN``, ``COMPILE``, ``INDUCTOR``,
``FUNCTORCH``, ``DYNAMO``, ``SEED`` and ``CHECK``. Whether a fault is there, and in what it was seen, is the word of the
folder's ``README.md``, for the torch it was written of. A family is right for a case where it is that family's business
to find what was seen. Invariant: no verdict hangs on a file's name, and every file gets its one line.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from report import Goal

from tensorfarm.contract.outcome import Outcome
from tensorfarm.contract.refusal import Refusal, one_line
from tensorfarm.gate.limits import Limits
from tensorfarm.gate.whole_run import certify_case

_ADAPTER = """
import importlib.util, json, sys
import torch

spec = importlib.util.spec_from_file_location({name!r}, {path!r})
case = sys.modules[{name!r}] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(case)

def factory():
    torch.manual_seed(getattr(case, "SEED", 0))
    module, inputs = case.model(), case.inputs()
    return module, wanting(inputs)

def wanting(inputs):
    grads = getattr(case, "GRADS", None)
    for place, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.is_floating_point() and wanted(grads, place):
            value.requires_grad_()
    return tuple(inputs)

def wanted(grads, place):
    return bool(grads) if isinstance(grads, (str, bool)) else place in (grads or ())

def sequence():
    torch.manual_seed(getattr(case, "SEED", 0))
    return [tuple(item) for item in case.SEQUENCE()]

def between(module, step):
    case.BETWEEN(module, step)

def backend(graph, inputs, **options):
    return case.COMPILE["backend"](graph, inputs, **options)

def check():
    torch.manual_seed(getattr(case, "SEED", 0))
    options = getattr(case, "COMPILE", {{}})
    return case.CHECK(lambda target: torch.compile(target, **options))

if __name__ == "__main__":
    print(json.dumps([list(map(str, item)) for item in check()]))
"""
# What a README and a file's own check call a difference, and the families whose business that is; a file's own check is
# a finding of the first. Which of them is asked hangs on the program: whether it draws, counts, or was called before.
_VALUES = ("forward", "integers", "exact_integers", "second_call", "rng")
_OF_ASPECT = {
    "VALUE": _VALUES,
    "GRAD": ("gradient", "derivatives", "second_call", "rng"),
    "MUTATION": ("mutation",),
    "ALIAS": ("mutation",),
    "MISSING_ERROR": ("errors",),
    "DTYPE": ("metadata", "promotion"),
    "STRIDE": ("metadata", "layouts"),
    "NAN": ("special_values", *_VALUES),
    "SIGNZERO": ("special_values",),
}
_SECONDS = 300.0


@dataclass(frozen=True)
class Told:
    """What a folder says of a case: whether the fault is there on this torch, and the aspects it was seen in
    (``GRAD:VALUE``); words that name no family's business are left out."""

    reproduces: bool
    aspects: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judged:
    """``families`` are the checks that failed, the most telling first. ``told`` is None where the folder is silent."""

    name: str
    outcome: str
    families: tuple[str, ...]
    worst: str
    told: Told | None

    @property
    def flagged(self) -> bool:
        return self.outcome in (Outcome.CONFORMANCE_FAILURE, Outcome.SEMANTIC_DRIFT)

    @property
    def unfound(self) -> tuple[str, ...]:
        """The aspects that no family found whose business they are, of a case that is rightly flagged."""
        if self.told is None or not (self.told.reproduces and self.flagged):
            return ()
        return tuple(item for item in self.told.aspects if not set(self.families) & set(_OF_ASPECT[_head(item)]))

    @property
    def right(self) -> bool | None:
        """None where the folder says nothing; else flagged as it says, and by the families of what was seen."""
        return None if self.told is None else self.flagged == self.told.reproduces and not self.unfound

    def line(self) -> str:
        verdict = "  <- not as the folder says" if self.right is False else ""
        if self.unfound:
            verdict = f"  <- by no family of {', '.join(self.unfound)}"
        return f"{self.name}  {self.outcome:<20} {','.join(self.families) or '-':<28} {self.worst[:110]}{verdict}"


def judged_cases(
    folder: Path, contract: Mapping[str, Any], seed: int = 0, workers: int = 2, each: int = 1
) -> Iterator[Judged]:
    """Judge every ``*.py`` of a folder, or every ``each``-th, in order."""
    files = sorted(folder.glob("*.py"))[::each]
    if not files:
        raise Refusal(
            f"{folder} holds no case", limit="*.py files with model() and inputs()", next_step="name a folder of cases"
        )
    expected = expectations(folder / "README.md")
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(lambda path: judged(path, contract, seed, expected.get(path.stem)), files)


def judged(path: Path, contract: Mapping[str, Any], seed: int, told: Told | None) -> Judged:
    folder = Path(tempfile.mkdtemp(prefix="tensorfarm-case-"))
    try:
        try:
            case = _loaded(path)
        except Exception as error:
            return Judged(path.stem, "refused", (), f"the file cannot be imported: {one_line(error)}", told)
        adapter = folder / "adapter.py"
        adapter.write_text(_ADAPTER.format(name=f"case_{path.stem}", path=str(path.resolve())))
        if hasattr(case, "CHECK"):
            return _checked(path.stem, adapter, told)
        try:
            verdict = certify_case(_request(case, adapter, contract, seed, folder), limits=Limits(_SECONDS))
        except Refusal as refusal:
            return Judged(path.stem, "refused", (), str(refusal), told)
        return _of_verdict(path.stem, verdict, told)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def expectations(readme: Path) -> dict[str, Told]:
    """What a README's table says of each case on this torch: a bold REPRODUCES that is not borderline is a fault.

    Its column is the one that is headed by this torch's version; empty where there is none.
    """
    if not readme.is_file():
        return {}
    found: dict[str, Told] = {}
    column = seen = None
    for line in readme.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        headed = [place for place, cell in enumerate(cells) if cell.startswith(f"torch {torch.__version__}")]
        if headed:
            column = headed[0]
            seen = next((place for place, cell in enumerate(cells) if cell.startswith("aspects")), None)
        name = cells[1] if len(cells) > 1 else ""
        if column is not None and len(cells) > column and re.fullmatch(r"(case)?\d+", name):
            word = cells[column]
            aspects = cells[seen].split(",") if seen is not None and len(cells) > seen else []
            known = tuple(item.strip() for item in aspects if _head(item) in _OF_ASPECT)
            told = Told("REPRODUCES" in word and "borderline" not in word, known)
            found[f"case{name.removeprefix('case')}"] = told
    return found


def _head(aspect: str) -> str:
    """``GRAD`` of ``GRAD:VALUE``."""
    return aspect.strip().partition(":")[0]


def goals(judged: Sequence[Judged]) -> list[Goal]:
    """Flagged where the folder says so, by families whose business it is, and nowhere else."""
    told = [(item, item.told) for item in judged if item.told is not None]
    wrong, right = ([item for item, word in told if word.reproduces is there] for there in (True, False))
    flagged, alarms = sum(item.flagged for item in wrong), sum(item.flagged for item in right)
    aspects = [item for item, word in told if word.reproduces and word.aspects]
    found = sum(item.flagged and not item.unfound for item in aspects)
    return [
        Goal("cases that reproduce, flagged", f"{len(wrong)} of {len(wrong)}", flagged, flagged == len(wrong)),
        Goal("of these, by a family that is right", f"{len(aspects)} of {len(aspects)}", found, found == len(aspects)),
        Goal("other cases, flagged", f"0 of {len(right)}", alarms, not alarms),
    ]


def _loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"looked_at_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _request(case: Any, adapter: Path, contract: Mapping[str, Any], seed: int, folder: Path) -> dict[str, Any]:
    source = f"{adapter}:factory"
    named = {"inductor": "INDUCTOR", "functorch": "FUNCTORCH", "dynamo": "DYNAMO"}
    settings = {owner: getattr(case, name) for owner, name in named.items() if hasattr(case, name)}
    return {
        "source": source,
        "subject": {"kind": "compiled", "source": source, "settings": settings, **_compile(case, adapter)},
        "mode": "training" if getattr(case, "GRADS", None) else "inference",
        "level": "quick",
        "contract": _with_stream(contract, settings),
        "folder": str(folder / "run"),
        "seed": seed,
        "sequence": f"{adapter}:sequence" if hasattr(case, "SEQUENCE") else "",
        "between": f"{adapter}:between" if hasattr(case, "BETWEEN") else "",
    }


def _compile(case: Any, adapter: Path) -> dict[str, Any]:
    """Options of ``torch.compile``; a backend that is a function goes by its name, into the subject's process."""
    options = dict(getattr(case, "COMPILE", {}))
    return {**options, "backend": f"{adapter}:backend"} if callable(options.get("backend")) else options


def _with_stream(contract: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Inductor draws from a stream of its own unless it is told not to."""
    same = settings.get("inductor", {}).get("fallback_random", False)
    policy = "same_stream_as_reference" if same else "seeded_own_stream"
    dtypes = dict.fromkeys(("inputs", "params", "outputs"), "any")  # a case declares none
    numerics = {**contract["numerics"], "dtypes": dtypes}
    return {**contract, "numerics": numerics, "rng": {**contract["rng"], "policy": policy}}


def _of_verdict(name: str, verdict: Mapping[str, Any], told: Told | None) -> Judged:
    failed = [row for row in verdict["findings"] if row["status"] == "fail"]
    families = tuple(dict.fromkeys(row["check_name"] for row in failed))
    return Judged(name, str(verdict["outcome"]), families, str(verdict["message"]), told)


def _checked(name: str, adapter: Path, told: Told | None) -> Judged:
    """A case that brings a check of its own: its findings, in a process of its own."""
    command = [sys.executable, "-W", "ignore", str(adapter)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Judged(name, Outcome.UNDECIDED, (), f"its own check gave no answer in {_SECONDS:g} s", told)
    if ended.returncode:
        said = ended.stderr.strip().splitlines()
        return Judged(name, Outcome.UNDECIDED, (), f"its own check ended with {ended.returncode}: {said[-1:]}", told)
    found: Sequence[Sequence[str]] = json.loads(ended.stdout.strip().splitlines()[-1])
    families = tuple(dict.fromkeys(_OF_ASPECT.get(_head(item[2]), _VALUES)[0] for item in found))
    outcome = Outcome.CONFORMANCE_FAILURE if found else Outcome.ADMITTED
    return Judged(name, outcome, families, " | ".join(" ".join(item[1:]) for item in found), told)
