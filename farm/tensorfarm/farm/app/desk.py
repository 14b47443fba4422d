"""A sweep's desk: knows its files, its cache and its approvals, and does the steps that need no job."""

from __future__ import annotations

import shutil
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
from tensorfarm.farm.app.costing import CostDesk
from tensorfarm.farm.app.jobs import JobBook
from tensorfarm.farm.app.results import event_of, lost_event, not_compared
from tensorfarm.farm.engine.job import Job, JobResult
from tensorfarm.farm.pipeline import commands as c
from tensorfarm.farm.pipeline.plan import Cell


@dataclass(frozen=True)
class SweepDesk:
    """The driver's ``Desk`` of a real sweep. ``contract`` is the parsed one that ``book.config`` holds as text."""

    sweep_id: str
    book: JobBook
    contract: NumericalContract
    cache: ArtifactCache
    approvals: Approvals | None
    costs: CostDesk

    def job(self, command: c.JobCommand) -> Job:
        return self.book.job(command)

    def events_of(self, command: c.JobCommand, result: JobResult) -> Sequence[e.Event]:
        """The events of a result: what happened, and what is predicted from it before anything of it is measured."""
        if isinstance(command, (c.RunGate, c.RunProbe)):
            shutil.rmtree(self.book.judged_in(command), ignore_errors=True)
        if (lost := lost_event(self.sweep_id, command, result)) is not None:
            return [lost]
        if isinstance(command, c.RunReproduce):
            last = result.outcomes[-1]
            return [
                self.book.bisections.reproduced(command, last.value if last.completed else {"message": last.message})
            ]
        event = event_of(self.sweep_id, command, result, self.book.config)
        if isinstance(command, c.RunCapture) and isinstance(event, e.ProgramCaptured):
            return [self._approved(command, event, result.outcomes[-1].value["canonical"])]
        if isinstance(command, c.RunCompile) and isinstance(event, e.CandidateCompiled):
            return [event, *self.costs.lowered(command.cell, event)]
        return [event]

    def _approved(self, command: c.RunCapture, event: e.ProgramCaptured, canonical: str) -> e.Event:
        """A capture that is not the approved program becomes ``semantic_drift``."""
        if self.approvals is None:
            return event
        refusal = self.approvals.refusal(command.program.source, event.semantic_hash, canonical)
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
                case c.StartBisection():
                    yield self.book.bisections.started(command)
                case c.FinishBisection():
                    yield self.book.bisections.finished(command)
                case c.Consider():
                    yield from self._considered(command)
                case c.Settle():
                    yield from self._settled(command)
                case c.GiveUpComparison():
                    yield self._not_compared(command)
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
        for command, event in zip(commands, submitted, strict=True):
            yield event
            if event.candidate_id not in answers:
                yield from self.costs.submitted(command, event)
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

    def _considered(self, command: c.Consider) -> Iterable[e.Event]:
        """Without a suspicion the cell ends here."""
        cell, candidate_id = command.cell, command.candidate_id
        events = self.book.regressions.considered(
            cell.id, self.book.workload(cell), candidate_id, command.artifact_sha256
        )
        yield from events
        if not any(isinstance(event, e.RegressionNominated) for event in events):
            yield self._weighed(cell, candidate_id, events, command.message)

    def _settled(self, command: c.Settle) -> Iterable[e.Event]:
        cell, candidate_id, compared = command.cell, command.candidate_id, command.compared
        events = self.book.regressions.settled(
            cell.id, self.book.workload(cell), candidate_id, compared[0].artifact_sha256, compared
        )
        yield from events
        yield self._weighed(cell, candidate_id, events, command.message)

    def _weighed(self, cell: Cell, candidate_id: str, events: Sequence[e.Event], message: str) -> e.CandidateEnded:
        """The end of a cell whose speed is known: admitted, and worse than its baseline or not."""
        slower = next((event for event in events if isinstance(event, e.RegressionConfirmed)), None)
        if slower is None:
            return self._end(c.End(cell, candidate_id, Outcome.ADMITTED, "", message))
        said = f"slower than {slower.baseline}: {slower.message}"
        return self._end(c.End(cell, candidate_id, Outcome.PERFORMANCE_REGRESSION, slower.baseline, said))

    def _not_compared(self, command: c.GiveUpComparison) -> e.Compared:
        return e.Compared(
            self.sweep_id,
            command.cell.id,
            candidate_id=command.candidate_id,
            artifact_sha256=command.artifact_sha256,
            baseline=command.baseline,
            baseline_artifact=command.baseline_artifact,
            seconds=0.0,
            **not_compared(command.message, self.book.config.threshold),
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
