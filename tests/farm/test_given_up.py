"""What could not be measured or searched to its end says so itself, and claims nothing else."""

import json
import math
from pathlib import Path

import yaml

from tensorfarm.bisect.result import Result, Status
from tensorfarm.bisect.search import Search
from tensorfarm.contract import events as e
from tensorfarm.contract.switches import Switches
from tensorfarm.farm.app.bisection import BisectionDesk
from tensorfarm.farm.app.results import event_of
from tensorfarm.farm.app.sweep_file import SweepConfig, read_sweep_file
from tensorfarm.farm.engine.job import JobResult, StepOutcome
from tensorfarm.farm.pipeline import commands as c
from tensorfarm.farm.pipeline.bisection import UNSTEADY, Bisection, Found, failure_of
from tensorfarm.farm.pipeline.plan import PlannedProgram
from tensorfarm.farm.store.layout import StoreLayout

CONTRACT = Path(__file__).parents[2] / "configs" / "contracts" / "float32.yaml"
(CELL,) = PlannedProgram("mlp", "models:mlp", "inference", ("fx:dce",)).cells()


def config(tmp_path: Path) -> SweepConfig:
    value = {
        "sweep": "one",
        "contract": str(CONTRACT),
        "pipelines": ["fx:dce"],
        "programs": [{"module": "models:mlp"}],
        "measure": {"threshold": 0.25},
    }
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(value))
    return read_sweep_file(tmp_path / "one.yaml")


def test_a_comparison_that_did_not_come_about_is_inconclusive_at_its_own_threshold(tmp_path: Path) -> None:
    command = c.RunCompare(CELL, "candidate", "program", "new", "last_accepted", "old")
    dead = JobResult("compare", (StepOutcome("died", kind="timeout", message="took too long"),), "n0")
    event = event_of("s1", command, dead, config(tmp_path))
    assert isinstance(event, e.Compared)
    assert (event.metric, event.verdict, event.threshold) == ("step_seconds", "inconclusive", 0.25)
    assert (event.ratio_lower, event.ratio_upper, event.smallest_detectable) == (0.0, math.inf, math.inf)
    assert math.isnan(event.ratio)
    assert event.message == "not compared: took too long"


def test_a_search_that_was_given_up_says_why_and_not_what_it_might_have_found(tmp_path: Path) -> None:
    desk = BisectionDesk("s1", StoreLayout(tmp_path / "store").create())
    found = Found("b1", json.dumps({"finding": None}), Result(Status.UNDECIDED, None, 0, 8, 2, 3))
    event = desk.finished(c.FinishBisection(CELL, "candidate", found, "nodes died 3 times"))
    assert event.message == "given up after 3 probes: nodes died 3 times"
    assert "fails in another way" in desk.finished(c.FinishBisection(CELL, "candidate", found)).message


def probed(tmp_path: Path, *outcomes: StepOutcome) -> e.ProbeDecided:
    switches = Switches(4)
    command = c.RunProbe(CELL, "candidate", "program", "hash", "b1", FAILURE, 0, 1, switches)
    event = event_of("s1", command, JobResult("probe", outcomes, "n0"), config(tmp_path))
    assert isinstance(event, e.ProbeDecided)
    return event


FAILED = {"status": "fail", "outcome": "conformance_failure", "outcome_kind": "forward", "message": "off"}
FINDINGS = [{"check_name": "forward", "status": "fail"}]
FAILURE = failure_of("conformance_failure", "forward", FINDINGS)


def test_a_probe_that_comes_out_differently_when_built_again_ends_the_search_as_flaky(tmp_path: Path) -> None:
    judged = StepOutcome("completed", {**FAILED, "findings": FINDINGS})
    assert probed(tmp_path, StepOutcome("completed", {"steady": True}), judged).outcome == "bad"
    event = probed(tmp_path, StepOutcome("completed", {"steady": False}), judged)
    assert event.outcome == UNSTEADY
    bisection = Bisection("b1", FAILURE, Search(9, 2, known_bad=True))
    bisection.told("none", "good")
    bisection.told(event.probe, event.outcome)
    assert bisection.found is not None
    assert (bisection.found.result.status, bisection.found.result.culprit) == (Status.FLAKY, None)


def test_a_script_that_does_not_show_the_culprit_leaves_it_unconfirmed(tmp_path: Path) -> None:
    layout = StoreLayout(tmp_path / "store").create()
    found = Found("b1", FAILURE, Result(Status.CONFIRMED, 4, 4, 4, 3, 6))
    command = c.RunReproduce(CELL, "candidate", "program", found)
    script = str(layout.root / "reproducers" / "b1" / "reproducer.py")
    told = {"reproducer": script, "reproduced": False, "message": "it agrees with the culprit on"}
    event = BisectionDesk("s1", layout).reproduced(command, told)
    assert (event.status, event.reproducer) == (Status.UNDECIDED, "reproducers/b1/reproducer.py")
    assert "does not show it" in event.message
    shown = BisectionDesk("s1", layout).reproduced(command, {**told, "reproduced": True})
    assert shown.status == Status.CONFIRMED
