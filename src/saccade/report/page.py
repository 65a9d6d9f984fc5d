"""Views as HTML: self-contained pages that reach for nothing, run no script but ours, and treat every text as text.

Three guards, each enough by itself: templates escape whatever they are given, the page's policy allows only the one
script and style sheet whose hashes it names, and data for the script is JSON that cannot close its element.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from saccade.core.disk import write_atomic
from saccade.evals.grades import SampleFailure
from saccade.evals.requests import RequestTry
from saccade.evals.rows import COLUMNS, EvalRow
from saccade.evals.stored import Listed, cost_text
from saccade.media.store import MediaStore
from saccade.record.trajectory import Trajectory, total
from saccade.report.episode_view import (
    FILTERS,
    WARNINGS,
    EpisodeCard,
    EpisodeView,
    Verdict,
    card,
    choices,
    colour,
    episode_view,
    highlighted,
    indented,
    is_frame,
    legend,
    segments,
)
from saccade.report.picture_book import PictureBook, ShownMedia, Sources
from saccade.report.plots import clean
from saccade.report.runs import LOST, OUTCOMES, EvalRun
from saccade.report.sections.results import OUTCOME_COLOURS
from saccade.report.sections.view import Section, between, percent, title_of
from saccade.report.words import NONE, SOURCES, STATUSES, count, cut_end, one_line, readable, short, some

_STORED = "Made by Saccade. This page reaches for nothing outside itself."
_VIEWED = "Made by saccade view. This page asks nobody but the server on this machine."
_ASSETS = resources.files("saccade.report").joinpath("assets")


@dataclass(frozen=True, slots=True)
class ServedPart:
    """Additions to a page that a server gives: it may ask that server for data."""

    footer: str
    style: str = ""
    script: str = ""
    allows: str = ""
    """Further directives of its policy, each ended by `; `."""


@dataclass(frozen=True, slots=True)
class Other:
    """Another episode of the same task, as a link."""

    href: str
    name: str
    verdict: Verdict


RunLine = tuple[str, str, Sequence[tuple[str, str]]]
"""A run in a list of runs: its name, its address (empty if it has no page), and of each further column the text and
what it is sorted by: a number or a text, empty if not known."""


def episode_html(view: EpisodeView, back: str = "", others: tuple[Other, ...] = (), root: str = "") -> Markup:
    """Return one episode as a fragment of a page.

    `back` is the address of the index, empty if there is none; `root` leads from the page to the folder of the index.
    """
    return _render("episode.html.j2", episode=view, record=view.trajectory, back=back, others=others, root=root)


def index_html(cards: tuple[EpisodeCard, ...], facts: tuple[str, ...]) -> Markup:
    """Return the cards of many episodes as a fragment of a page; `facts` are sentences above them."""
    return _render("index.html.j2", cards=cards, facts=facts)


def report_html(title: str, lead: str, sections: tuple[Section, ...], facts: tuple[str, ...], gallery: bool) -> Markup:
    """Render the sections of a report as a fragment of a page, with room for a gallery.

    Above them stand `lead`, what the report comes to, and `facts`.
    """
    return _render("report.html.j2", title=title, lead=lead, sections=sections, facts=facts, gallery=gallery)


def live_page(title: str, gallery: Mapping[str, object]) -> str:
    """Return the page of a run that grows; it asks for its data again and again."""
    served = ServedPart(_VIEWED, script=_asset("live.js"))
    return page_html(title, _render("live.html.j2", title=title), {}, gallery=gallery, served=served)


def list_html(heads: tuple[str, ...], lines: Sequence[RunLine]) -> Markup:
    """Return runs as a table, as a fragment of a page."""
    return _render("runs.html.j2", heads=heads, lines=lines)


def folded(anchor: str, body: Markup) -> Markup:
    """Return an episode that the browser reads only when it is asked for."""
    return Markup('<template id="{}-folded">{}</template>').format(anchor, body)


def page_html(
    title: str,
    body: Markup,
    sources: Mapping[str, Sources],
    problems: tuple[str, ...] = (),
    gallery: Mapping[str, object] | None = None,
    served: ServedPart | None = None,
) -> str:
    """Return a whole page around `body`, with the pictures that it names and what could not be read of the run.

    A page with a `gallery` is a report: it has that style and script too. A `served` one asks the server that it came
    from for further data, and may ask nobody else.
    """
    style, script = _asset("page.css"), _asset("page.js")
    if gallery is not None:
        style, script = style + _asset("report.css"), script + _asset("report.js")
    if '<table class="sheet sortable">' in body:
        style, script = style + _asset("report.css"), script + _asset("tables.js")
    if served is not None:
        style, script = style + served.style, script + served.script
    # A video is too large for a page: its player reads the file next to it, and only pages with one may.
    plays = "media-src 'self' file:; " if "<video " in body else ""
    asks = "" if served is None else f"connect-src 'self'; {served.allows}"
    policy = (
        f"default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; {plays}{asks}"
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    )
    pictures = {key: [found.thumb, *([found.large] if found.large else [])] for key, found in sources.items()}
    return _render(
        "page.html.j2",
        title=one_line(title, 120),
        policy=policy,
        style=Markup(style),  # our own files, no text of anybody else
        script=Markup(script),
        body=body,
        pictures=script_json(pictures),
        problems=problems,
        footer=_STORED if served is None else served.footer,
        gallery=None if gallery is None else script_json(gallery),
    )


def script_json(value: object) -> Markup:
    """Return JSON for a script element: nothing in it can end the element, open a comment or break a line."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _render(name: str, **values: Any) -> Markup:
    return Markup(_environment().get_template(name).render(values))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    environment.filters |= {made.__name__: made for made in FILTERS}
    environment.filters |= {made.__name__: made for made in (one_line, highlighted, indented, legend, segments, short)}
    environment.filters |= {"amount": count, "hue": colour}
    environment.tests["frame"] = is_frame
    environment.globals |= {"choices": choices, "sum_of_scores": total, "NONE": NONE}
    environment.globals |= {"STATUSES": STATUSES, "SOURCES": SOURCES, "WARNINGS": WARNINGS}
    return environment


def _finalized(value: Any) -> Any:
    """Return every text of an expression, before it is escaped."""
    return readable(cut_end(value)) if type(value) is str else value


@cache
def _asset(name: str) -> str:
    return _ASSETS.joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(sha256(text.encode()).digest()).decode("ascii")


# The pages of many episodes: together in one file up to a budget, beyond it each in a file of a folder next to it.


BUDGET: Final = 24_000_000
"""Bytes of a page with many episodes, about."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode, ready to be written in either way."""

    view: EpisodeView
    sources: dict[str, Sources]
    body: Markup
    """As it stands next to others in one file."""
    others: tuple[Other, ...] = ()


class Episodes:
    """Gathers episodes for the page `target`. Nothing is written before the budget is passed."""

    def __init__(self, target: Path, *, budget: int = BUDGET) -> None:
        self.folder = target.with_name(f"{target.stem}_episodes")
        self.together: list[Episode] = []
        """Those for one file; none once they are written apart."""
        self.sources: dict[str, Sources] = {}
        """Pictures of all of them."""
        self.apart = False
        """Whether each has a file of its own."""
        self.count = 0
        self._target = target
        self._budget = budget
        self._bytes = 0
        """Of one file with every episode so far, about."""

    def add(self, view: EpisodeView, sources: dict[str, Sources], others: tuple[Other, ...] = ()) -> None:
        """Add an episode with the pictures that it shows; `others` link to anchors, as in one file."""
        self.count += 1
        self.together.append(Episode(view, sources, episode_html(view, back="#", others=others), others))
        self._bytes += len(self.together[-1].body)
        self._bytes += sum(source.bytes for key, source in sources.items() if key not in self.sources)
        self.sources |= sources
        if self.apart or (self.count > 1 and self._bytes > self._budget):
            self.apart = True
            for episode in self.together:
                self._write(episode)
            self.together.clear()
            self.sources.clear()

    def href(self, anchor: str) -> str:
        """Return the address of the episode of that anchor from the target, once all are added."""
        return f"{self.folder.name}/{anchor}.html" if self.apart else f"#{anchor}"

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.apart:
            return ()
        return (f"One file would be larger than {self._budget / 1e6:g} MB, so each episode has its own.",)

    def _write(self, episode: Episode) -> None:
        others = tuple(replace(other, href=f"{other.href.removeprefix('#')}.html") for other in episode.others)
        body = episode_html(episode.view, back=f"../{self._target.name}", others=others, root="../")
        path = self.folder / f"{episode.view.anchor}.html"
        write_page(path, page_html(episode.view.title, body, episode.sources))


def write_page(path: Path, text: str) -> None:
    """Write a page; it appears whole or not at all."""
    write_atomic(path, text)


CARD: Final = 320
"""Longest side of a picture on the index, in pixels."""


@dataclass(frozen=True, slots=True)
class Written:
    """Pages that were written."""

    page: Path
    """The page to open."""
    episodes: int
    folder: Path | None = None
    """Where the single pages are, if one file would have been too large."""


class Site:
    """The pages of one run, written while its trajectories come in. Not for two runs."""

    def __init__(self, target: Path, store: MediaStore | None, *, budget: int = BUDGET) -> None:
        """`target` is the page to be opened; nothing is written before `add` or `finish` has to."""
        self._target = target
        self._book = PictureBook(store)
        self._book.folder = target.parent
        self._thumbnails = self._book.smaller(CARD)
        self._episodes = Episodes(target, budget=budget)
        self._cards: list[EpisodeCard] = []

    def add(self, trajectory: Trajectory, wires: tuple[RequestTry, ...] = ()) -> None:
        """Add an episode, with what was kept of its requests."""
        number = len(self._cards) + 1
        self._book.new_page()
        view = episode_view(f"e{number}", trajectory, self._book, wires=wires)
        self._cards.append(card(f"e{number}", trajectory, self._thumbnails))
        self._episodes.add(view, self._book.sources)

    def finish(self, problems: tuple[str, ...] = ()) -> Written:
        """Write what is left; `problems` are sentences about what could not be read."""
        episodes = self._episodes
        if episodes.count == 1:
            [only] = episodes.together
            write_page(self._target, page_html(only.view.title, episode_html(only.view), only.sources, problems))
            return Written(self._target, 1)
        cards = tuple(replace(own, href=episodes.href(own.href)) for own in self._cards)
        facts = (*_facts(self._cards), *episodes.notes)
        body = Markup("").join([index_html(cards, facts), *(episode.body for episode in episodes.together)])
        sources = self._thumbnails.sources | episodes.sources
        write_page(self._target, page_html(f"{len(cards)} episodes", body, sources, problems))
        return Written(self._target, len(cards), episodes.folder if episodes.apart else None)


def write_pages(
    trajectories: Iterable[Trajectory], store: MediaStore | None, target: Path, *, budget: int = BUDGET
) -> Written:
    """Return the page of a trajectory, or the pages of many, at `target`; their pictures are read from `store`."""
    site = Site(target, store, budget=budget)
    for trajectory in trajectories:
        site.add(trajectory)
    return site.finish()


def _facts(cards: list[EpisodeCard]) -> tuple[str, ...]:
    judged = [own.verdict.right for own in cards if own.verdict.right is not None]
    facts = [f"{sum(own.answered for own in cards):,} of {some(len(cards), 'episode')} answered"]
    if judged:
        facts.append(f"{sum(judged):,} of {len(judged):,} scored answers are right")
    return tuple(f"{fact}." for fact in facts)


# Makes a page of a folder's evaluations (a sortable table with links), and the data of a report's gallery.


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
    return defaultdict(itertools.count(len(texts)).__next__, {text: number for number, text in enumerate(texts)})


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
