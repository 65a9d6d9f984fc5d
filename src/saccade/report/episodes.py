"""The pages of many episodes: together in one file up to a budget, beyond it each in a file of a folder next to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from markupsafe import Markup

from saccade.core.disk import write_atomic
from saccade.evals.requests import RequestTry
from saccade.media.store import MediaStore
from saccade.record.trajectory import Trajectory
from saccade.report.episode_view import EpisodeCard, EpisodeView, card, episode_view
from saccade.report.page import Other, episode_html, index_html, page_html
from saccade.report.picture_book import PictureBook, Sources
from saccade.report.words import some

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
        """Notes for a reader of the target."""
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
