"""``farm calibrate``: measure this machine's peaks and fit the cost model to what the sweeps measured on it."""

from __future__ import annotations

import json
import math
from typing import Annotated

import typer

from tensorfarm.farm.app.calibration import CalibrationReport, calibrate
from tensorfarm.farm.cli.options import DEFAULT_STORE, AsJson, Store
from tensorfarm.farm.cli.screen import screen
from tensorfarm.farm.observe.rows import print_rows

_COLUMNS = ("prediction", "programs", "median error", "in the 90 % interval", "interval")


def calibrate_machine(
    store: Store = DEFAULT_STORE,
    device: Annotated[str, typer.Option("--device", help="What to calibrate: cpu.")] = "cpu",
    refit: Annotated[bool, typer.Option("--refit", help="Keep the newest peaks and fit again.")] = False,
    address: Annotated[str | None, typer.Option("--address", help="Ray cluster; this machine when left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure what this machine can do, fit the cost model, and say how it does on programs it has not seen."""
    report = calibrate(store, device, refit=refit, address=address)
    if as_json:
        print(json.dumps(report.as_json()))
        return
    _print(report)


def _print(report: CalibrationReport) -> None:
    console, peaks = screen(), report.peaks
    measured = f"measured in {report.peaks_seconds:.1f} s" if report.peaks_seconds else "kept"
    bandwidth = [rate for _, rate in peaks.bandwidth]
    console.print(f"peaks {peaks.id} of {report.target}, {peaks.threads} thread: {measured}")
    console.print(
        f"  bandwidth {max(bandwidth) / 1e9:.0f} GB/s in cache, {bandwidth[-1] / 1e9:.0f} GB/s beyond;"
        f" products {max(rate for _, rate in peaks.products) / 1e9:.0f} GFLOP/s;"
        f" an operator's dispatch {peaks.dispatch_seconds['pw'] * 1e6:.1f} µs"
    )
    if peaks.is_uneven:
        console.print("  the curve is uneven: measure again when nothing else runs")
    console.print(f"model {report.model.id}: {report.n_samples} measured steps")
    if not report.n_samples:
        console.print('  no measured steps here: predictions are the roofline alone; run "farm sweep CONFIG" first')
        return
    rows = [
        (item.name, f"{item.programs}", _percent(item.median_error), _percent(item.coverage), f"×{item.interval:.2f}")
        for item in report.accuracy
    ]
    print_rows(console, _COLUMNS, [dict(zip(_COLUMNS, row, strict=True)) for row in rows])


def _percent(ratio: float) -> str:
    return "too few" if math.isnan(ratio) else f"{ratio:.1%}"


def register(application: typer.Typer) -> None:
    application.command("calibrate")(calibrate_machine)
