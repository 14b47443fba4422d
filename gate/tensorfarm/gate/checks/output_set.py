"""F10, output set: asking for an intermediate value as well changes none of the others.

What is fused, and what is kept in memory, hangs on what has to be given back. The original with its parts' results as
further outputs is compiled anew and held against itself in eager: own outputs and new ones within the budget, since a
compiler may round elsewhere when it fuses otherwise, and bit for bit on exact integers.
"""

from __future__ import annotations

from tensorfarm.gate.checks.equal_programs import findings_of_forms, names, trials_of_forms
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.finding import Finding
from tensorfarm.gate.planted import past_its_limit, planted
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.stream import out_of_stream
from tensorfarm.gate.trial import Trial
from tensorfarm.gate.variant import MORE_OUTPUTS

NAME = "output_set"
FAMILY = "F10"
LEVEL = Level.FULL
COST = 131

_FORMS = (MORE_OUTPUTS,)


def trials(setting: Setting) -> list[Trial]:
    return trials_of_forms(setting, _FORMS)


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each output, the intermediate ones included, and each gradient."""
    return findings_of_forms(evidence, NAME, _FORMS)


def canary(evidence: Evidence) -> Evidence | None:
    found = planted(evidence, names(_FORMS), ("output",), past_its_limit(evidence.setting.contract))
    return found or out_of_stream(evidence, names(_FORMS))
