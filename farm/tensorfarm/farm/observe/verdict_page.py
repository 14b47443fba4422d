"""A verdict as one page that stands alone: styles are in it, nothing is fetched, no script runs.

Invariant: whatever names programs and messages have, they are text on the page and never markup.
"""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from tensorfarm.farm.observe.verdict_table import FAMILY_COLUMNS, families_of
from tensorfarm.gate.attestation import Certificate
from tensorfarm.gate.readable import details, headline, inputs_of, summary
from tensorfarm.gate.severity import severity_of, worst_first


def verdict_page(title: str, certificate: Certificate, about: str, again: str) -> str:
    """The page's HTML. ``about`` says when it was judged; ``again`` is the command that does so once more."""
    return _template().render(
        title=title,
        about=about,
        again=again,
        admitted=not certificate.outcome.exit_code,
        headline=headline(certificate),
        summary=summary(certificate),
        wrong=worst_first(certificate.findings),
        details=details,
        columns=FAMILY_COLUMNS,
        families=families_of(certificate.findings),
        findings=certificate.findings,
        severity_of=severity_of,
        inputs_of=inputs_of,
        attestation=certificate.attestation,
        gate_version=certificate.gate_version,
    )


@cache
def _template() -> Template:
    loader = PackageLoader("tensorfarm.farm.observe", ".")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    return environment.get_template("verdict.html.j2")
