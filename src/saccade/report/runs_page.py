"""Makes a page of a folder's evaluations (a sortable table with links), and the data of a report's gallery."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path
from urllib.parse import quote

from saccade.evals.grades import SampleFailure
from saccade.evals.listing import Listed, cost_text
from saccade.evals.rows import COLUMNS, EvalRow
from saccade.report.page import RunLine, list_html, page_html
from saccade.report.picture_book import ShownMedia
from saccade.report.plots import clean
from saccade.report.runs import LOST, OUTCOMES, EvalRun
from saccade.report.sections.results import OUTCOME_COLOURS
from saccade.report.sections.view import between, percent, title_of
from saccade.report.words import NONE

HEADS = ("run", "model", "dialect", "sources", "samples", "right, %", "95% interval", "cost", "changed (UTC)", "state")
REPORT = "report.html"


def runs_page(runs: list[Listed], href: Callable[[Listed], str]) -> str:
    """Return the page; `href` is where a run is found, empty where it has no page."""
    lines = tuple(_line(run, quote(href(run))) for run in runs)
    problems = tuple(f"{run.name}: {run.problem}" for run in runs if run.problem)
    return page_html("Evaluations", list_html(HEADS, lines), {}, problems)


def report_beside(folder: Path) -> Callable[[Listed], str]:
    """Return a function that finds a run's report from a page in `folder`; empty where none was made."""
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


# Texts are made readable here; the script sets them as text, never as HTML.

_NUMBERS = {name: column for name, column in COLUMNS.items() if column.shown}
_QUESTION, _ANSWER = 160, 100
"""Characters of texts on cards."""


def _numbered(*texts: str) -> defaultdict[str, int]:
    """Return the numbers of texts; one that is new gets the next."""
    return defaultdict(count(len(texts)).__next__, {text: number for number, text in enumerate(texts)})


class Gallery:
    """Gathers the cards of a report, in any order."""

    def __init__(self, labels: Iterable[str] = ()) -> None:
        """`labels` are what cards can have besides an outcome, in the order in which they are offered."""
        self._runs, self._sources, self._dialects = _numbered(), _numbered(), _numbered()
        self._labels = _numbered(*OUTCOMES, *labels)
        self._cards: dict[int, list[object]] = {}
        self._lost: list[list[object]] = []

    def add(self, number: int, run: EvalRun, row: EvalRow, picture: ShownMedia | None) -> None:
        """Add the card of the episode at anchor `e{number}`, by which cards are sorted."""
        labels = sorted(self._labels[name] for name in run.labels[row.id])
        self._cards[number] = [
            self._runs[run.name],
            self._sources[row.source],
            self._dialects[run.dialects.get(row.id, "")],
            labels,
            clean(row.question, _QUESTION),
            None if row.answer is None else clean(row.answer, _ANSWER),
            None if row.gold is None else clean(row.gold, _ANSWER),
            clean(row.id, 80),
            "" if picture is None or picture.problem else picture.key,
            "" if picture is None else picture.problem,
            *(getattr(row, name) for name in _NUMBERS),
        ]

    def add_lost(self, run: EvalRun, failure: SampleFailure) -> None:
        """Add a sample that has no episode: a card that opens nothing."""
        run_number, lost = self._runs[run.name], [self._labels[LOST]]
        why = clean(f"{failure.kind.replace('_', ' ')}: {failure.detail}", 300)
        self._lost.append(
            [run_number, -1, -1, lost, why, None, None, clean(failure.id, 80), "", "", *[None] * len(_NUMBERS)]
        )

    @property
    def count(self) -> int:
        return len(self._cards) + len(self._lost)

    def data(self, hrefs: Mapping[int, str]) -> dict[str, object]:
        """Return the data of the page's script; `hrefs` are the addresses of the episodes."""
        items = [[hrefs[number], *self._cards[number]] for number in sorted(self._cards)]
        items += [["", *card] for card in self._lost]
        return {
            "runs": list(map(clean, self._runs)),
            "sources": [clean(title_of(source)) for source in self._sources],
            "dialects": list(map(clean, self._dialects)),
            "labels": list(map(clean, self._labels)),
            "outcomes": len(OUTCOMES),
            "tones": list(OUTCOME_COLOURS.values()),
            "columns": [[name, column.shown, column.digits] for name, column in _NUMBERS.items()],
            "items": items,
        }
