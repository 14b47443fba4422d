"""A page stands alone: its plots are in it, nothing is fetched, and no name of a program becomes markup."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_facts import regression, started, submitted, write
from rich.console import Console

from tensorfarm.farm.app.report_page import write_page
from tensorfarm.farm.app.reports import budgets, regressions
from tensorfarm.farm.observe.report_table import print_report
from tensorfarm.farm.store.layout import StoreLayout

Farm = Callable[..., tuple[int, str, str]]
FETCHING = ("src", "href", "xlink:href", "action", "data", "poster", "srcset")


class Seen(HTMLParser):
    """Counts tags, and keeps everything that a browser could fetch or take twice."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in FETCHING]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture
def everything(swept: StoreLayout) -> StoreLayout:
    write(swept, (70, regression("slow", "nominated", 1.3)), (71, regression("slow", "confirmed", 1.25)))
    return swept


@pytest.mark.parametrize(("report", "n_charts"), [("cost", 3), ("budget", 2), ("staleness", 2), ("regressions", 2)])
def test_a_page_has_its_plots_and_needs_nothing_else(
    everything: StoreLayout, farm: Farm, tmp_path: Path, report: str, n_charts: int
) -> None:
    file = tmp_path / "page.html"
    code, out, err = farm("report", report, "--html", str(file))
    assert (code, err) == (0, "")
    assert f"page: {file}" in out
    text = file.read_text()
    seen = Seen(text)
    assert seen.tags.count("svg") == n_charts
    assert [address for address in seen.fetched if not address.startswith("#")] == []
    assert {"script", "link", "img", "iframe", "object"} & set(seen.tags) == set()
    assert "@import" not in text
    assert "url(http" not in text
    assert len(seen.ids) == len(set(seen.ids))
    assert {address.removeprefix("#") for address in seen.fetched} <= set(seen.ids)
    assert "prefers-color-scheme: dark" in text
    assert "currentColor" in text
    assert "slow/fx:dce" in "".join(seen.words)


def test_a_page_says_the_same_rows_as_the_table(everything: StoreLayout, farm: Farm, tmp_path: Path) -> None:
    code, out, _ = farm("report", "budget", "--html", str(tmp_path / "page.html"))
    assert code == 0
    words = "".join(Seen((tmp_path / "page.html").read_text()).words)
    assert all(cell.strip() in words for line in out.splitlines()[1:4] for cell in line.split("  "))


def test_a_program_named_like_markup_is_text(layout: StoreLayout, tmp_path: Path) -> None:
    name = "<b onclick=x>&$y$"
    write(layout, (0, started()), (1, submitted("fast")), (2, regression(name, "confirmed", 1.2)))
    write_page(tmp_path / "page.html", regressions(layout.root, every=True), layout.root, None)
    seen = Seen((tmp_path / "page.html").read_text())
    assert "b" not in seen.tags
    assert any(name in word for word in seen.words)
    assert any("$y$" in word for word in seen.words)


def test_a_report_with_nothing_to_draw_is_still_a_page(layout: StoreLayout, tmp_path: Path) -> None:
    write(layout, (0, started()), (1, submitted("fast")))
    write_page(tmp_path / "page.html", regressions(layout.root, every=False), layout.root, None)
    write_page(tmp_path / "budget.html", budgets(layout.root), layout.root, None)
    assert "svg" not in Seen((tmp_path / "page.html").read_text()).tags
    assert "svg" not in Seen((tmp_path / "budget.html").read_text()).tags


def test_the_same_rows_give_the_same_page(everything: StoreLayout, tmp_path: Path) -> None:
    report = budgets(everything.root)
    for name in ("one", "two"):
        write_page(tmp_path / name, report, everything.root, None)
    one, two = ((tmp_path / name).read_text().splitlines() for name in ("one", "two"))
    assert [line for line in one if "read at" not in line] == [line for line in two if "read at" not in line]


def test_a_page_that_cannot_be_written_is_refused_in_one_line(
    everything: StoreLayout, farm: Farm, tmp_path: Path
) -> None:
    code, _, err = farm("report", "budget", "--html", "")
    assert (code, "--html needs a file" in err) == (2, True)
    code, _, err = farm("report", "budget", "--html", str(tmp_path / "nowhere" / "page.html"))
    assert code == 2
    assert "cannot be written" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("width", [30, 60, 80, 100, 200])
def test_a_table_fits_the_screen_and_keeps_what_matters(everything: StoreLayout, width: int, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as stream:
        report = budgets(everything.root)
        print_report(Console(file=stream, width=width), report)
    lines = (tmp_path / "out").read_text().splitlines()
    table = lines[: -len(report.summary)]
    assert any("killed" in line for line in table)
    assert any("100 %" in line for line in table)
    assert width < 60 or all(len(line) <= width for line in table)


def test_json_and_a_page_at_once_keep_standard_output_for_json(
    everything: StoreLayout, farm: Farm, tmp_path: Path
) -> None:
    code, out, err = farm("report", "cost", "--json", "--html", str(tmp_path / "page.html"))
    assert code == 0
    assert out.startswith("{")
    assert out.count("\n") == 1
    assert "page:" in err
