"""The evaluations of a folder as a page: a table that sorts by any column, with a link to each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from saccade.evals.listing import Listed, cost_text
from saccade.report.page import RunLine, list_html, page_html
from saccade.report.sections.view import between, percent
from saccade.report.words import NONE

HEADS = ("run", "model", "dialect", "sources", "samples", "right, %", "95% interval", "cost", "changed (UTC)", "state")
REPORT = "report.html"


def runs_page(runs: list[Listed], href: Callable[[Listed], str]) -> str:
    """The page; `href` is where a run is found, empty where it has no page."""
    lines = tuple(_line(run, quote(href(run))) for run in runs)
    problems = tuple(f"{run.name}: {run.problem}" for run in runs if run.problem)
    return page_html("Evaluations", list_html(HEADS, lines), {}, problems)


def report_beside(folder: Path) -> Callable[[Listed], str]:
    """Where the report of a run lies, from a page in `folder`; empty where none was made."""
    return lambda run: (run.path / REPORT).relative_to(folder).as_posix() if (run.path / REPORT).is_file() else ""


def _line(run: Listed, href: str) -> RunLine:
    cells = (
        (run.model, run.model),
        (run.dialect, run.dialect),
        (", ".join(run.sources), ", ".join(run.sources)),
        (f"{run.samples:,}", str(run.samples)),
        (percent(run.right), "" if run.right is None else str(run.right)),
        (between(run.interval), "" if run.interval is None else str(run.interval.low)),
        (cost_text(run).replace("–", NONE), "" if run.dollars is None else str(run.dollars)),
        (f"{run.changed:%Y-%m-%d %H:%M}", str(run.changed.timestamp())),
        (run.state, run.state),
    )
    return run.name, href, cells
