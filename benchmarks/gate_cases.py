"""A folder of case files as candidates: ``torch.compile`` of each against its eager module, one line a case.

A file has ``model()`` and ``inputs()``; it may have ``GRADS``, ``SEQUENCE``, ``BETWEEN``, ``COMPILE``, ``INDUCTOR``,
``FUNCTORCH``, ``DYNAMO``, ``SEED`` and ``CHECK``. Whether a fault is there, and in what it was seen, is the word of the
folder's ``README.md``, for the torch it was written of. A family is right for a case where it is that family's business
to find what was seen. Invariant: no verdict hangs on a file's name, and every file gets its one line.
"""

from __future__ import annotations

import json
import re
import shutil
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
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.child import run_child
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

def looks():
    named = {{"inductor": "INDUCTOR", "functorch": "FUNCTORCH", "dynamo": "DYNAMO"}}
    options = dict(getattr(case, "COMPILE", {{}}))
    if callable(options.get("backend")):
        options["backend"] = __file__ + ":backend"
    return {{
        "missing": [] if hasattr(case, "CHECK") else [n for n in ("model", "inputs") if not hasattr(case, n)],
        "check": hasattr(case, "CHECK"),
        "grads": bool(getattr(case, "GRADS", None)),
        "sequence": hasattr(case, "SEQUENCE"),
        "between": hasattr(case, "BETWEEN"),
        "settings": {{owner: getattr(case, name) for owner, name in named.items() if hasattr(case, name)}},
        "compile": options,
    }}

def findings():
    return [list(map(str, item)) for item in check()]

if __name__ == "__main__":
    answer = {{"looks": looks, "findings": findings}}[sys.argv[1]]()
    with open(sys.argv[2], "w") as file:
        json.dump(answer, file)
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
_PARTS = 3  # of a finding of a file's own check; the last of them is the aspect
_SECONDS, _LOOK_SECONDS = 300.0, 60.0


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
        adapter = folder / "adapter.py"
        adapter.write_text(_ADAPTER.format(name=f"case_{path.stem}", path=str(path.resolve())))
        case, death = _answer(adapter, "looks", _LOOK_SECONDS)
        if death:
            return Judged(path.stem, "refused", (), f"the file cannot be imported: {death}", told)
        if case["missing"]:
            return Judged(path.stem, "refused", (), f"the file has no {' and no '.join(case['missing'])}", told)
        if case["check"]:
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


def _answer(adapter: Path, what: str, seconds: float) -> tuple[Any, str]:
    """What the adapter says in a process of its own, and why it says nothing. It is left in a file: what a case prints
    is nobody's answer, however much it is."""
    place = adapter.with_name(f"{what}.json")
    command = [sys.executable, "-W", "ignore", str(adapter), what, str(place)]
    ended = run_child(command, Limits(seconds))
    if ended.returncode or not place.is_file():
        return None, ended.death
    return json.loads(place.read_text()), ""


def _request(
    case: Mapping[str, Any], adapter: Path, contract: Mapping[str, Any], seed: int, folder: Path
) -> dict[str, Any]:
    source = f"{adapter}:factory"
    settings = case["settings"]
    return {
        "source": source,
        "subject": {"kind": "compiled", "source": source, "settings": settings, **case["compile"]},
        "mode": "training" if case["grads"] else "inference",
        "level": "quick",
        "contract": _with_stream(contract, settings),
        "folder": str(folder / "run"),
        "seed": seed,
        "sequence": f"{adapter}:sequence" if case["sequence"] else "",
        "between": f"{adapter}:between" if case["between"] else "",
    }


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
    found, death = _answer(adapter, "findings", _SECONDS)
    if death or any(len(item) < _PARTS for item in found):
        why = death or f"findings of fewer than {_PARTS} parts"
        return Judged(name, Outcome.UNDECIDED, (), f"its own check ended with {why}", told)
    families = tuple(dict.fromkeys(_OF_ASPECT.get(_head(item[2]), _VALUES)[0] for item in found))
    outcome = Outcome.CONFORMANCE_FAILURE if found else Outcome.ADMITTED
    return Judged(name, outcome, families, " | ".join(" ".join(item[1:]) for item in found), told)
