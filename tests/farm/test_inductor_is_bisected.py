"""A sweep under Inductor with a wrong post-grad pass: it is found among all of Inductor's own sites, and shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tensorfarm.bisect.result import Result, Status
from tensorfarm.contract import events as e
from tensorfarm.farm.app.bisection import BisectionDesk
from tensorfarm.farm.pipeline.bisection import Found
from tensorfarm.farm.pipeline.commands import RunReproduce
from tensorfarm.farm.pipeline.plan import Cell, PlannedProgram
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout

EXAMPLES = Path(__file__).parents[2] / "examples"
WRONG = "inductor{post_grad=inductor_planted.subtract_instead}"
PROGRAM = """
import torch

class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x):
        hidden = self.norm(x)
        return torch.tanh(hidden + self.down(torch.nn.functional.gelu(self.up(hidden))))

def residual():
    torch.manual_seed(0)
    return Residual(), (torch.randn(4, 8, generator=torch.Generator().manual_seed(1)),)
"""
SWEEP = """
sweep: wrong_post_grad
contract: float32.yaml
python_path: [., {examples}]
mode: {mode}
pipelines: ["{pipeline}"]
programs:
  - module: small_residual:residual
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["training", "inference"])
def test_a_wrong_post_grad_pass_is_found_and_its_script_was_seen_to_fail_and_to_pass(farm: Any, mode: str) -> None:
    farm.write("small_residual.py", PROGRAM)
    config = farm.write("wrong.yaml", SWEEP.format(examples=EXAMPLES, mode=mode, pipeline=WRONG))
    done = farm.sweep(config)
    assert done.returncode == 13, done.stderr
    (finished,) = farm.query("select payload from events where type = 'BisectionFinished'")
    found = json.loads(finished["payload"])
    assert (found["status"], found["pass_name"]) == ("confirmed", "post_grad_custom_post_pass"), found
    assert found["nodes"]
    assert found["reproduced"], found
    (site,) = farm.query(
        "select attributes['told'] as told, attributes['subsystem'] as subsystem, attributes['custom'] as custom"
        f" from manifests where kind = 'site' and attributes['ordinal'] = '{found['site_index']}'"
    )
    expected = ("post_grad_custom_post_pass", "post_grad_passes", "inductor_planted.subtract_instead")
    assert (site["told"], site["subsystem"], site["custom"]) == expected


GELU = "<OpOverload(op='aten.gelu', overload='default')>"


@pytest.fixture
def desk(tmp_path: Path) -> BisectionDesk:
    """Of a store with two candidates that have a site 1 each: one of Inductor's, one of a pass of ours."""
    layout = StoreLayout(tmp_path / "store").create()
    asked = {"subsystem": "decomposition", "told": GELU, "occurrence": "4", "nodes": "", "ordinal": "1"}
    ours = {"index": "0", "nodes": "mul,x", "ordinal": "1"}
    journal = Journal(layout, claim_writer(layout))
    for candidate, name, attributes in (("theirs", "aten.gelu.default", asked), ("ours", "cse", ours)):
        row = {"kind": "site", "name": name, "site": "5e", "decision": "applied", "attributes": attributes}
        compiled = e.CandidateCompiled("s", f"p/{name}", candidate, "h", candidate, 1, "u", 1.0, (row,))
        journal.append([e.recorded(compiled, ts_us=1_780_000_000_000_000)])
    journal.close()
    return BisectionDesk("s", layout)


@pytest.mark.parametrize(
    ("candidate", "asked", "nodes"),
    [
        ("theirs", {"subsystem": "decomposition", "told": GELU, "occurrence": "4"}, []),
        ("ours", {}, ["mul", "x"]),
    ],
)
def test_who_writes_the_script_is_told_how_inductor_asks_for_the_culprit(
    desk: BisectionDesk, candidate: str, asked: dict[str, str], nodes: list[str]
) -> None:
    failure = json.dumps({"finding": {"what": "output 0"}})
    found = Found("b", failure, Result(Status.CONFIRMED, 1, 1, 1, 3, 6))
    request = desk.script_request(
        RunReproduce(Cell(PlannedProgram("p", "m:p", "training", ("q",)), "q"), candidate, "sha", found)
    )
    assert (request["ordinal"], request["asked"], request["nodes"]) == (1, asked, nodes)
