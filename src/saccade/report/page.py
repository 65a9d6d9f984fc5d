"""Views as HTML: self-contained pages that reach for nothing, run no script but ours, and treat every text as text.

Three guards, each enough by itself: templates escape whatever they are given, the page's policy allows only the one
script and style sheet whose hashes it names, and data for the script is JSON that cannot close its element.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from saccade.record.trajectory import total
from saccade.report.episode_view import (
    FILTERS,
    WARNINGS,
    EpisodeCard,
    EpisodeView,
    Verdict,
    choices,
    colour,
    is_frame,
    legend,
)
from saccade.report.picture_book import Sources
from saccade.report.sections.view import Section
from saccade.report.segments import highlighted, indented, segments
from saccade.report.words import NONE, SOURCES, STATUSES, count, cut_end, one_line, readable, short

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
