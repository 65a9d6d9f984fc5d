"""Writes the pages of a run: one episode as a page, many as an index that opens each.

All in one file while that stays below a budget; beyond it, a page for each episode in a folder beside the index. Files
appear whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from markupsafe import Markup

from saccade.media.store import MediaStore
from saccade.record.trajectory import Trajectory
from saccade.report.episode_view import card, episode_view
from saccade.report.page import episode_html, index_html, page_html
from saccade.report.picture_book import PictureBook, Sources
from saccade.report.view import Card, EpisodeView
from saccade.report.words import some

BUDGET: Final = 24_000_000
"""Bytes of a page with many episodes, about."""
_CARD = 320
"""Longest side of a picture on the index, in pixels."""


@dataclass(frozen=True, slots=True)
class Written:
    """What was written."""

    page: Path
    """The page to open."""
    episodes: int
    folder: Path | None = None
    """Where the single pages lie, if one file would have been too large."""


@dataclass(frozen=True, slots=True)
class _Episode:
    view: EpisodeView
    sources: dict[str, Sources]
    body: Markup
    """As it stands beside others in one file."""


class Site:
    """The pages of one run, written while its trajectories come in. Not for two runs."""

    def __init__(self, target: Path, store: MediaStore | None, *, budget: int = BUDGET) -> None:
        """`target` is the page to be opened; nothing is written before `add` or `finish` has to."""
        self._target = target
        self._folder = target.with_name(f"{target.stem}_episodes")
        self._budget = budget
        self._book = PictureBook(store)
        self._thumbnails = PictureBook(store, thumbnail=_CARD, large=_CARD)
        self._together: list[_Episode] = []
        self._sources: dict[str, Sources] = {}
        """Of all episodes together."""
        self._cards: list[Card] = []
        self._apart = False

    def add(self, trajectory: Trajectory) -> None:
        """One more episode."""
        number = len(self._cards) + 1
        self._book.new_page()
        view = episode_view(f"e{number}", trajectory, self._book)
        self._cards.append(card(f"#e{number}", trajectory, self._thumbnails))
        self._together.append(_Episode(view, self._book.sources, episode_html(view, back="#")))
        self._sources |= self._book.sources
        if self._apart or (number > 1 and self._size() > self._budget):
            self._apart = True
            for episode in self._together:
                self._write_apart(episode)
            self._together.clear()
            self._sources.clear()

    def finish(self, problems: tuple[str, ...] = ()) -> Written:
        """Write what is left; `problems` are sentences about what could not be read."""
        if len(self._cards) == 1:
            [only] = self._together
            _write(self._target, page_html(only.view.question, episode_html(only.view), only.sources, problems))
            return Written(self._target, 1)
        sources = self._thumbnails.sources | self._sources
        cards, facts = tuple(self._cards), _facts(self._cards)
        if self._apart:
            facts += (f"One file would be larger than {self._budget / 1e6:g} MB, so each episode has its own.",)
            cards = tuple(replace(own, href=f"{self._folder.name}/{own.href[1:]}.html") for own in cards)
        body = Markup("").join([index_html(cards, facts), *(episode.body for episode in self._together)])
        _write(self._target, page_html(f"{len(cards)} episodes", body, sources, problems))
        return Written(self._target, len(cards), self._folder if self._apart else None)

    def _size(self) -> int:
        """Bytes of one file with every episode so far, about."""
        pictures = sum(source.bytes for source in self._sources.values())
        return pictures + sum(len(episode.body) for episode in self._together)

    def _write_apart(self, episode: _Episode) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        body = episode_html(episode.view, back=f"../{self._target.name}")
        path = self._folder / f"{episode.view.anchor}.html"
        _write(path, page_html(episode.view.question, body, episode.sources))


def write_pages(
    trajectories: Iterable[Trajectory], store: MediaStore | None, target: Path, *, budget: int = BUDGET
) -> Written:
    """The page of a trajectory, or the pages of many, at `target`; their pictures are read from `store`."""
    site = Site(target, store, budget=budget)
    for trajectory in trajectories:
        site.add(trajectory)
    return site.finish()


def _facts(cards: list[Card]) -> tuple[str, ...]:
    judged = [own.verdict.right for own in cards if own.verdict.right is not None]
    facts = [f"{sum(own.answered for own in cards):,} of {some(len(cards), 'episode')} answered"]
    if judged:
        facts.append(f"{sum(judged):,} of {len(judged):,} scored answers are right")
    return tuple(f"{fact}." for fact in facts)


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
