"""A judge's request, read: what is judged, against which original, by which contract, how thoroughly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tensorfarm.contract.artifact import Artifact, open_artifact
from tensorfarm.contract.digest import sha256_json
from tensorfarm.contract.graph import WeightKind
from tensorfarm.contract.ir_contract import STRICT, IrContract
from tensorfarm.contract.numerics import NumericalContract, parse_contract
from tensorfarm.contract.program import MODES, Program
from tensorfarm.contract.refusal import Refusal, refuse_unknown
from tensorfarm.contract.tensors import tensor_sha256, write_tensors
from tensorfarm.gate.calling import observed
from tensorfarm.gate.checks import capture
from tensorfarm.gate.examination import families, trials_of
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.facts import facts_of
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.oracle import expectations
from tensorfarm.gate.oracle_file import OracleFile
from tensorfarm.gate.reference import Reference, reference_of_program, reference_of_source
from tensorfarm.gate.sequence import sequence_of
from tensorfarm.gate.setting import LEVELS, Level, Setting
from tensorfarm.gate.spread import first_look
from tensorfarm.gate.subject.captured import of_graph
from tensorfarm.gate.trial import Trial

ARTIFACT = "artifact"
# Beside the trials' own: what the captured graph gave on the example inputs.
CAPTURED = "captured"


@dataclass(frozen=True)
class Case:
    """``subject`` says what is judged (``kind`` names its runner). The original is a captured program (``program_path``
    and its sha256) or a factory (``source``). ``oracle_cache`` is a folder shared by the candidates of a program, or
    empty. ``only`` are the families that are asked again after a failure of theirs, with all samples at once; empty for
    a verdict of its own.
    """

    subject: Mapping[str, Any]
    candidate_id: str
    program_path: Path | None
    program_sha256: str
    semantic_hash: str
    source: str
    mode: str
    level: Level
    contract: NumericalContract
    rules: IrContract
    folder: Path
    oracle_cache: str
    seed: int
    threads: int
    gate_version: str
    sequence: str = ""
    between: str = ""
    only: frozenset[str] = frozenset()
    proved: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @staticmethod
    def of(request: Mapping[str, Any], gate_version: str, proved: Mapping[str, Any] | None = None) -> Case:
        """Refuses an unknown mode or level, an invalid contract, and a request without an original. ``proved``: the
        ``proofs`` of the same request's case, which are not made again."""
        rules, level = request.get("ir_contract"), request.get("level", "quick")
        refuse_unknown("mode", request["mode"], MODES)
        refuse_unknown("level", level, LEVELS)
        program = request.get("program")
        return Case(
            subject=_subject(request),
            candidate_id=str(request.get("candidate_id", "")),
            program_path=Path(program) if program else None,
            program_sha256=str(request.get("program_sha256", "")),
            semantic_hash=str(request.get("semantic_hash", "")),
            source=str(request.get("source", "")),
            mode=request["mode"],
            level=Level[level.upper()],
            contract=parse_contract(request["contract"], valid=(proved or {}).get("contract", "")),
            rules=STRICT if rules is None else IrContract.parse(rules),
            folder=Path(request["folder"]),
            oracle_cache=request.get("oracle_cache") or "",
            seed=int(request.get("seed", 0)),
            threads=int(request.get("threads", 1)),
            gate_version=gate_version,
            sequence=str(request.get("sequence", "")),
            between=str(request.get("between", "")),
            only=_families(request.get("only", ())),
            proved=dict(proved or {}),
        )

    @property
    def proofs(self) -> dict[str, Any]:
        """What is known of this case's request once it was read, for whoever reads the same request after it."""
        members = dict(self.program.members) if self.program else {}
        return {"contract": self.contract.hash, "members": members, "oracle_key": self.oracle_key}

    @cached_property
    def program(self) -> Program | None:
        if self.program_path is None:
            return None
        program = Program.load(self.program_path, self.program_sha256, self.proved.get("members"))
        if program.semantic_hash != self.semantic_hash:
            raise Refusal(
                f"program {self.program_path.name} is {program.semantic_hash[:12]}",
                limit=f"the candidate is of {self.semantic_hash[:12]}",
                next_step="submit the candidate again",
            )
        return program

    @cached_property
    def artifact(self) -> Artifact | None:
        if self.subject["kind"] != ARTIFACT:
            return None
        return open_artifact(Path(self.subject["path"]), self.subject["sha256"])

    @cached_property
    def reference(self) -> Reference:
        return reference_of_program(self.program) if self.program else reference_of_source(self.source)

    def subject_with_state(self) -> Mapping[str, Any]:
        """The subject, told where the original's weights are if it is built anew: a factory need not be seeded."""
        if self.program is not None or "source" not in self.subject:
            return self.subject
        state = self.folder / "state.tensors"
        write_tensors(state, self.reference.state())
        return {**self.subject, "state": str(state)}

    @property
    def in_spec(self) -> str:
        return self.program.in_spec if self.program else pytree.treespec_dumps(self.reference.in_spec)

    @cached_property
    def setting(self) -> Setting:
        facts = facts_of(self.subject)
        return Setting(self.contract, self.reference.leaves, facts, self.mode, self.level, self.seed, self.only)

    @cached_property
    def parameter_dtypes(self) -> dict[str, torch.dtype]:
        if self.program is None:
            return {name: value.dtype for name, value in self.reference.fresh("", changes=False).parameters.items()}
        weights = self.program.graph.weights.values()
        return {item.target: item.spec.dtype for item in weights if item.kind is WeightKind.PARAMETER}

    @cached_property
    def trials(self) -> dict[str, Trial]:
        """What the families ask for; where the user gave a sequence of calls, that is the example."""
        found = trials_of(self.setting)
        if not self.sequence:
            return found
        example = found["example"]
        calls = sequence_of(self.sequence, self.between, self.reference, example.calls[0])
        return {**found, "example": replace(example, calls=calls)}

    @property
    def judges_capture(self) -> bool:
        return self.level >= capture.LEVEL and (not self.only or capture.NAME in self.only)

    @cached_property
    def oracle_key(self) -> str:
        """What an expectation hangs on: the original, the contract, and everything that is asked."""
        return self.proved.get("oracle_key") or sha256_json(
            {
                "semantic_hash": self.semantic_hash,
                "contract": self.contract.hash,
                "program": self.program_sha256 or self.source,
                "input_spec_id": self.program.input_spec_id if self.program else "",
                "trials": {name: _told(trial) for name, trial in self.trials.items()},
                "all_samples": bool(self.only),
                "seed": self.seed,
                "mode": self.mode,
                "captured": self.judges_capture,
                "gate": self.gate_version,
            }
        )

    @property
    def oracle(self) -> OracleFile:
        """A source may change between two runs, so only a program's oracle outlives its folder."""
        shared = bool(self.oracle_cache) and self.program is not None
        folder = Path(self.oracle_cache) if shared else self.folder
        return OracleFile(folder / f"{self.oracle_key}.oracle", shared=shared)

    def expectations(self) -> dict[str, tuple[Expectation, ...]]:
        """Run the oracle, and the captured graph where there is one."""
        contract = self.contract if self.only else self._first_look
        found = expectations(self.reference, self.trials.values(), contract, self.seed)
        if self.program is not None and self.judges_capture:
            found[CAPTURED] = (Expectation(self._captured(self.program, found["example"][0])),)
        return found

    def with_all_samples(
        self, families: frozenset[str], first: Mapping[str, tuple[Expectation, ...]]
    ) -> dict[str, tuple[Expectation, ...]]:
        """``first`` again, with the spread of all samples for what the trials of these families are held to.

        Kept for whoever asks only these families: a probe of what they fail finds it there.
        """
        again = replace(self, only=families, proved={})
        vars(again).update(program=self.program, reference=self.reference.unwidened())
        made = again.expectations()
        again.oracle.put(made)
        spread = {
            name: tuple(replace(one, sigma=other.sigma) for one, other in zip(first[name], calls, strict=True))
            for name, calls in made.items()
        }
        return {**first, **spread}

    @property
    def _first_look(self) -> NumericalContract:
        monte_carlo = self.contract.monte_carlo
        return replace(self.contract, monte_carlo=replace(monte_carlo, samples=first_look(monte_carlo.samples)))

    def _captured(self, program: Program, expected: Expectation) -> Observation:
        call = self.trials["example"].calls[0]
        leaves = self.reference.arguments(call.inputs, call.literals, wide=False)
        graph = of_graph(program.graph, program.weights, program.returns)
        return observed(graph, leaves, call.derivative, lambda _: expected.cotangents, call.seed)


def _families(names: Iterable[str]) -> frozenset[str]:
    """Those families; none, which is all of them, where a name is no family's: a crash shows anywhere."""
    asked = frozenset(names)
    return asked if asked <= {family.NAME for family in families()} else frozenset()


def _told(trial: Trial) -> list[Any]:
    """All that an oracle's answer hangs on, and all that a subject is asked, as JSON holds it."""
    calls: list[Any] = []
    for call in trial.calls:
        tensors = {
            name: [tensor_sha256(value), list(value.stride()), value.storage_offset()]
            for name, value in call.inputs.items()
        }
        places = [value.untyped_storage().data_ptr() for value in call.inputs.values()]
        literals = {name: repr(value) for name, value in call.literals.items()}
        shared = [places.index(place) for place in places]
        calls.append([tensors, shared, call.derivative, call.cotangent, call.between, call.seed, literals])
    return [trial.depth, trial.variant, calls]


def _subject(request: Mapping[str, Any]) -> Mapping[str, Any]:
    if "subject" in request:
        return request["subject"]
    return {
        "kind": ARTIFACT,
        "path": request["artifact"],
        "sha256": request["artifact_sha256"],
        "candidate_id": request["candidate_id"],
    }
