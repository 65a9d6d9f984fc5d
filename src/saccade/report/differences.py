"""Writes the gallery of two runs' differences: every episode of the tasks that one of them solved better, in pairs.

The tasks come as the comparison orders them: those in which the first run is better, then the others. Each episode
links to those of the same task. The runs are read as streams; only cards are kept in memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup

from saccade.evals.compare import Comparison
from saccade.record.trajectory import Trajectory
from saccade.report.episode_view import EpisodeCard, card, episode_view, verdict
from saccade.report.episodes import BUDGET, CARD, Episodes, Written, write_page
from saccade.report.page import Other, index_html, page_html
from saccade.report.picture_book import PictureBook, Sources
from saccade.report.stored_run import StoredRun
from saccade.report.words import some


@dataclass(frozen=True, slots=True)
class RunSide:
    """One of the runs."""

    name: str
    """What the page calls it."""
    run: StoredRun

    def episodes(self, tasks: Mapping[str, int]) -> Iterator[Trajectory]:
        """Its trajectories of these tasks."""
        return (trajectory for trajectory in self.run.trajectories() if trajectory.task.id in tasks)


def write_differences(
    comparison: Comparison, sides: tuple[RunSide, RunSide], target: Path, *, budget: int = BUDGET
) -> Written:
    """Write the page `target` with the differences that `comparison` names; beyond the budget a folder beside it."""
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
    body = [index_html(placed, (*_facts(comparison, sides), *episodes.notes)), *(one.body for one in episodes.together)]
    problems = tuple(problem for side in sides for problem in dict.fromkeys(side.run.problems))
    title = f"{sides[0].name} against {sides[1].name}"
    write_page(target, page_html(title, Markup("").join(body), thumbnails | episodes.sources, problems))
    return Written(target, episodes.count, episodes.folder if episodes.apart else None)


def _links(
    sides: tuple[RunSide, RunSide], tasks: Mapping[str, int]
) -> tuple[dict[tuple[int, str], str], dict[str, list[Other]]]:
    """The anchor of each episode by its side and id, and the links to all of a task."""
    anchors: dict[tuple[int, str], str] = {}
    others: dict[str, list[Other]] = defaultdict(list)
    for number, side in enumerate(sides):
        for trajectory in side.episodes(tasks):
            anchor = anchors[number, trajectory.id] = f"e{len(anchors) + 1}"
            name = f"{side.name} #{trajectory.rollout}"
            others[trajectory.task.id].append(Other(f"#{anchor}", name, verdict(trajectory.scores)))
    return anchors, others


def _facts(comparison: Comparison, sides: tuple[RunSide, RunSide]) -> tuple[str, ...]:
    first, second = sides
    return (
        f"{first.name} against {second.name}:",
        f"of {some(len(comparison.pairs), 'task')} in both, {comparison.wins:,} are better in the first and "
        f"{comparison.losses:,} in the second; {comparison.test}: p = {comparison.p:.3g}.",
        "Each task stands once for every sample of each run.",
    )
