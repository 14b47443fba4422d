"""A widening is justified whole, for that very change, or it is refused for the one thing that is missing."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.contract.contract_drafts import FLOAT32, changed, entry

from tensorfarm.contract.contract_diff import compared
from tensorfarm.contract.contract_widening import Lack, lacks_of_changes, lacks_of_entries
from tensorfarm.contract.numerics import validated
from tensorfarm.contract.refusal import Refusal

TODAY = date(2026, 6, 1)
C = "budgets.outputs.c"


def widened(*entries: dict[str, Any]) -> dict[str, Any]:
    return validated(changed({C: 8, "governance.widenings": list(entries)}))


def lacks(folder: Path, *entries: dict[str, Any]) -> list[Lack]:
    fields = widened(*entries)
    return lacks_of_changes(compared(FLOAT32, fields), fields, folder, TODAY)


def test_a_whole_justification_is_enough(tmp_path: Path) -> None:
    assert lacks(tmp_path, entry(C, 4, 8)) == []


def test_a_widening_without_an_entry_is_refused(tmp_path: Path) -> None:
    (lack,) = lacks(tmp_path)
    assert lack.fact == "widens from 4 to 8 and nothing justifies it"
    assert "governance.widenings" in lack.next_step


@pytest.mark.parametrize("of", [("budgets.outputs.k", 4, 8), ("budgets.gradients.c", 4, 8)])
def test_the_entry_of_another_field_justifies_nothing(tmp_path: Path, of: tuple[str, int, int]) -> None:
    (lack,) = lacks(tmp_path, entry(*of))
    assert lack.path == C


@pytest.mark.parametrize(("old", "new"), [(2, 8), (4, 6), (8, 4)])
def test_the_entry_of_another_step_justifies_nothing(tmp_path: Path, old: int, new: int) -> None:
    (lack,) = lacks(tmp_path, entry(C, old, new))
    assert lack.fact == f"widens from 4 to 8; its entry is for from {old} to {new}"


@pytest.mark.parametrize("expires", ["2026-06-01", "2026-05-31", "1999-01-01"])
def test_an_expired_justification_is_refused(tmp_path: Path, expires: str) -> None:
    (lack,) = lacks(tmp_path, entry(C, 4, 8, expires=expires))
    assert lack.fact == f"its widening expired on {expires}"


def test_the_author_is_no_second_reviewer(tmp_path: Path) -> None:
    (lack,) = lacks(tmp_path, entry(C, 4, 8, second_reviewer=" Maintainers "))
    assert "second_reviewer is the author" in lack.fact


def test_evidence_that_is_not_there_is_refused(tmp_path: Path) -> None:
    told = entry(C, 4, 8, evidence={"noise_histogram": "noise.json"})
    (absent,) = lacks(tmp_path, told)
    (tmp_path / "noise.json").touch()
    (empty,) = lacks(tmp_path, told)
    assert absent.fact == empty.fact == "its evidence noise.json is not there or empty"
    (tmp_path / "noise.json").write_text("[1]")
    assert lacks(tmp_path, told) == []


@pytest.mark.parametrize("missing", sorted(entry(C, 4, 8)))
def test_an_entry_that_leaves_something_out_is_refused_by_its_name(missing: str) -> None:
    told = entry(C, 4, 8)
    del told[missing]
    with pytest.raises(Refusal, match=f"governance.widenings.0: '{missing}' is a required property"):
        widened(told)


@pytest.mark.parametrize(
    ("others", "says"),
    [
        ({"cause_class": "new_hardware_orders"}, 'did you mean "new_hardware_order"'),
        ({"cause_class": "it_failed"}, "is not one of"),
        ({"evidence": {}}, r"non-empty .known here: noise_histogram, mutation_score"),
        ({"evidence": {"mutation_score": {"before": 1.0, "after": 1.5}}}, "maximum"),
        ({"evidence": {"histogram": "a"}}, "noise_histogram"),
        ({"second_reviewer": " "}, "does not match"),
        ({"expires": "never"}, "does not match"),
        ({"expires": "2027-02-29"}, "there is no day 2027-02-29"),
        ({"reviewed": True}, "was unexpected"),
    ],
)
def test_an_entry_with_a_wrong_part_is_refused(others: dict[str, Any], says: str) -> None:
    with pytest.raises(Refusal, match=says) as refused:
        widened(entry(C, 4, 8, **others))
    assert "\n" not in str(refused.value)


def test_a_contract_by_itself_shows_what_expired_and_what_is_no_field(tmp_path: Path) -> None:
    stale, misspelt = entry(C, 4, 8, expires="2026-01-01"), entry("budgets.output.c", 4, 8)
    found = lacks_of_entries(widened(stale, misspelt), tmp_path, TODAY)
    assert [lack.fact for lack in found] == [
        "its widening expired on 2026-01-01",
        "is no field of a contract, yet an entry justifies its widening",
    ]
    assert found[1].next_step == f'did you mean "{C}"?'


def test_the_entry_of_a_widening_that_was_taken_back_may_stay(tmp_path: Path) -> None:
    assert lacks_of_entries(widened(entry(C, 4, 6, expires="2026-01-01")), tmp_path, TODAY) == []
