"""A sweep's desk: knows its files, its cache and its approvals, and does the steps that need no job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tensorfarm.compiler.pipeline import parse, pass_digests
from tensorfarm.contract import events as e
from tensorfarm.contract.approve import Approvals
from tensorfarm.contract.bundle import CorruptBundle
from tensorfarm.contract.identity import CandidateKey
from tensorfarm.contract.numerics import NumericalContract
from tensorfarm.contract.outcome import Outcome
from tensorfarm.farm.app.admission import ArtifactCache
from tensorfarm.farm.app.jobs import JobBook, event_of
from tensorfarm.farm.engine.job import Job, JobResult
from tensorfarm.farm.pipeline import commands as c


@dataclass(frozen=True)
class SweepDesk:
    """The driver's ``Desk`` of a real sweep. ``contract`` is the parsed one that ``book.config`` holds as text."""

    sweep_id: str
    book: JobBook
    contract: NumericalContract
    cache: ArtifactCache
    approvals: Approvals | None

    def job(self, command: c.JobCommand) -> Job:
        return self.book.job(command)

    def event_of(self, command: c.JobCommand, result: JobResult) -> e.Event:
        """The event of a result; a capture that is not the approved program becomes ``semantic_drift`` here."""
        event = event_of(self.sweep_id, command, result)
        if self.approvals is None or not isinstance(event, e.ProgramCaptured) or not isinstance(command, c.RunCapture):
            return event
        refusal = self.approvals.refusal(
            command.program.source, event.semantic_hash, result.outcomes[-1].value["canonical"]
        )
        if refusal is None:
            return event
        return e.CaptureFailed(
            self.sweep_id,
            event.subject,
            source=event.source,
            outcome=Outcome.SEMANTIC_DRIFT,
            outcome_kind="",
            message=refusal,
            seconds=event.seconds,
            node_id=event.node_id,
        )

    def perform(self, commands: Sequence[c.LocalCommand]) -> Iterable[e.Event]:
        """The events of local steps; a batch of submissions asks the cache once."""
        submissions = [command for command in commands if isinstance(command, c.Submit)]
        yield from self._submit(submissions)
        for command in commands:
            match command:
                case c.Admit():
                    yield self._admit(command)
                case c.End():
                    yield self._end(command)
                case c.GiveUpCapture(program, message):
                    outcome = Outcome.INFRASTRUCTURE_EXHAUSTED
                    yield e.CaptureFailed(self.sweep_id, program.name, program.source, outcome, "", message, 0.0)
                case c.Submit():
                    pass

    def _submit(self, commands: Sequence[c.Submit]) -> Iterable[e.Event]:
        submitted = [self._submitted(command) for command in commands]
        answers = self.cache.answers([event.candidate_id for event in submitted]) if submitted else {}
        for event in submitted:
            yield event
            if (answer := answers.get(event.candidate_id)) is not None:
                yield e.CacheAnswered(
                    self.sweep_id,
                    event.subject,
                    candidate_id=event.candidate_id,
                    artifact_sha256=answer.artifact_sha256,
                    gate_run_id=answer.gate_run_id,
                    admitted_in=answer.sweep_id,
                    measured=answer.measured,
                )

    def _submitted(self, command: c.Submit) -> e.CandidateSubmitted:
        cell, toolchain = command.cell, self.book.toolchain
        digests = pass_digests(parse(cell.pipeline))
        key = CandidateKey(
            semantic_hash=command.semantic_hash,
            input_spec_id=command.input_spec_id,
            mode=cell.program.mode,
            contract_hash=self.book.config.judged_under,
            target=toolchain.target,
            toolchain_id=toolchain.id,
            pipeline=cell.pipeline,
            pass_digests=digests,
        )
        return e.CandidateSubmitted(
            self.sweep_id,
            cell.id,
            candidate_id=key.candidate_id,
            program=cell.program.name,
            semantic_hash=command.semantic_hash,
            input_spec_id=command.input_spec_id,
            mode=cell.program.mode,
            backend=cell.backend,
            pipeline=cell.pipeline,
            target=toolchain.target,
            toolchain_id=toolchain.id,
            contract_id=self.contract.id,
            contract_hash=self.contract.hash,
            dtype=command.dtype,
            pass_digests=digests,
        )

    def _admit(self, command: c.Admit) -> e.ArtifactAdmitted | e.CandidateEnded:
        try:
            place = self.cache.admit(command.artifact_sha256)
        except CorruptBundle as refusal:
            outcome = Outcome.SEMANTIC_DRIFT
            return self._end(c.End(command.cell, command.candidate_id, outcome, "artifact", str(refusal)))
        return e.ArtifactAdmitted(
            self.sweep_id,
            command.cell.id,
            candidate_id=command.candidate_id,
            semantic_hash=command.semantic_hash,
            artifact_sha256=command.artifact_sha256,
            size_bytes=command.size_bytes,
            uri=str(place.relative_to(self.cache.layout.root)),
            gate_run_id=command.gate_run_id,
        )

    def _end(self, command: c.End) -> e.CandidateEnded:
        cell = command.cell
        return e.CandidateEnded(
            self.sweep_id,
            cell.id,
            candidate_id=command.candidate_id,
            program=cell.program.name,
            backend=cell.backend,
            pipeline=cell.pipeline,
            outcome=command.outcome,
            outcome_kind=command.outcome_kind,
            message=command.message,
        )
