"""One sweep over passes that go wrong in every way: each ends as what it is, and the others are not harmed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

FATES = {
    "mlp/fx:dce,cse": ("admitted", ""),
    "mlp/fx:bad_passes:Segfaults": ("compile_failure", "crash"),
    "mlp/fx:bad_passes:Aborts": ("compile_failure", "crash"),
    "mlp/fx:bad_passes:Exits": ("compile_failure", "crash"),
    "mlp/fx:bad_passes:Raises": ("compile_failure", "crash"),
    "mlp/fx:bad_passes:Hangs": ("compile_failure", "timeout"),
    "mlp/fx:bad_passes:EatsMemory": ("compile_failure", "out_of_memory"),
    "mlp/fx:bad_passes:WrongValue": ("conformance_failure", "forward"),
    "mlp/fx:bad_passes:InventsANode": ("semantic_drift", "topology"),
    "mlp/fx:bad_passes:DropsAnOutput": ("semantic_drift", "outputs"),
    "mlp/fx:bad_passes:EditsAWeight": ("semantic_drift", "weights"),
    "mlp/fx:bad_passes:BreaksTheGraph": ("structural_rejection", ""),
    "branches/fx:dce": ("structural_rejection", ""),
    "crashes/fx:dce": ("compile_failure", "crash"),
}


@pytest.fixture(scope="module")
def fates(new_farm: Callable[[], Any]) -> Any:
    farm = new_farm()
    return farm, farm.sweep("fates.yaml")


def cells(farm: Any) -> dict[str, dict[str, Any]]:
    return {row["subject"]: row for row in farm.report()}


def test_every_candidate_ends_as_exactly_what_it_is(fates: Any) -> None:
    farm, done = fates
    seen = {name: (row["outcome"], row["outcome_kind"] or "") for name, row in cells(farm).items()}
    assert seen == FATES, done.stderr


def test_the_exit_code_is_the_most_severe_outcomes(fates: Any) -> None:
    assert fates[1].returncode == 12
    assert "Traceback" not in fates[1].stderr


def test_a_wrong_value_is_named_with_element_error_and_budget(fates: Any) -> None:
    farm, _ = fates
    message = cells(farm)["mlp/fx:bad_passes:WrongValue"]["message"]
    assert "expected" in message
    assert "seen" in message
    assert "limit" in message
    assert "[" in message
    worst = farm.query("select * from verdicts where status = 'fail' and check_name = 'forward'")
    assert worst[0]["worst_index"]
    assert worst[0]["observed_over_limit"] > 1
    assert worst[0]["n_bad"] > 0


def test_only_what_the_gate_passed_is_in_the_artifact_cache(fates: Any) -> None:
    farm, _ = fates
    admitted = cells(farm)["mlp/fx:dce,cse"]["artifact_sha256"]
    files = [path for path in (farm.store / "artifacts").iterdir() if path.suffix == ".artifact"]
    assert [path.stem for path in files] == [admitted]
    assert hashlib.sha256(files[0].read_bytes()).hexdigest() == admitted


def test_verdict_cache_entry_and_measurement_carry_one_artifact_hash(fates: Any) -> None:
    farm, _ = fates
    admitted = cells(farm)["mlp/fx:dce,cse"]["artifact_sha256"]
    candidate = cells(farm)["mlp/fx:dce,cse"]["candidate_id"]
    for table, column in (
        ("verdicts", "artifact_sha256"),
        ("artifacts", "sha256"),
        ("measurements", "artifact_sha256"),
    ):
        rows = farm.query(f"select distinct {column} as sha256 from {table} where candidate_id = '{candidate}'")
        assert [row["sha256"] for row in rows] == [admitted], table


def test_the_manifest_tells_of_every_pass_and_site(fates: Any) -> None:
    farm, _ = fates
    candidate = cells(farm)["mlp/fx:bad_passes:WrongValue"]["candidate_id"]
    rows = farm.query(f"select kind, name, decision from manifests where candidate_id = '{candidate}' order by ordinal")
    assert {"kind": "site", "name": "wrong-value", "decision": "applied"} in rows
    assert any(row["kind"] == "pass" for row in rows)


def test_a_second_sweep_is_answered_from_the_cache_and_blames_the_same(fates: Any) -> None:
    farm, _ = fates
    config = farm.write("again.yaml", (farm.folder / "two.yaml").read_text())
    done = farm.sweep(config)
    again = cells(farm)
    assert done.returncode == 13, done.stderr
    assert again["mlp/fx:dce,cse"]["cached"]
    assert again["mlp/fx:dce,cse"]["compile_seconds"] is None
    assert again["mlp/fx:bad_passes:WrongValue"]["outcome"] == "conformance_failure"
    assert not again["wide_mlp/fx:dce,cse"]["cached"]


def test_an_altered_artifact_is_quarantined_and_compiled_again(fates: Any) -> None:
    farm, _ = fates
    admitted = cells(farm)["mlp/fx:dce,cse"]["artifact_sha256"]
    place = farm.store / "artifacts" / f"{admitted}.artifact"
    place.write_bytes(place.read_bytes()[:-1] + b"!")
    done = farm.sweep("two.yaml")
    row = cells(farm)["mlp/fx:dce,cse"]
    assert done.returncode == 13, done.stderr
    assert not row["cached"]
    assert row["outcome"] == "admitted"
    assert row["artifact_sha256"] == admitted
    assert hashlib.sha256(place.read_bytes()).hexdigest() == admitted


def test_nothing_that_a_gate_run_laid_down_is_left_in_the_store(fates: Any) -> None:
    farm, _ = fates
    assert list((farm.store / "work").iterdir()) == []
