"""``farm contract``: what counts as equal, as a file: a new one, a check, a comparison, and its creep over time."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tensorfarm.contract.contract_diff import Change, FieldChange
from tensorfarm.contract.outcome import USAGE_EXIT_CODE
from tensorfarm.farm.app.contracts import (
    DRIFT_EXIT_CODE,
    FEWEST_FINDINGS,
    ContractDrift,
    check_contracts,
    contract_drift,
    diff_contracts,
    drift_as_json,
    new_contract,
)
from tensorfarm.farm.cli.options import AsJson
from tensorfarm.farm.cli.screen import screen
from tensorfarm.farm.observe.rows import print_rows

application = typer.Typer(help="What counts as equal: the numerical contract, as a file.", no_args_is_help=True)
_DIFF_COLUMNS = ("field", "change", "old", "new", "ratio")
_ALARM_COLUMNS = ("contract", "alarm", "value", "limit", "what")
_WIDENING_COLUMNS = ("contract", "day", "commit", "field", "old", "new", "ratio")
_LONGEST = 60  # characters of a value


@application.command("init")
def init(
    dtype: Annotated[str, typer.Option("--dtype", help="float32, bfloat16, float16, float64 or any.")] = "",
    program: Annotated[
        str, typer.Option("--program", metavar="MODULE", help="package.module:factory whose dtypes and batch to take.")
    ] = "",
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write.")] = Path("contract.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    python_path: Annotated[list[Path] | None, typer.Option("--python-path", help="Folder to import from.")] = None,
) -> None:
    """Write a full, commented contract to start from."""
    new_contract(output, dtype, program, python_path or (), force=force)
    print(f'wrote {output}; after a change of it run "farm contract check {shlex.quote(str(output))}"')


@application.command("check")
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Contract files.")],
    as_json: AsJson = False,
) -> None:
    """Whether each FILE is a whole and valid contract. Exit code 2 where one is not."""
    found = check_contracts(files)
    if as_json:
        print(json.dumps([asdict(item) for item in found]))
    for item in found:
        if item.refusal:
            print(f"farm: {item.refusal}", file=sys.stderr)
        elif not as_json:
            print(f"{item.file}: {item.id} version {item.version}, hash {item.hash[:12]}")
    raise typer.Exit(USAGE_EXIT_CODE if any(item.refusal for item in found) else 0)


@application.command("diff")
def diff(
    old: Annotated[Path, typer.Argument(help="The contract so far.")],
    new: Annotated[Path, typer.Argument(help="The one that is to take its place.")],
    as_json: AsJson = False,
) -> None:
    """Field by field: what NEW tightens, widens or changes.

    Exit code 0 where nothing widens, 3 where every widening is justified in NEW's governance, 2 where one is not.
    """
    found = diff_contracts(old, new)
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        changed = [change for change in found.changes if change.change is not Change.EQUAL]
        print_rows(screen(markup=False), _DIFF_COLUMNS, [_diff_row(change) for change in changed])
        print(f"{len(found.changes) - len(changed)} other fields are equal")
    found.refuse_unjustified()
    raise typer.Exit(found.exit_code)


@application.command("drift")
def drifted(
    file: Annotated[
        Path | None, typer.Argument(help="A contract of the repository; all of them when left out.")
    ] = None,
    repo: Annotated[Path, typer.Option("--repo", help="A folder of the git repository.")] = Path(),
    store: Annotated[
        Path | None, typer.Option("--store", help="Store to compare the budgets with; none when left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What git says of how a contract widened since its last audit. Exit code 4 where that raises an alarm."""
    found = contract_drift(repo, file, store)
    if as_json:
        print(json.dumps(drift_as_json(found), default=str))
    else:
        _print_drift(found)
    raise typer.Exit(DRIFT_EXIT_CODE if any(item.drift.alarms for item in found) else 0)


def _print_drift(found: Sequence[ContractDrift]) -> None:
    console = screen(markup=False)
    for item in found:
        since = "its first commit" if item.drift.since is None else f"the audit of {item.drift.since}"
        print(f"{item.file}: {len(item.drift.widenings)} widenings since {since}")
        for slack in item.slack:
            few = "" if slack.n >= FEWEST_FINDINGS else f"; too few to judge by, {FEWEST_FINDINGS} are needed"
            print(f"  {slack.path}: error over limit {slack.observed_over_limit:.3g} in {slack.n} findings{few}")
    widenings = [_widening_row(item) for item in found]
    if any(widenings):
        print_rows(console, _WIDENING_COLUMNS, [row for rows in widenings for row in rows])
    alarms = [row for item in found for row in _alarm_rows(item)]
    if alarms:
        print_rows(console, _ALARM_COLUMNS, alarms)
    else:
        print("no alarm")


def _diff_row(change: FieldChange) -> dict[str, str]:
    ratio = "" if change.ratio == 1 else f"{change.ratio:.3g}"
    note = f"{change.change} (drops some)" if change.drops else str(change.change)
    values = (change.path, note, _shown(change.old), _shown(change.new), ratio)
    return dict(zip(_DIFF_COLUMNS, values, strict=True))


def _widening_row(item: ContractDrift) -> list[dict[str, str]]:
    return [
        dict(
            zip(
                _WIDENING_COLUMNS,
                (
                    item.file,
                    str(widening.day),
                    widening.commit[:12],
                    widening.path,
                    _shown(widening.old),
                    _shown(widening.new),
                    "" if widening.ratio == 1 else f"{widening.ratio:.3g}",
                ),
                strict=True,
            )
        )
        for widening in item.drift.widenings
    ]


def _alarm_rows(item: ContractDrift) -> list[dict[str, str]]:
    return [
        dict(
            zip(
                _ALARM_COLUMNS,
                (item.file, alarm.rule, f"{alarm.value:.3g}", f"{alarm.limit:.3g}", alarm.message),
                strict=True,
            )
        )
        for alarm in item.drift.alarms
    ]


def _shown(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def register(parent: typer.Typer) -> None:
    parent.add_typer(application, name="contract")
