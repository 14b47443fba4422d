"""Drawings for a page: SVG text that stands in the HTML itself and takes the page's colours, light or dark.

Invariant: nothing in it is fetched, and equal rows give equal bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.typing import RcKeyType

# Drawn in this colour, and spelled as the page's own text colour afterwards.
INK = "#010203"
GOOD, BAD, PLAIN, PALE = "#2a9d8f", "#d1495b", "#4178bc", "#9aa5b1"
MOST_LINES = 40
_STYLE: dict[RcKeyType, Any] = {
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": PALE,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}
_ID = re.compile(r'(id="|href="#|url\(#)')
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_T = TypeVar("_T")


@dataclass(frozen=True)
class Chart:
    """``svg`` is one ``<svg>`` element; ``caption`` says in a sentence what is seen."""

    caption: str
    svg: str


def chart(name: str, caption: str, size: tuple[float, float], draw: Callable[[Axes], None]) -> Chart:
    """``draw`` on axes of ``size`` inches. ``name`` is one word that no other chart of the page has."""
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata=_NO_METADATA)
    text = out.getvalue()
    own = _ID.sub(rf"\g<1>{name}-", text[text.index("<svg") :])  # ids are the whole page's
    return Chart(caption, own.replace(INK, "currentColor"))


def lines_of(rows: Sequence[_T]) -> tuple[list[_T], str]:
    """As many rows as a chart can name, a line each, and what a caption must add where some are left out."""
    kept = list(rows[:MOST_LINES])
    return kept, f" The first {len(kept)} of {len(rows)}." if len(kept) < len(rows) else ""


def height_of(n_lines: int) -> float:
    """Inches for a chart with a line of text a row."""
    return 1.2 + 0.28 * n_lines


def name_lines(axes: Axes, names: Sequence[str]) -> None:
    """Name the lines of a chart from the top down."""
    axes.set_yticks(range(len(names)), [_label(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)


def _label(text: str) -> str:
    """Short, and with no dollar that would start a formula."""
    short = text if len(text) <= 44 else f"{text[:22]}…{text[-21:]}"
    return short.replace("$", r"\$")
