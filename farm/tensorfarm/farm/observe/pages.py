"""A report as one page that stands alone: styles and drawings are in it, nothing is fetched, no script runs.

Invariant: whatever names programs and messages have, they are text on the page and never markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from tensorfarm.farm.observe.charts import Chart
from tensorfarm.farm.observe.presentation import Presentation, is_bad


def page(report: Presentation, charts: Sequence[Chart], about: str) -> str:
    """The page's HTML. ``about`` says which store and when, under the title."""
    return _template().render(report=report, charts=charts, about=about, is_bad=is_bad)


@cache
def _template() -> Template:
    loader = PackageLoader("tensorfarm.farm.observe", ".")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    return environment.get_template("page.html.j2")
