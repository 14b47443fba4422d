"""``farm contract`` as a person uses it: real files, a real git repository, a real store."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tensorfarm.contract import events as e
from tensorfarm.contract.numerics import read_contract
from tensorfarm.farm.cli import run
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout

CONTRACTS = Path(__file__).parents[2] / "configs" / "contracts"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """``farm contract …`` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> Done:
        capsys.readouterr()
        code = run(["contract", *arguments])
        told = capsys.readouterr()
        assert "Traceback" not in told.out + told.err
        return Done(code, told.out, told.err)

    return command


class History:
    """A git repository whose commits are days apart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "-q", ".")

    def git(self, *arguments: str, day: int = 0) -> None:
        when = (BEGAN + timedelta(days=day)).isoformat()
        identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        subprocess.run(["git", *arguments], cwd=self.folder, env=os.environ | identity | dates, check=True)

    def commit(self, day: int, **others: str) -> None:
        """Commit all there is; ``others`` are files to write first."""
        for name, text in others.items():
            (self.folder / name.replace("_py", ".py")).write_text(text)
        self.git("add", "-A", day=day)
        self.git("commit", "-q", "-m", f"day {day}", day=day)


@pytest.fixture
def history(tmp_path: Path) -> History:
    shutil.copy(CONTRACTS / "float32.yaml", tmp_path / "c.yaml")
    return History(tmp_path)


def write(place: Path, **changes: Any) -> None:
    """Change fields of a contract; ``budgets__outputs__c`` is the path."""
    fields = yaml.safe_load(place.read_text())
    for path, value in changes.items():
        *parents, last = path.split("__")
        inner = fields
        for parent in parents:
            inner = inner[parent]
        inner[last] = value
    place.write_text(yaml.safe_dump(fields, sort_keys=False))


def refused(done: Done, *words: str) -> None:
    assert done.code == 2
    assert done.err.startswith("farm: ")
    assert done.err.count("\n") == 1
    for word in words:
        assert word in done.err


def alarms(done: Done) -> set[tuple[str, str]]:
    assert done.code in (0, 4)
    found = {(alarm["rule"], alarm["path"]) for item in done.json for alarm in item["drift"]["alarms"]}
    assert done.code == (4 if found else 0)
    return found


def test_a_new_contract_is_whole_commented_and_never_overwritten(contract: Callable[..., Done], tmp_path: Path) -> None:
    assert contract("init").code == 0
    text = (tmp_path / "contract.yaml").read_text()
    assert read_contract(tmp_path / "contract.yaml").id == "contract"
    assert text.count("#") > 40
    refused(contract("init"), "contract.yaml is there already", "--force")
    assert contract("init", "--dtype", "bfloat16", "--force").code == 0
    assert read_contract(tmp_path / "contract.yaml").dtypes.outputs == "bfloat16"


def test_a_contract_for_a_program_takes_its_dtypes_and_its_batch(contract: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "mine_for_a_contract.py").write_text(
        "import torch\n"
        "class Mixed(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.inner = torch.nn.Linear(3, 2).to(torch.bfloat16)\n"
        "    def forward(self, x, index):\n"
        "        return self.inner(x[index]), x.float()\n"
        "def mixed():\n"
        "    return Mixed(), (torch.ones(5, 3, dtype=torch.bfloat16), torch.arange(5))\n"
        "def broken():\n"
        "    return Mixed(), (torch.ones(5, 4, dtype=torch.bfloat16), torch.arange(5))\n"
    )
    assert contract("init", "--program", "mine_for_a_contract:mixed", "-o", "mixed.yaml").code == 0
    made = read_contract(tmp_path / "mixed.yaml")
    assert (made.dtypes.inputs, made.dtypes.params, made.dtypes.outputs) == ("bfloat16", "bfloat16", "any")
    assert made.shapes.declared_dynamic == ("B",)
    assert 5 in made.shapes.batch
    assert made.exact_integer_bits == 8
    refused(contract("init", "--program", "mine_for_a_contract:broken", "-o", "b.yaml"), "raised RuntimeError")
    refused(contract("init", "--program", "mine_for_a_contract:nothing", "-o", "b.yaml"), "no function 'nothing'")
    assert not (tmp_path / "b.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--dtype", "float8"), "no contract is written for dtype float8"),
        (("-o", "nowhere/c.yaml"), "cannot be written: No such file"),
        (("--dtype", "float32", "--program", "a:b"), "both say the dtypes"),
        (("--program", "model.pt2"), "is an exported program"),
        (("--program", "nomodule_here:x"), "no module named 'nomodule_here'"),
    ],
)
def test_what_init_cannot_do_is_refused(contract: Callable[..., Done], arguments: tuple[str, ...], says: str) -> None:
    refused(contract("init", *arguments), says)


def test_every_shipped_contract_is_valid(contract: Callable[..., Done]) -> None:
    files = sorted(map(str, CONTRACTS.glob("*.yaml")))
    done = contract("check", "--json", *files)
    assert done.code == 0
    assert len({item["hash"] for item in done.json}) == len(files) >= 4


def test_check_says_of_each_file_what_is_wrong(contract: Callable[..., Done], tmp_path: Path) -> None:
    shutil.copy(CONTRACTS / "float32.yaml", tmp_path / "good.yaml")
    (tmp_path / "bad.yaml").write_text((tmp_path / "good.yaml").read_text().replace("gradgrad:", "gradgrd:"))
    done = contract("check", "bad.yaml", "good.yaml", "absent.yaml")
    assert done.code == 2
    assert done.out.startswith("good.yaml: float32 version 1, hash ")
    assert [line.split(":")[1].strip() for line in done.err.splitlines()] == [
        "bad.yaml",
        "contract absent.yaml cannot be read",
    ]
    assert 'did you mean "gradgrad"?' in done.err


ENTRY = {
    "field": "budgets.outputs.c",
    "from": 4,
    "to": 6,
    "justification": "the reference rounds twice",
    "issue_link": "issues/9",
    "cause_class": "new_hardware_order",
    "evidence": {"noise_histogram": "noise.json"},
    "second_reviewer": "b",
    "expires": "2999-01-01",
}


def test_a_widening_is_refused_until_it_is_justified(contract: Callable[..., Done], history: History) -> None:
    old, new = history.folder / "c.yaml", history.folder / "d.yaml"
    shutil.copy(old, new)
    assert contract("diff", "c.yaml", "d.yaml").code == 0
    write(new, budgets__outputs__c=6, budgets__outputs__k=9)
    refused(contract("diff", "c.yaml", "d.yaml"), "budgets.outputs.c widens from 4 to 6", "governance.widenings")
    write(new, governance__widenings=[ENTRY])
    refused(contract("diff", "c.yaml", "d.yaml"), "evidence noise.json is not there")
    (history.folder / "noise.json").write_text("{}")
    done = contract("diff", "c.yaml", "d.yaml", "--json")
    assert done.code == 3
    changed = {item["path"]: item["change"] for item in done.json["fields"] if item["change"] != "equal"}
    assert changed == {"budgets.outputs.c": "widens", "budgets.outputs.k": "tightens"}
    assert contract("diff", "d.yaml", "c.yaml").code == 2, "the way back widens k"
    write(new, governance__widenings=[ENTRY | {"expires": "2026-01-01"}])
    refused(contract("diff", "c.yaml", "d.yaml"), "expired on 2026-01-01")
    refused(contract("check", "d.yaml"), "expired on 2026-01-01")


def test_the_table_of_a_diff_names_field_change_and_values(contract: Callable[..., Done], history: History) -> None:
    shutil.copy(history.folder / "c.yaml", history.folder / "d.yaml")
    write(history.folder / "d.yaml", budgets__outputs__c=2, devices=["cuda"])
    done = contract("diff", "c.yaml", "d.yaml")
    refused(done, "devices widens from ['cpu'] to ['cuda']")
    lines = [line.split() for line in done.out.splitlines()]
    assert ["budgets.outputs.c", "tightens", "4", "2", "0.5"] in lines
    assert ["devices", "changes", "(drops", "some)", "cpu", "cuda"] in lines


def test_a_contract_that_never_changed_does_not_drift(contract: Callable[..., Done], history: History) -> None:
    history.commit(0)
    done = contract("drift")
    assert (done.code, done.out) == (0, "c.yaml: 0 widenings since its first commit\nno alarm\n")


def test_creep_is_seen_across_commits_renames_and_gaps(contract: Callable[..., Done], history: History) -> None:
    place = history.folder / "c.yaml"
    history.commit(0)
    write(place, budgets__outputs__c=5)
    history.commit(100)
    history.git("mv", "c.yaml", "moved.yaml")
    history.commit(150)
    place = history.folder / "moved.yaml"
    whole = place.read_text()
    place.write_text("format: [")
    history.commit(200)
    place.write_text(whole)
    write(place, budgets__outputs__c=9)
    history.commit(250)
    done = contract("drift", "moved.yaml", "--json")
    assert alarms(done) == {("product_of_ratios_over", "budgets.outputs.c")}
    (found,) = done.json
    assert [(item["old"], item["new"]) for item in found["drift"]["widenings"]] == [(4, 5), (5, 9)]


@pytest.mark.parametrize(
    ("added", "words"),
    [
        ("notes: [\n", "it is no YAML"),
        ("budgets: {}\n", "the key 'budgets' is given twice"),
        ("a0: &a0 {}\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(60)), "written out"),
    ],
)
def test_a_committed_contract_that_cannot_be_read_is_refused_for_that(
    contract: Callable[..., Done], history: History, added: str, words: str
) -> None:
    with (history.folder / "c.yaml").open("a") as file:
        file.write(added)
    history.commit(0)
    refused(contract("drift"), "contract c.yaml as committed in HEAD", words)
    refused(contract("drift", "c.yaml"), "contract c.yaml as committed in HEAD", words)


def test_taking_a_contract_away_and_bringing_it_back_hides_nothing(
    contract: Callable[..., Done], history: History
) -> None:
    history.commit(0)
    text = (history.folder / "c.yaml").read_text()
    (history.folder / "c.yaml").unlink()
    history.commit(10, other="unrelated")
    (history.folder / "c.yaml").write_text(text)
    write(history.folder / "c.yaml", budgets__outputs__c=9)
    history.commit(20)
    assert alarms(contract("drift", "--json")) == {("product_of_ratios_over", "budgets.outputs.c")}


def test_two_widenings_soon_after_each_other_and_one_with_code_raise_alarms(
    contract: Callable[..., Done], history: History
) -> None:
    history.commit(0)
    write(history.folder / "c.yaml", budgets__outputs__c=5)
    history.commit(10)
    write(history.folder / "c.yaml", numerics__signed_zero="ignore")
    history.commit(40, kernel_py="x = 1\n")
    done = contract("drift")
    assert done.code == 4
    assert "2 commits widened budgets.outputs.c, numerics.signed_zero within 90 days" in done.out
    assert "changed kernel.py" in done.out


def test_an_audit_begins_anew(contract: Callable[..., Done], history: History) -> None:
    history.commit(0)
    write(history.folder / "c.yaml", budgets__outputs__c=9)
    history.commit(10)
    write(history.folder / "c.yaml", governance__audited="2026-01-21")
    history.commit(20)
    assert contract("drift").out.startswith("c.yaml: 0 widenings since the audit of 2026-01-21")
    assert alarms(contract("drift", "--json")) == set()


def test_another_contract_made_from_a_copy_is_no_widening_unless_it_names_its_parent(
    contract: Callable[..., Done], history: History
) -> None:
    history.commit(0)
    shutil.copy(history.folder / "c.yaml", history.folder / "wide.yaml")
    write(history.folder / "wide.yaml", budgets__outputs__c=16, contract__id="wide")
    history.commit(10)
    assert alarms(contract("drift", "--json")) == set()
    shutil.copy(history.folder / "wide.yaml", history.folder / "heir.yaml")
    write(history.folder / "heir.yaml", budgets__outputs__k=90, contract__id="heir", contract__parent="wide")
    history.commit(20)
    assert ("product_of_ratios_over", "budgets.outputs.k") in alarms(contract("drift", "heir.yaml", "--json"))


def test_drift_is_found_from_any_folder_of_the_repository(contract: Callable[..., Done], history: History) -> None:
    inner = history.folder / "deep" / "er"
    inner.mkdir(parents=True)
    shutil.move(history.folder / "c.yaml", inner / "c.yaml")
    history.commit(0)
    assert contract("drift", "deep/er/c.yaml").code == 0
    assert contract("drift", "c.yaml", "--repo", "deep/er").code == 0
    assert "deep/er/c.yaml" in contract("drift", "--repo", "deep").out


def judged(store: Path, hashed: str, over: float, n: int) -> None:
    """A store whose one candidate passed, under a contract, with errors up to ``over`` of their limits."""
    about = {"sweep_id": "s0", "subject": "p/fx"}
    known = {"candidate_id": "k", "semantic_hash": "5e", "program": "p", "backend": "fx", "pipeline": "fx:dce"}
    rest = {"mode": "training", "target": "cpu", "toolchain_id": "t", "contract_id": "c", "dtype": "float32"}
    row = {"what": "output 0", "device": "cpu", "layout": "as_captured", "input_suite": "example", "message": ""}
    numbers = {"digits": 6.5, "worst_index": [0], "worst_expected": 1.0, "worst_seen": 1.0, "limit_abs": 1e-6}
    counts = {"n_elements": 9, "n_bad": 0, "seed": 0, "wall_ns": 1}
    findings = tuple(
        row | numbers | counts | {"check_name": name, "status": "pass", "observed_over_limit": over * item / n}
        for name in ("forward", "gradient", "metadata")
        for item in range(1, n + 1)
    )
    run_of = {"gate_run_id": "g", "artifact_sha256": "a", "gate_version": "1", "attestation": "{}", "seconds": 1.0}
    ended = {"status": "pass", "outcome": "admitted", "outcome_kind": "", "message": ""}
    made = [
        e.CandidateSubmitted(**about, **known, **rest, input_spec_id="i", contract_hash=hashed),
        e.GateDecided(**about, **run_of, **ended, candidate_id="k", findings=findings),
    ]
    layout = StoreLayout(store).create()
    with closing(Journal(layout, claim_writer(layout))) as journal:
        journal.append([e.recorded(event, ts_us=1_700_000_000_000_000, ordinal=1 + i) for i, event in enumerate(made)])


@pytest.mark.parametrize(
    ("over", "n", "budgets"),
    [(0.5, 200, set()), (0.2, 200, {"budgets.outputs", "budgets.gradients"}), (0.2, 20, set())],
)
def test_a_budget_that_nobody_approaches_is_found_in_the_store(
    contract: Callable[..., Done], history: History, over: float, n: int, budgets: set[str]
) -> None:
    history.commit(0)
    store = history.folder / "store"
    judged(store, read_contract(history.folder / "c.yaml").hash, over, n)
    done = contract("drift", "--store", "store", "--json")
    assert alarms(done) == {("budget_over_observed", path) for path in budgets}
    assert {item["n"] for item in done.json[0]["slack"]} == {n}
    assert ("too few" in contract("drift", "--store", "store").out) == (n == 20)


def test_findings_under_another_contract_say_nothing_of_this_one(
    contract: Callable[..., Done], history: History
) -> None:
    history.commit(0)
    judged(history.folder / "store", "another", 0.01, 200)
    done = contract("drift", "--store", "store", "--json")
    assert (alarms(done), done.json[0]["slack"]) == (set(), [])


def test_where_there_is_no_history_drift_says_so_in_one_line(
    contract: Callable[..., Done], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    refused(contract("drift"), "is in no git repository")
    refused(contract("drift", "--repo", "nowhere"), "nowhere is no folder")
    shutil.copy(CONTRACTS / "float32.yaml", tmp_path / "c.yaml")
    history = History(tmp_path)
    refused(contract("drift"), "has no commit")
    history.git("add", "c.yaml")
    history.git("commit", "-q", "-m", "first")
    shutil.copy(tmp_path / "c.yaml", tmp_path / "new.yaml")
    refused(contract("drift", "new.yaml"), "new.yaml is not tracked")
    refused(contract("drift", "absent.yaml"), "absent.yaml is not tracked")
    refused(contract("drift", str(tmp_path_factory.getbasetemp() / "c.yaml")), "is not in the repository")
    refused(contract("drift", "--store", "nostore"), "no store at nostore")
    history.git("mv", "c.yaml", "c.txt")
    history.git("commit", "-q", "-m", "away")
    refused(contract("drift"), "holds no committed contract")
    (tmp_path / "c.txt").write_text("format: tensorfarm.contract/2\n")
    history.git("commit", "-q", "-a", "-m", "broken")
    refused(contract("drift", "c.txt"), "c.txt: the file: 'contract' is a required property")
