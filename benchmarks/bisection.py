"""Bisection on planted faults: is the culprit right, in how many rounds, and how long against torch's CompilerBisector?

Faults of our own pipeline: one wrong site among 63 of a GPT-2. Faults in Inductor: a user's post-grad pass that spoils
one sum of a small network. All go through ``farm sweep``, which bisects what its gate refuses. Then the same Inductor
fault in an eight-layer BERT is searched by both, turn about: the farm with two workers, and CompilerBisector in one
process. Both begin where a person stands: the wrong compilation has just been done, and its kernels are in the cache.
``--quick`` has one fault of each kind and no race, which takes three minutes a turn.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import Goal, finish

from tensorfarm.contract import events as e
from tensorfarm.farm.app.sweep import SweepRequest, Watch, run_sweep
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WORKERS = 2
LAST_SITE = 62
SWEEP = """\
sweep: {name}
contract: {configs}/contracts/float32.yaml
ir_contract: {configs}/ir_contract.yaml
python_path: ["{examples}", "{rivals}", "{faults}"]
mode: inference
measure: {{pairs: 2}}
bisect: {{width: {width}, most: 64}}
limits: {{compile_seconds: 600, gate_seconds: 600}}
pipelines: [eager]
programs: {programs}
"""
# A post-grad pass that spoils one computed value, counted from the last; its place in the source is all that differs.
FAULT = """\
import torch

def spoil(graph: torch.fx.Graph) -> None:
    computed = [
        node
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
        if [item.op for item in node.all_input_nodes] == ["call_function"] * 2
    ]
    computed[-1 - {nth} % len(computed)].target = torch.ops.aten.sub.Tensor
"""


@dataclass(frozen=True)
class Bisected:
    """One finished bisection; seconds are of the search alone, from the gate's refusal to the last probe."""

    pipeline: str
    finished: e.BisectionFinished
    n_sites: int
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one fault of each kind, and no race")
    quick = parser.parse_args().quick
    runs, turns = (1, 0) if quick else (20, 2)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        faults = write_faults(folder, runs)
        against = [compared(folder, faults, turn) for turn in range(turns)]
        sites = [(7 + 13 * number) % (LAST_SITE + 1) for number in range(runs)]
        programs = {
            "tensorfarm.farm.zoo.language:gpt2": [f"fx:dce,cse,planted:OneWrongSite{{nth={site}}}" for site in sites],
            "programs:residual": [f"inductor{{post_grad=fault_{number}.spoil}}" for number in range(runs)],
        }
        found = swept(folder, faults, "planted", programs)
    ours = [item for item in found if item.pipeline.startswith("fx:")]
    theirs = [item for item in found if item.pipeline.startswith("inductor")]
    report(ours, theirs, against, runs, quick)


def report(
    ours: Sequence[Bisected], theirs: Sequence[Bisected], against: Sequence[Mapping[str, Any]], runs: int, quick: bool
) -> None:
    right_own = sum(is_right_own(item) for item in ours)
    right_inductor = sum(is_right_inductor(item) for item in theirs)
    slack = [item.finished.rounds - logarithm(item.n_sites) for item in (*ours, *theirs)]
    goals = [
        Goal("culprit right, one wrong site of our pipeline", f"{runs} of {runs}", right_own, right_own == runs),
        Goal("culprit right, post-grad fault in Inductor", f"{runs} of {runs}", right_inductor, right_inductor == runs),
        Goal("rounds beyond log_3 of the sites, worst", "<= 3", max(slack, default=99), max(slack, default=99) <= 3),
    ]
    if against:
        ratio = sum(turn["ours"] for turn in against) / sum(turn["torch"] for turn in against)
        goals.append(Goal("search against CompilerBisector, wall ratio", "<= 0.75", ratio, ratio <= 0.75))
    told = [
        {"pipeline": item.pipeline, "sites": item.n_sites, "seconds": item.seconds, **vars(item.finished)}
        for item in (*ours, *theirs)
    ]
    finish("bisection-quick" if quick else "bisection", goals, {"against": list(against), "bisections": told})


def is_right_own(item: Bisected) -> bool:
    nth = int(item.pipeline.partition("nth=")[2].rstrip("}"))
    found = item.finished
    return (found.status, found.pass_name) == ("confirmed", "one-wrong-site") and f"site {nth} at" in found.message


def is_right_inductor(item: Bisected) -> bool:
    return (item.finished.status, item.finished.pass_name) == ("confirmed", "post_grad_custom_post_pass")


def logarithm(n_sites: int) -> int:
    """The least r with (workers + 1) ** r >= n_sites."""
    return next(r for r in range(64) if (WORKERS + 1) ** r >= n_sites)


def write_faults(folder: Path, count: int) -> Path:
    faults = folder / "faults"
    faults.mkdir()
    for number in range(count):
        (faults / f"fault_{number}.py").write_text(FAULT.format(nth=number))
    return faults


def swept(folder: Path, faults: Path, name: str, programs: Mapping[str, Sequence[str]]) -> list[Bisected]:
    """One sweep of modules by pipelines, all of whose cells are refused and bisected; the events of its bisections."""
    config = folder / f"{name}.yaml"
    config.write_text(
        SWEEP.format(
            name=name,
            configs=ROOT / "configs",
            examples=ROOT / "examples",
            rivals=HERE / "rivals",
            faults=faults,
            width=WORKERS,
            programs=json.dumps([{"module": module, "pipelines": list(of)} for module, of in programs.items()]),
        )
    )
    started, ended = dict[str, tuple[float, int]](), dict[str, float]()
    found: list[Bisected] = []

    def saw(event: e.Event) -> None:
        if isinstance(event, e.BisectionStarted):
            started[event.subject] = (time.monotonic(), event.n_sites)
        elif isinstance(event, e.ProbeDecided):
            ended[event.subject] = time.monotonic()
        elif isinstance(event, e.BisectionFinished):
            since, n_sites = started[event.subject]
            pipeline = event.subject.partition("/")[2]
            found.append(Bisected(pipeline, event, n_sites, ended[event.subject] - since))
            print(f"{event.subject}: {event.status}: {event.message}", flush=True)

    run_sweep(SweepRequest(folder / f"store-{name}", config), Watch(saw=saw))
    return found


def compared(folder: Path, faults: Path, turn: int) -> dict[str, Any]:
    """The same fault, searched by the farm and by torch, each after a compilation of its own into an empty cache."""
    with environment("TENSORFARM_BUILD_ROOT", str(folder / f"builds-{turn}")):
        bisected = swept(folder, faults, f"race-{turn}", {"programs:deep_bert": ["inductor{post_grad=fault_0.spoil}"]})
    layout = StoreLayout(folder / f"store-race-{turn}")
    with Reader(layout) as reader:
        sha256 = reader.query("select payload ->> 'program_sha256' from events where type = 'ProgramCaptured'")
    program = sha256.to_pylist()[0].popitem()[1]
    answer = subprocess.run(
        [sys.executable, str(HERE / "rivals" / "compiler_bisector.py"), str(layout.programs / f"{program}.program"),
         program, "fault_0.spoil"],
        env={**os.environ, "PYTHONPATH": str(faults), "TORCHINDUCTOR_CACHE_DIR": str(folder / f"torch-{turn}")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rival = json.loads(answer.stdout.splitlines()[-1])
    found = bisected[0]
    print(f"search: farm {found.seconds:.1f} s, CompilerBisector {rival['seconds']:.1f} s", flush=True)
    return {
        "ours": found.seconds,
        "torch": rival["seconds"],
        "sites": found.n_sites,
        "rounds": found.finished.rounds,
        "probes": found.finished.probes,
        "message": found.finished.message,
        "rival": rival,
    }


@contextlib.contextmanager
def environment(name: str, value: str) -> Generator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


if __name__ == "__main__":
    main()
