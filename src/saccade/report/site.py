"""Writes the pages of a run: one episode as a page, many as an index that opens each.

All in one file while that stays below a budget; beyond it, a page for each episode in a folder beside the index. Files
appear whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from markupsafe import Markup

from saccade.evals.requests import RequestTry
from saccade.media.store import MediaStore
from saccade.record.trajectory import Trajectory
from saccade.report.episode_view import EpisodeCard, card, episode_view
from saccade.report.episodes import BUDGET, Episodes, write_page
from saccade.report.page import episode_html, index_html, page_html
from saccade.report.picture_book import PictureBook
from saccade.report.words import some

CARD: Final = 320
"""Longest side of a picture on the index, in pixels."""


@dataclass(frozen=True, slots=True)
class Written:
    """What was written."""

    page: Path
    """The page to open."""
    episodes: int
    folder: Path | None = None
    """Where the single pages lie, if one file would have been too large."""


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
        """One more episode, with what was kept of its requests."""
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
    """The page of a trajectory, or the pages of many, at `target`; their pictures are read from `store`."""
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
