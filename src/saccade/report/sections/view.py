"""Define a section of a report as plain frozen data: the seam between findings and the template."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from saccade.errors import SaccadeError
from saccade.evals.metrics import Comparison, Difference
from saccade.evals.protocols.base import Mean, Rate
from saccade.evals.summary import markdown
from saccade.report.plots import Figure, short_percent
from saccade.report.words import NONE
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.registry import recorded_card

_NARROW = 84
"""Characters across a table that fits next to a figure."""
_WRAPPED = 24
"""Characters after which a column of words is taken to wrap."""


@dataclass(frozen=True, slots=True)
class SectionRow:
    """A row of a table."""

    cells: tuple[str, ...]
    colour: str = ""
    """Class of the run that it is of; empty for none."""
    reference: bool = False
    """Whether it is a published number and none of these runs."""


@dataclass(frozen=True, slots=True)
class SectionTable:
    """A table. The first column is a name; the `words` last ones are texts, the others numbers."""

    title: str
    heads: tuple[str, ...]
    lines: tuple[SectionRow, ...]
    words: int = 0
    folded: bool = False
    """Whether it is opened only when it is wanted."""

    @property
    def width(self) -> int:
        columns = list(zip(self.heads, *(line.cells for line in self.lines), strict=True))
        lengths = [max(map(len, column)) for column in columns]
        plain = len(columns) - self.words
        return sum(lengths[:plain]) + sum(min(length, _WRAPPED) for length in lengths[plain:])


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of a section: notes, tables and figures about one thing."""

    title: str
    notes: tuple[str, ...] = ()
    sheets: tuple[SectionTable, ...] = ()
    figures: tuple[Figure, ...] = ()
    details: tuple[str, ...] = ()
    """Lines for a terminal only, such as ids of samples; a page has its gallery for them."""

    @property
    def beside(self) -> bool:
        """Whether its one figure stands next to its tables, where the page is wide enough: they are narrow."""
        shown = [sheet for sheet in self.sheets if not sheet.folded]
        return (
            sum(not figure.flat for figure in self.figures) == 1
            and bool(shown)
            and all(sheet.width <= _NARROW for sheet in shown)
        )


@dataclass(frozen=True, slots=True)
class Section:
    """A section with its place in the page's list of contents."""

    anchor: str
    title: str
    panels: tuple[Panel, ...]
    folded: bool = False
    """Whether each panel is opened only when it is wanted."""


def panel_text(panel: Panel) -> str:
    """Write a panel for a terminal, in Markdown; its figures are left out, as its tables hold their numbers."""
    lines: list[str] = []
    for sheet in panel.sheets:
        lines += [f"{sheet.title}:", "", *markdown(sheet.heads, (row.cells for row in sheet.lines)), ""]
    return "\n".join([*lines, *panel.notes, *panel.details])


def figures(*found: Figure | None) -> tuple[Figure, ...]:
    """Return those that have something to show."""
    return tuple(figure for figure in found if figure is not None)


def percent(value: float | None) -> str:
    """Return a share as percent without its sign, as tables of scores write it."""
    return NONE if value is None else short_percent(value)


def between(ends: Iterable[float] | None) -> str:
    """Return an interval of shares."""
    return NONE if ends is None else "–".join(short_percent(end) for end in ends)


def difference_cells(found: Comparison | Difference) -> tuple[str, str, str]:
    """Return a difference in points, its interval, and p."""
    low, high = found.interval
    gap, ends = f"{100 * found.difference:+.1f}", f"{100 * low:+.1f} to {100 * high:+.1f}"
    return gap.replace("-", "−"), ends.replace("-", "−"), f"{found.p:.3g}"


def rate(share: Rate) -> str:
    """Return a rate as percent with its interval, where it has one."""
    if share.value is None:
        return NONE
    ends = "" if share.low is None or share.high is None else f" ({between((share.low, share.high))})"
    return f"{percent(share.value)}{ends}"


def mean(value: Mean | None, *, share: bool = False, of: int = 0) -> str:
    """Write a mean with its interval; a `share` as percent. Over fewer than `of` samples it says over how many."""
    if value is None:
        return NONE
    part = f", of {value.samples:,}" if value.samples < of else ""
    if share:
        return f"{percent(value.value)} ({between((value.low, value.high))}{part})"
    digits = 0 if value.value >= 10 else 1
    ends = f"{value.low:,.{digits}f}–{value.high:,.{digits}f}"
    return f"{value.value:,.{digits}f} ({ends}{part})"


def card_of(source: str) -> Card | None:
    """Return the card of a benchmark by the name under which tasks record it; None for any other source."""
    try:
        return recorded_card(source)
    except SaccadeError:
        return None


def title_of(source: str) -> str:
    """Return what a benchmark is called; the name itself of any other source."""
    card = card_of(source)
    return card.title if card is not None else source or "tasks without a source"
