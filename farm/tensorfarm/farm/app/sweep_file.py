"""The sweep file: what a person writes, read into what a driver needs. Grammar in ``sweep.schema.json``.

Normalised, it is plain JSON with absolute choices filled in; that text is an event, so a resumed sweep needs no file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from tensorfarm.compiler.pipeline import parse
from tensorfarm.contract.approve import LOCK_NAME, Approvals
from tensorfarm.contract.digest import canonical_json, sha256_json
from tensorfarm.contract.ir_contract import MAY_CHANGE, MUST_NOT_CHANGE, IrContract
from tensorfarm.contract.numerics import parse_contract, read_contract, refuse_invalid
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.yaml_file import read_yaml
from tensorfarm.farm.pipeline.plan import BisectPlan, Plan, PlannedProgram

DEFAULT_THRESHOLD = 0.1
DEFAULT_WIDTH = 2
DEFAULT_LEVEL = "quick"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_GIB = 1 << 30
_STRICT: Mapping[str, Any] = {"may_change": [*MAY_CHANGE], "must_not_change": [*MUST_NOT_CHANGE]}


@dataclass(frozen=True)
class StageLimits:
    """Wall time of one child, by stage, and memory of a child of any stage."""

    capture_seconds: float = 300.0
    compile_seconds: float = 600.0
    gate_seconds: float = 300.0
    bench_seconds: float = 300.0
    memory_gib: float = 8.0

    @property
    def memory_bytes(self) -> int:
        return int(self.memory_gib * _GIB)


@dataclass(frozen=True)
class Budget:
    """What a cell may cost; None where nothing is limited.

    ``compile_seconds`` ends a compilation that takes longer. ``calls`` is how often the artifact is going to be called:
    a candidate that is predicted not to earn back its compilation in as many is not compiled.
    """

    compile_seconds: float | None = None
    calls: float | None = None


@dataclass(frozen=True)
class SweepConfig:
    """A sweep, normalised. ``contract`` and ``ir_contract`` are the parsed files, checked when they were read.

    ``python_path`` holds absolute folders. ``pairs`` is the number of ABBA pairs of a measurement, 0 for none;
    ``threshold`` the slow-down that matters, as a share of the baseline's time; ``fresh_hours`` how long a measurement
    is fresh, None where that is no matter. ``lock`` is the absolute path of the approvals, empty where there are none.
    ``level`` is how much the gate asks of a candidate: quick, standard or full.
    """

    name: str
    contract: Mapping[str, Any]
    ir_contract: Mapping[str, Any]
    python_path: tuple[str, ...]
    programs: tuple[PlannedProgram, ...]
    limits: StageLimits
    pairs: int
    threshold: float
    fresh_hours: float | None
    seed: int
    lock: str
    bisect: BisectPlan
    budget: Budget
    level: str

    @property
    def judged_under(self) -> str:
        """Hash of everything that a verdict depends on besides program, artifact and gate."""
        return sha256_json([parse_contract(self.contract).hash, self.ir_contract, self.seed, self.level])

    @property
    def several_sessions(self) -> bool:
        """Whether a subject may be asked to run in more processes than one."""
        return self.level != DEFAULT_LEVEL or len(parse_contract(self.contract).devices) > 1

    @property
    def plan(self) -> Plan:
        return Plan(self.programs, self.bisect, measured=self.pairs > 0)

    def to_json(self) -> str:
        return canonical_json({"format": "tensorfarm.sweep/1", **asdict(self)})

    @staticmethod
    def from_json(text: str) -> SweepConfig:
        """The inverse of ``to_json``. Nothing is checked again: the text was a sweep file that passed."""
        value = json.loads(text)
        return SweepConfig(
            name=value["name"],
            contract=value["contract"],
            ir_contract=value["ir_contract"],
            python_path=tuple(value["python_path"]),
            programs=tuple(
                PlannedProgram(item["name"], item["source"], item["mode"], tuple(item["pipelines"]))
                for item in value["programs"]
            ),
            limits=StageLimits(**value["limits"]),
            pairs=value["pairs"],
            seed=value["seed"],
            lock=value["lock"],
            # A sweep of a version without these fields never asked for them.
            threshold=value.get("threshold", DEFAULT_THRESHOLD),
            fresh_hours=value.get("fresh_hours"),
            bisect=BisectPlan(**value.get("bisect", {})),
            budget=Budget(**value.get("budget", {})),
            level=value.get("level", DEFAULT_LEVEL),
        )


def schema() -> dict[str, Any]:
    """The JSON schema of a sweep file."""
    return json.loads(resources.files("tensorfarm.farm.app").joinpath("sweep.schema.json").read_text())


def read_sweep_file(path: Path, lock: Path | None = None) -> SweepConfig:
    """Read and normalise a sweep file; ``lock`` takes the place of the file's own.

    Refuses, naming the field, whatever is not in the grammar or not there.
    """
    value = read_yaml(path, "sweep file")
    refuse_invalid(value, schema(), str(path))
    return config_of(value, path.resolve().parent, lock)


def config_of(value: Mapping[str, Any], folder: Path, lock: Path | None = None) -> SweepConfig:
    """Normalise what a sweep file in ``folder`` says."""
    contract_path, ir_path = folder / value["contract"], value.get("ir_contract")
    read_contract(contract_path)
    measure = value.get("measure", {})
    return SweepConfig(
        name=value["sweep"],
        contract=_plain(read_yaml(contract_path, "contract")),
        ir_contract=_ir_contract(folder / ir_path) if ir_path else _STRICT,
        python_path=tuple(str((folder / item).resolve()) for item in value.get("python_path", ())),
        programs=_programs(value, folder),
        limits=StageLimits(**value.get("limits", {})),
        # JSON schema calls 3.0 an integer too.
        pairs=int(measure.get("pairs", 12)),
        threshold=float(measure.get("threshold", DEFAULT_THRESHOLD)),
        fresh_hours=measure.get("fresh_hours"),
        seed=int(value.get("seed", 0)),
        lock=_lock(lock or (folder / value["lock"] if "lock" in value else None), folder),
        bisect=_bisect_plan(value.get("bisect", {})),
        budget=Budget(**value.get("budget", {})),
        level=value.get("level", DEFAULT_LEVEL),
    )


def _bisect_plan(value: Mapping[str, Any]) -> BisectPlan:
    return BisectPlan(int(value.get("width", DEFAULT_WIDTH)), int(value.get("most", BisectPlan().most)))


def _lock(named: Path | None, folder: Path) -> str:
    """The lock file: the named one, which must be there, or the nearest ``programs.lock`` in ``folder`` or above."""
    if named is None:
        found = (place / LOCK_NAME for place in (folder, *folder.parents) if (place / LOCK_NAME).is_file())
        named = next(found, None)
    elif not named.is_file():
        raise Refusal(f"lock file {named} does not exist", next_step='run "farm approve PROGRAM --lock FILE" first')
    if named is None:
        return ""
    Approvals(named).hashes()
    return str(named.resolve())


def _ir_contract(path: Path) -> Mapping[str, Any]:
    IrContract.read(path)
    return read_yaml(path, "IR contract")


def _programs(value: Mapping[str, Any], folder: Path) -> tuple[PlannedProgram, ...]:
    made: list[PlannedProgram] = []
    for item in value["programs"]:
        source, is_file = item["module"], item["module"].endswith(".pt2")
        name = item.get("name") or (Path(source).stem if is_file else source.rpartition(":")[2])
        pipelines = tuple(str(parse(text)) for text in item.get("pipelines", value["pipelines"]))
        mode = item.get("mode", value.get("mode", "inference"))
        if _NAME.fullmatch(name) is None:
            raise Refusal(
                f"program {source!r} would be called {name!r}",
                limit="letters, digits, dot, dash and underscore",
                next_step="correct its module: field, or give it a name: field",
            )
        if any(other.name == name for other in made):
            raise Refusal(f"two programs are called {name!r}", next_step="give one of them a name: field of its own")
        if is_file:
            source = str((folder / source).resolve())
            if not Path(source).is_file():
                raise Refusal(f"program {name}: {item['module']} does not exist", next_step="check the path")
        elif ":" not in source:
            raise Refusal(
                f"program {source!r} names no factory",
                limit="package.module:factory, or a .pt2 file",
                next_step="correct its module: field",
            )
        made.append(PlannedProgram(name, source, mode, pipelines))
    return tuple(made)


def _plain(value: Any) -> Any:
    """YAML's dates as text: the rest of a contract is plain already."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
