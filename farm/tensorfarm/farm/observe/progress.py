"""What a person sees while a sweep runs: a line for each ended cell, lost job and probe; on a terminal also a bar with
the last words.
"""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tensorfarm.contract import events as e
from tensorfarm.contract.outcome import Outcome

_STYLE = {Outcome.ADMITTED: "green"}


class LiveProgress:
    """Follows a sweep by its events. ``began`` is told how many cells there are and how many ended earlier."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[last]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None, last="")
        self._ended_cells, self._cells = 0, 0
        self._bisecting: set[str] = set()

    def __enter__(self) -> LiveProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def began(self, sweep_id: str, n_cells: int, n_ended: int) -> None:
        resumed = f", {n_ended} of them ended before" if n_ended else ""
        self.console.print(f"sweep {escape(sweep_id)}: {n_cells} cells{resumed}")
        self._ended_cells, self._cells = n_ended, n_cells
        self._bar.update(self._task, description=escape(sweep_id), total=n_cells, completed=n_ended)

    def saw(self, event: e.Event) -> None:
        if isinstance(event, e.CandidateEnded):
            self._ended(event)
        elif isinstance(event, e.JobLost):
            text = f"[yellow]{escape(event.subject)}: {event.stage} lost ({escape(event.reason)}); it is run again"
            self.console.print(text, soft_wrap=True)
        elif isinstance(event, e.BisectionStarted):
            self._bisecting.add(event.subject)
            what = f"refused; bisecting {event.n_sites} sites, {event.width} probes a round"
            self.console.print(f"[dim]{escape(event.subject)}: {what}", soft_wrap=True)
        elif isinstance(event, e.ProbeDecided):
            where = f"{escape(_short(event.subject))}, " if len(self._bisecting | {event.subject}) > 1 else ""
            what = f"round {event.round}: {event.probe} on is {event.outcome} ({event.seconds:.1f} s)"
            self.console.print(f"[dim]  {where}{what}", soft_wrap=True)
        else:
            if isinstance(event, e.BisectionFinished):
                self._bisecting.discard(event.subject)
            self._bar.update(self._task, last=f"{escape(event.subject)}: {_WORDS.get(type(event), '')}")

    def _ended(self, event: e.CandidateEnded) -> None:
        outcome = Outcome(event.outcome)
        kind = f" ({escape(event.outcome_kind)})" if event.outcome_kind else ""
        self._ended_cells += 1
        count = f"[dim]{self._ended_cells}/{self._cells}[/]"
        text = f"{count} {escape(event.subject)}: [{_STYLE.get(outcome, 'red')}]{outcome}[/]{kind}"
        self.console.print(text + (f" {escape(event.message)}" if event.message else ""), soft_wrap=True)
        self._bar.advance(self._task)


def _short(cell: str) -> str:
    """A cell's program and the end of its pipeline, in which pipelines of one program differ."""
    program, _, pipeline = cell.partition("/")
    return f"{program}/{pipeline if len(pipeline) <= _TOLD else '…' + pipeline[-_TOLD:]}"


_TOLD = 40
_WORDS: dict[type[e.Event], str] = {
    e.ProgramCaptured: "captured",
    e.CaptureFailed: "not captured",
    e.CandidateSubmitted: "submitted",
    e.CandidateCompiled: "compiled",
    e.CompileFailed: "not compiled",
    e.GateDecided: "judged",
    e.ArtifactAdmitted: "admitted",
    e.CacheAnswered: "answered from the cache",
    e.Measured: "measured",
    e.MeasureFailed: "not measured",
    e.PredictionMade: "predicted",
    e.TaskRejected: "not worth compiling",
    e.BisectionFinished: "bisected",
    e.RegressionNominated: "looks slower than its baseline",
    e.Compared: "compared with its baseline",
    e.RegressionConfirmed: "slower than its baseline",
    e.RegressionDismissed: "not shown to be slower",
    e.RegressionFixed: "no slower than its baseline any more",
}
