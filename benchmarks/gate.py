"""The proof of the gate: what it finds, what it calls wrong, what others say of the same, how small, and at what cost.

Every kind of fault is planted in all programs that have a place for it, up to a number, and honest variants are judged
beside them, at the full level with every family run. A sample of both is judged with 20 seeds. The reports that
reproduce here are judged as ``torch.compile`` leaves them. ``--cases DIR`` judges a folder of such files and nothing
else: one line a case, exit code 1 where the folder's README says otherwise. ``--quick`` is a sample of each part.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gate_cases
import gate_cost
import gate_limits
import gate_rivals
import gate_score
from gate_population import SOURCES, captured
from gate_verdicts import Bench, Job, Row, activities, changed_by_seed, jobs_of, spread, verdicts
from report import Goal, finish

from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.faults.catalogue import faults, honest
from tensorfarm.gate.library import contract_fields

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT.parent / "shared" / "cases"
PARTS = ("population", "cases", "cost")


@dataclass(frozen=True)
class Extent:
    """How much is done. So many places of a kind in a program; of each kind at most ``mutants`` and ``variants``, of
    all together at most ``total``; ``seeds`` each for ``members`` of either sort; every so many-th case. ``least`` are
    the goals' kinds, programs and trials."""

    sources: tuple[str, ...]
    mutant_places: int
    mutants: int
    honest_places: int
    variants: int
    members: int
    seeds: int
    total: int
    each_case: int
    least: tuple[int, int, int]


FULL = Extent(SOURCES, 2, 10, 2, 15, 4, 20, 1000, 1, (40, 12, 300))
QUICK = Extent(("specimens:square", "specimens:mlp"), 1, 1, 1, 1, 1, 2, 4, 20, (3, 1, 4))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a sample of each part, in about a minute")
    parser.add_argument("--cases", type=Path, metavar="DIR", help="judge the case files of a folder and nothing else")
    parser.add_argument("--part", choices=PARTS, help="this part and nothing else, kept apart")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes side by side")
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # of every child; this process has started none
    if asked.cases:
        try:
            sys.exit(judge_cases(asked.cases, asked.workers))
        except Refusal as refusal:
            print(f"gate: {refusal}", file=sys.stderr)
            sys.exit(refusal.exit_code)
    proven(asked.quick, asked.workers, asked.part)


def judge_cases(folder: Path, workers: int) -> int:
    """One line a case, as they are decided; 1 where a verdict is not what the folder says."""
    wrong = 0
    for judged in gate_cases.judged_cases(folder, fields(), workers=workers):
        print(judged.line(), flush=True)
        wrong += judged.right is False
    return 1 if wrong else 0


def proven(quick: bool, workers: int, part: str | None) -> None:
    extent = QUICK if quick else FULL
    goals: list[Goal] = []
    details: dict[str, Any] = {}
    if part in (None, "population"):
        with tempfile.TemporaryDirectory(prefix="tensorfarm-gate-") as text:
            on_programs(Bench(fields(), Path(text), workers), extent, goals, details)
    if part in (None, "cases"):
        on_cases(extent, workers, goals, details)
    if part in (None, "cost"):
        on_cost(quick, goals, details)
    finish("-".join(["gate", *([part] if part else []), *(["quick"] if quick else [])]), goals, details)


def on_programs(bench: Bench, extent: Extent, goals: list[Goal], details: dict[str, Any]) -> None:
    """The population, what others say of the same tensors, and how small a fault is found."""
    said("capturing programs")
    paths = captured(bench.folder / "programs", extent.sources)
    mutants, variants = on_population(bench, extent, list(paths.values()), goals, details)
    details["rivals"] = rivals(mutants, variants)
    said("detection limits")
    found = gate_limits.limits(bench, paths)
    gate_limits.printed(found)
    goals.append(gate_limits.goal(found, paths))
    details["detection_limits"] = gate_limits.rows(found)


def on_population(
    bench: Bench, extent: Extent, paths: Sequence[Path], goals: list[Goal], details: dict[str, Any]
) -> tuple[list[Row], list[Row]]:
    """Mutants, honest variants, and both again with other seeds."""
    said("activity of mutants")
    planted = spread(jobs_of(paths, faults(), extent.mutant_places), extent.mutants)
    wrong = activities(bench, thinned(planted, extent.total))
    right = thinned(spread(jobs_of(paths, honest(), extent.honest_places), extent.variants), extent.total)
    said(f"{len(wrong.active)} mutants, {len(right)} honest variants")
    # In the order of programs: the oracle of one is then there for the next.
    mutants = verdicts(bench, in_order(wrong.active), "mutants")
    variants = verdicts(bench, in_order(right), "honest variants")
    told(mutants, variants)
    members = [*thinned(wrong.active, extent.members), *thinned(right, extent.members)]
    said(f"{len(members)} members with {extent.seeds} seeds each")
    seeded = verdicts(bench, in_order(with_seeds(members, extent.seeds)), "seeds")
    changed = changed_by_seed(seeded)
    kinds, programs, trials = extent.least
    goals += gate_score.mutation_goals(mutants, kinds, programs)
    goals += gate_score.honest_goals(variants, trials)
    goals.append(Goal(
        f"of {len(members)} members, verdicts that change over {extent.seeds} seeds", "0", len(changed), not changed
    ))  # fmt: skip
    details |= {
        "scores": {
            "by family": [item.row() for item in gate_score.by_family(mutants)],
            "by kind": [item.row() for item in gate_score.by_kind(mutants)],
            "by dtype of the inputs": [item.row() for item in gate_score.by_dtype(mutants)],
        },
        "equivalent": wrong.equivalent,
        "survivors": listed(gate_score.survivors(mutants)),
        "crashes": listed([row for row in mutants if row.died]),
        "false_alarms": listed([row for row in variants if row.alarmed]),
        "honest_not_admitted": listed([row for row in variants if row.outcome != "admitted" and not row.alarmed]),
        "changed_by_seed": changed,
        "mutants": listed(mutants),
        "honest": listed(variants),
    }
    return mutants, variants


def told(mutants: Sequence[Row], variants: Sequence[Row]) -> None:
    gate_score.printed("by family", gate_score.by_family(mutants), alone=True)
    gate_score.printed("by kind", gate_score.by_kind(mutants), alone=False)
    gate_score.printed("by dtype of the inputs", gate_score.by_dtype(mutants), alone=False)
    for word, rows in (
        ("survived", gate_score.survivors(mutants)),
        ("false alarm", [row for row in variants if row.alarmed]),
        ("not admitted", [row for row in variants if row.outcome != "admitted" and not row.alarmed]),
    ):
        for row in rows:
            by = ",".join(row.failed) or "-"
            print(f"{word}: {row.kind} {row.program} [{row.site}] {row.outcome} by {by}: {row.message[:160]}")


def rivals(mutants: Sequence[Row], variants: Sequence[Row]) -> dict[str, dict[str, int]]:
    said("rivals on the same tensors")
    compared = gate_rivals.with_rivals([*mutants, *variants])
    counts = gate_rivals.table(compared[: len(mutants)], compared[len(mutants) :])
    gate_rivals.printed(counts)
    return counts


def on_cases(extent: Extent, workers: int, goals: list[Goal], details: dict[str, Any]) -> None:
    if not CASES.is_dir():
        print(f"no cases: {CASES} is not there", flush=True)
        return
    said("cases")
    found: list[gate_cases.Judged] = []
    for judged in gate_cases.judged_cases(CASES, fields(), workers=workers, each=extent.each_case):
        print(judged.line(), flush=True)
        found.append(judged)
    goals += gate_cases.goals(found)
    details["cases"] = [asdict(judged) for judged in found]


def on_cost(quick: bool, goals: list[Goal], details: dict[str, Any]) -> None:
    said("cost")
    try:
        found, details["cost"] = gate_cost.goals(quick)
    except Refusal as refusal:  # half an hour of verdicts is not lost for it
        found = [Goal(f"cost: {refusal}", "measured", 0, False)]
    goals += found


def thinned(jobs: Sequence[Job], count: int) -> list[Job]:
    """So many, at even distances: neighbours are of one kind, so that kinds and programs are mixed."""
    return [jobs[step * len(jobs) // count] for step in range(count)] if count < len(jobs) else list(jobs)


def with_seeds(members: Sequence[Job], seeds: int) -> list[Job]:
    return [Job(job.path, job.kind, job.number, seed) for job in members for seed in range(seeds)]


def in_order(jobs: Sequence[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: (job.path, job.seed))


def fields() -> dict[str, Any]:
    """The shipped template's, for programs of any dtype."""
    made = contract_fields(None)
    made["numerics"]["dtypes"] = {"inputs": "any", "params": "any", "outputs": "any"}
    return made


def listed(rows: Sequence[Row]) -> list[Mapping[str, Any]]:
    return [{key: value for key, value in asdict(row).items() if key not in ("tensors", "rivals")} for row in rows]


STARTED = time.monotonic()


def said(what: str) -> None:
    print(f"[{time.monotonic() - STARTED:.0f} s] {what}", flush=True)


if __name__ == "__main__":
    main()
