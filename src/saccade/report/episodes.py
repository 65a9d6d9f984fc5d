"""The pages of many episodes: together in one file up to a budget, beyond it each in a file of a folder next to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from markupsafe import Markup

from saccade.core.disk import write_atomic
from saccade.evals.compare import Comparison
from saccade.evals.requests import RequestTry
from saccade.media.store import MediaStore
from saccade.record.trajectory import Trajectory
from saccade.report.episode_view import EpisodeCard, EpisodeView, card, episode_view, verdict
from saccade.report.page import Other, episode_html, index_html, page_html
from saccade.report.picture_book import PictureBook, Sources
from saccade.report.stored_run import StoredRun
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


# The gallery of two runs' differences: every episode of the tasks that one of them solved better, first those that the
# first run did. Each episode links to those of the same task. Runs are read as streams; only cards are kept in memory.


@dataclass(frozen=True, slots=True)
class RunSide:
    """One of the runs."""

    name: str
    """Name on the page."""
    run: StoredRun

    def episodes(self, tasks: Mapping[str, int]) -> Iterator[Trajectory]:
        """Return its trajectories of these tasks."""
        return (trajectory for trajectory in self.run.trajectories() if trajectory.task.id in tasks)


def write_differences(
    comparison: Comparison, sides: tuple[RunSide, RunSide], target: Path, *, budget: int = BUDGET
) -> Written:
    """Write the page `target` with the differences that `comparison` names; beyond the budget a folder next to it."""
    tasks = {pair.task: place for place, pair in enumerate(comparison.differing)}
    anchors, others = _links(sides, tasks)
    episodes = Episodes(target, budget=budget)
    cards: dict[tuple[int, ...], EpisodeCard] = {}
    thumbnails: dict[str, Sources] = {}
    for number, side in enumerate(sides):
        book = PictureBook(side.run.store)
        small = book.smaller(CARD)
        for trajectory in side.episodes(tasks):
            anchor = anchors[number, trajectory.id]
            named = trajectory.model_copy(update={"id": f"{side.name}: {trajectory.id}"})
            book.new_page()
            beside = tuple(other for other in others[trajectory.task.id] if other.href != f"#{anchor}")
            episodes.add(episode_view(anchor, named, book), book.sources, beside)
            order = (tasks[trajectory.task.id], trajectory.rollout, number)
            cards[order] = card(anchor, named, small)
        thumbnails |= small.sources
    placed = tuple(replace(cards[order], href=episodes.href(cards[order].href)) for order in sorted(cards))
    body = [
        index_html(placed, (*_comparison_facts(comparison, sides), *episodes.notes)),
        *(one.body for one in episodes.together),
    ]
    problems = tuple(problem for side in sides for problem in dict.fromkeys(side.run.problems))
    title = f"{sides[0].name} against {sides[1].name}"
    write_page(target, page_html(title, Markup("").join(body), thumbnails | episodes.sources, problems))
    return Written(target, episodes.count, episodes.folder if episodes.apart else None)


def _links(
    sides: tuple[RunSide, RunSide], tasks: Mapping[str, int]
) -> tuple[dict[tuple[int, str], str], dict[str, list[Other]]]:
    """Return the anchor of each episode by its side and id, and the links to all of a task."""
    anchors: dict[tuple[int, str], str] = {}
    others: dict[str, list[Other]] = defaultdict(list)
    for number, side in enumerate(sides):
        for trajectory in side.episodes(tasks):
            anchor = anchors[number, trajectory.id] = f"e{len(anchors) + 1}"
            name = f"{side.name} #{trajectory.rollout}"
            others[trajectory.task.id].append(Other(f"#{anchor}", name, verdict(trajectory.scores)))
    return anchors, others


def _comparison_facts(comparison: Comparison, sides: tuple[RunSide, RunSide]) -> tuple[str, ...]:
    first, second = sides
    return (
        f"{first.name} against {second.name}:",
        f"of {some(len(comparison.pairs), 'task')} in both, {comparison.wins:,} are better in the first and "
        f"{comparison.losses:,} in the second; {comparison.test}: p = {comparison.p:.3g}.",
        "Each task stands once for every sample of each run.",
    )
