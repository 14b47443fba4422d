"""Numerical contracts as files: a new one, whether they are valid, what separates two, and whether they crept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from tensorfarm.contract.contract_diff import FieldChange, compared
from tensorfarm.contract.contract_drift import Drift, Slack, drift
from tensorfarm.contract.contract_template import Draft, rendered
from tensorfarm.contract.contract_widening import Lack, lacks_of_changes, lacks_of_entries
from tensorfarm.contract.digest import finite
from tensorfarm.contract.numerics import contract_hash, read_contract_fields, validated
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.app.contract_history import Repository
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader

WIDENED_EXIT_CODE = 3
DRIFT_EXIT_CODE = 4
# The part of ``budgets`` that each check holds a tensor to.
CHECKS = {"forward": "budgets.outputs", "gradient": "budgets.gradients"}
# A 99.9th percentile of fewer findings is no more than the largest of a handful.
FEWEST_FINDINGS = 100


@dataclass(frozen=True)
class CheckedFile:
    """``refusal`` is empty where the contract is valid; then the others say which it is."""

    file: str
    refusal: str
    id: str = ""
    version: int = 0
    hash: str = ""


@dataclass(frozen=True)
class ContractDiff:
    """``lacks`` is empty where every widening is justified."""

    changes: Sequence[FieldChange]
    lacks: Sequence[Lack]

    @property
    def exit_code(self) -> int:
        """0 where nothing widens, 3 where a justified widening does. Unjustified ones are a refusal."""
        return WIDENED_EXIT_CODE if any(change.to_justify for change in self.changes) else 0

    def refuse_unjustified(self) -> None:
        if self.lacks:
            first, others = self.lacks[0], len(self.lacks) - 1
            more = f" (and {others} more)" if others else ""
            raise Refusal(f"{first.path} {first.fact}{more}", next_step=first.next_step)

    def as_json(self) -> dict[str, Any]:
        return finite({"fields": [asdict(change) for change in self.changes], "lacks": list(map(asdict, self.lacks))})


@dataclass(frozen=True)
class ContractDrift:
    """``slack`` says what the store was asked, findings too few to count included."""

    file: str
    drift: Drift
    slack: Sequence[Slack]


def today() -> date:
    return datetime.now(UTC).date()


def new_contract(place: Path, dtype: str, program: str, python_path: Iterable[Path], *, force: bool) -> None:
    """Write a full, commented contract. Refuses to overwrite one, and a program that cannot be called."""
    if place.exists() and not force:
        raise Refusal(f"{place} is there already", next_step="name another file with -o, or add --force")
    if program and dtype:
        raise Refusal("--dtype and --program both say the dtypes", next_step="leave one of them out")
    if program:
        # Imports torch, which takes seconds that no other command of these needs.
        from tensorfarm.farm.app.contract_draft import draft_of

        draft = draft_of(program, place.stem, today().isoformat(), python_path)
    else:
        dtype = dtype or "float32"
        draft = Draft(place.stem, today().isoformat(), dtype, dtype, dtype)
    text = rendered(draft)
    try:
        place.write_text(text)
    except OSError as error:
        raise Refusal(f"{place} cannot be written: {error.strerror}", next_step="name another file with -o") from None


def check_contracts(files: Iterable[Path]) -> list[CheckedFile]:
    """Each file by itself, its widenings' entries included."""
    return [_checked(file) for file in files]


def diff_contracts(old: Path, new: Path) -> ContractDiff:
    """What separates two valid contracts, and what the widenings among it lack. Refuses an invalid one."""
    before, after = read_contract_fields(old), read_contract_fields(new)
    changes = compared(before, after)
    return ContractDiff(changes, lacks_of_changes(changes, after, new.parent, today()))


def contract_drift(folder: Path, file: Path | None, store: Path | None) -> list[ContractDrift]:
    """The drift of one contract, or of every one that the repository around ``folder`` holds."""
    repository = Repository.at(folder)
    names = repository.contracts() if file is None else [repository.named(file)]
    return [_drift_of(repository, name, store) for name in names]


def _checked(file: Path) -> CheckedFile:
    try:
        fields = read_contract_fields(file)
    except Refusal as refusal:
        return CheckedFile(str(file), str(refusal))
    header, lacks = fields["contract"], lacks_of_entries(fields, file.parent, today())
    refusal = f"{file}: {lacks[0].path}: {lacks[0].fact}; {lacks[0].next_step}" if lacks else ""
    return CheckedFile(str(file), refusal, header["id"], int(header["version"]), contract_hash(fields))


def _drift_of(repository: Repository, name: str, store: Path | None) -> ContractDrift:
    fields = validated(repository.fields(name), name)
    slack = [] if store is None else _slack(store, contract_hash(fields))
    counted = [item for item in slack if item.n >= FEWEST_FINDINGS]
    return ContractDrift(name, drift(repository.revisions(name), fields, today(), counted), slack)


def _slack(store: Path, hashed: str) -> list[Slack]:
    with Reader(StoreLayout(store)) as reader:
        rows = reader.named("contract_slack", contract_hash=hashed).to_pylist()
    return [
        Slack(CHECKS[row["check_name"]], row["observed_over_limit"], row["n"])
        for row in rows
        if row["check_name"] in CHECKS
    ]


def drift_as_json(found: Sequence[ContractDrift]) -> list[Mapping[str, Any]]:
    return finite([asdict(item) for item in found])
