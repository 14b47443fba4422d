"""How a bisection ended. Invariant: a culprit is named only where the search saw it make the difference."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Only ``confirmed`` and ``several`` name a culprit; ``range`` names the sites among which it is.

    ``confirmed``: with it alone off the fault is gone. ``several``: the fault comes with it, yet stays when it alone is
    off, so another site breaks it too. ``range``: skips hide which one it is. ``unattributed``: with every site off the
    fault is still there. ``flaky``: a probe was both good and bad, or all sites on is good this time. ``undecided``:
    with all sites on the fault itself could not be seen.
    """

    CONFIRMED = "confirmed"
    SEVERAL = "several"
    RANGE = "range"
    UNATTRIBUTED = "unattributed"
    FLAKY = "flaky"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Result:
    """``first`` to ``last`` are the sites that are left, all of them where nothing narrower is known.

    ``rounds`` and ``probes`` count what was asked for.
    """

    status: Status
    culprit: int | None
    first: int
    last: int
    rounds: int
    probes: int

    @property
    def sentence(self) -> str:
        """One line for people."""
        site = f"site {self.culprit}"
        among = f"site {self.first}" if self.first == self.last else f"sites {self.first} to {self.last}"
        said = {
            Status.CONFIRMED: f"{site} breaks it: with it alone switched off the fault is gone",
            Status.SEVERAL: f"the fault comes with {site} and stays when it alone is off: another site breaks it too",
            Status.RANGE: f"no narrower than {among}: the probes that would tell fail in another way",
            Status.UNATTRIBUTED: "it fails with every site switched off: the fault is not among the sites",
            Status.FLAKY: "the same compilation is right once and wrong once: the fault is flaky",
            Status.UNDECIDED: "with every site on it fails in another way now: nothing can be searched for",
        }
        return f"{said[self.status]} ({self.rounds} rounds, {self.probes} probes)"
