"""``farm calibrate`` over a store: which measurements become samples, and what is refused."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tensorfarm.contract import events as e
from tensorfarm.contract.graph import Graph
from tensorfarm.contract.refusal import Refusal
from tensorfarm.cost_model.features import features_of_lowered, features_of_program
from tensorfarm.cost_model.peaks import Peaks
from tensorfarm.farm.app.calibration import calibrate, read_samples
from tensorfarm.farm.app.kept_model import newest_model
from tensorfarm.farm.cli import run
from tensorfarm.farm.engine.toolchain import this_toolchain
from tensorfarm.farm.store.journal import Journal, claim_writer
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader

TARGET = this_toolchain().target


def told(store: Path, events: Sequence[e.Event]) -> StoreLayout:
    layout = StoreLayout(store).create()
    with closing(Journal(layout, claim_writer(layout))) as journal:
        journal.append([e.recorded(event, ts_us=time.time_ns() // 1000) for event in events])
    return layout


def measured_cell(graph: Graph, number: int, target: str = TARGET) -> list[e.Event]:
    """A program that was captured, compiled by fx and measured, in training mode."""
    sweep, cell, candidate, program = f"s{number}", f"p{number}/fx:dce", f"candidate{number}", f"hash{number}"
    step = {"metric": "step_seconds", "unit": "s", "device": "cpu", "warm": True, "samples": [0.1]}
    rows = tuple(
        {**step, "variant": variant, "p10": seconds, "p50": seconds, "p90": seconds}
        for variant, seconds in (("eager", 0.002 + number / 1e4), ("candidate", 0.001 + number / 1e4))
    )
    captured = features_of_program(graph, "training")
    lowered = features_of_lowered(graph, "training", number)
    return [
        e.ProgramCaptured(sweep, f"p{number}", "m:f", program, "spec", "f" * 64, "float32", 3, 4, 0.1, "n", captured),
        e.CandidateSubmitted(
            sweep, cell, candidate, f"p{number}", program, "spec", "training", "fx", "fx:dce", target, "t", "c", "h", ""
        ),
        e.CandidateCompiled(sweep, cell, candidate, program, "a" * 64, 1, "", 0.5, (), "n", 0, lowered),
        e.Measured(sweep, cell, candidate, "a" * 64, 1.0, rows, "n"),
    ]  # fmt: skip


def test_measurements_become_samples_with_the_features_of_what_ran(tmp_path: Path, layer: Callable[..., Graph]) -> None:
    cells = [event for number in (1, 2) for event in measured_cell(layer(32 * number), number)]
    with Reader(told(tmp_path / "store", [*cells, *measured_cell(layer(), 3, target="cuda/sm_90")])) as reader:
        samples, compiles = read_samples(reader, TARGET)
    assert {(item.program, item.backend, round(item.seconds, 9)) for item in samples} == {
        ("hash1", "eager", 0.0021), ("hash1", "fx", 0.0011), ("hash2", "eager", 0.0022), ("hash2", "fx", 0.0012)
    }  # fmt: skip
    assert all(item.features.mode == "training" for item in samples)
    assert [(item.program, item.seconds) for item in compiles] == [("hash1", 0.5), ("hash2", 0.5)]


def test_a_refit_keeps_the_peaks_and_its_model_is_the_newest(
    tmp_path: Path, layer: Callable[..., Graph], peaks: Peaks
) -> None:
    cells = [event for number in range(1, 8) for event in measured_cell(layer(16 * number), number)]
    kept = e.PeaksMeasured("calibrate-1", TARGET, peaks.id, peaks.as_json(), 2.0)
    layout = told(tmp_path / "store", [*cells, kept])
    with Reader(layout) as reader:
        assert newest_model(reader, TARGET) is None
    report = calibrate(layout.root, "cpu", refit=True)
    assert (report.peaks, report.n_samples) == (peaks, 14)
    with Reader(layout) as reader:
        assert newest_model(reader, TARGET) == report.model
        assert newest_model(reader, "cuda/sm_90") is None
        sql = "select payload ->> 'n_samples' as n from events where type = 'CostModelCalibrated'"
        (row,) = reader.query(sql).to_pylist()
    assert row["n"] == "14"


def test_a_refit_without_peaks_is_refused_with_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = StoreLayout(tmp_path / "store").create().root
    with pytest.raises(Refusal, match="holds no peaks"):
        calibrate(store, "cpu", refit=True)
    assert run(["calibrate", "--refit", "--store", str(store)]) == 2
    assert 'run "farm calibrate" without --refit' in capsys.readouterr().err


def test_peaks_and_models_of_another_format_are_refused_with_the_next_step(tmp_path: Path, peaks: Peaks) -> None:
    old_peaks = e.PeaksMeasured("calibrate-1", TARGET, "p", {**peaks.as_json(), "format": "tensorfarm.peaks/0"}, 2.0)
    old_model = e.CostModelCalibrated("calibrate-1", TARGET, "m", "p", 9, 0.1, 0.9, {"format": "tensorfarm.cost/0"})
    layout = told(tmp_path / "store", [old_peaks, old_model])
    with pytest.raises(Refusal, match=r'peaks of .* of another format.*"farm calibrate" without --refit'):
        calibrate(layout.root, "cpu", refit=True)
    with Reader(layout) as reader, pytest.raises(Refusal, match=r'model of .* of another format.*run "farm calibrate"'):
        newest_model(reader, TARGET)


def test_an_unknown_device_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="known: cpu"):
        calibrate(tmp_path / "store", "tpu")
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_peaks_are_measured_by_a_job_where_there_is_no_store_yet(tmp_path: Path) -> None:
    report = calibrate(tmp_path / "store", "cpu")
    assert report.peaks_seconds > 0
    assert report.n_samples == 0
    with Reader(StoreLayout(tmp_path / "store")) as reader:
        assert newest_model(reader, TARGET) == report.model
