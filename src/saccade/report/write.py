"""Writes the report of runs: one page that reaches for nothing outside itself, and pages of its episodes.

Episodes are in the page too while they stay below a budget; beyond it they lie in a folder beside it. What a run holds
is read twice, trajectory by trajectory: once for the figures, once for the pages.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from markupsafe import Markup

from saccade.evals.api import Evaluation
from saccade.evals.rows import EvalRow, natural
from saccade.report.episode_view import Verdict, episode_view
from saccade.report.episodes import Episodes, Written, write_page
from saccade.report.page import Other, folded, page_html, report_html
from saccade.report.picture_book import PictureBook, Sources
from saccade.report.plots import clean
from saccade.report.runs import FAILED_CALL, EvalRun, Runs, findings_of, open_runs, own_findings
from saccade.report.runs_page import Gallery
from saccade.report.sections.protocols import LABELS, NAMES, labels, protocols
from saccade.report.sections.results import comparison, differing, results
from saccade.report.sections.training import about, training
from saccade.report.sections.view import Section
from saccade.report.stored_run import wires_of
from saccade.report.words import some

BUDGET: Final = 12_000_000
"""Bytes of the episodes in the page, about; beyond it they have pages of their own, and the report opens quickly."""
THUMBNAIL: Final = 200
"""Longest side of a picture in the gallery, in pixels."""
DIFFERS: Final = "runs differ"
"""Label of samples whose task runs solved to a different degree."""
_OTHERS = 24
"""Most links from one episode to others of its task."""

CountCallback = Callable[[int, int], None]
"""Hears how many episodes are written, and of how many."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One sample and the number of its page."""

    number: int
    run: EvalRun
    row: EvalRow


class _Order:
    """The samples of all runs by task, so that the runs' answers to one task are neighbours."""

    def __init__(self, runs: Sequence[EvalRun]) -> None:
        listed = [(natural(row.task), place, row.rollout, row) for place, run in enumerate(runs) for row in run.rows]
        listed.sort(key=lambda item: item[:3])
        self.places: dict[tuple[str, str], _Place] = {}
        self._of_task: dict[str, list[_Place]] = defaultdict(list)
        for number, (_, place, _, row) in enumerate(listed, 1):
            kept = _Place(number, runs[place], row)
            self.places[runs[place].name, row.id] = kept
            self._of_task[row.task].append(kept)

    def others(self, place: _Place) -> tuple[Other, ...]:
        """The other episodes of its task, the nearest ones."""
        near = self._of_task[place.row.task]
        start = max(0, min(near.index(place) - _OTHERS // 2, len(near) - _OTHERS - 1))
        return tuple(_other(one) for one in near[start : start + _OTHERS + 1] if one is not place)


def write_report(
    runs: Runs,
    target: Path,
    *,
    title: str = "",
    budget: int = BUDGET,
    watch: CountCallback = lambda done, total: None,
) -> Written:
    """Write the report of `runs` to the page `target`.

    Raises:
        RecordError: a run's failures or findings cannot be read.
    """
    for run in runs.episodes:
        run.read()
    studied = {run.name: findings_of(run, NAMES) for run in runs.evals}
    own = {run.name: own_findings(run, NAMES) for run in runs.evals}
    for run in runs.evals:
        for sample, label in labels(studied[run.name]):
            run.labels[sample].add(label)
    apart = differing(runs.evals) if len(runs.evals) > 1 else frozenset()
    for run in runs.evals:
        for row in run.rows:
            if row.task in apart:
                run.labels[row.id].add(DIFFERS)
    found = (
        about(runs.evals, runs.trainings),
        comparison(runs.evals),
        results(runs.evals),
        protocols(studied, own),
        training(runs.trainings),
    )
    sections = tuple(section for section in found if section is not None)
    return _written(runs, sections, (target, title, budget), watch)


def _written(
    runs: Runs, sections: tuple[Section, ...], options: tuple[Path, str, int], watch: CountCallback
) -> Written:
    target, title, budget = options
    order = _Order(runs.episodes)
    episodes = Episodes(target, budget=budget)
    gallery = Gallery((DIFFERS, *LABELS, FAILED_CALL))
    thumbnails: dict[str, Sources] = {}
    for run in runs.episodes:
        thumbnails |= _add_episodes(run, order, (episodes, gallery), watch)
    for run in runs.evals:
        for failure in run.failures:
            gallery.add_lost(run, failure)
    hrefs = {place.number: episodes.href(f"e{place.number}") for place in order.places.values()}
    names = [run.name for run in runs.evals] + [run.name for run in runs.trainings]
    title = title or clean(" and ".join(names), 120)
    facts = (*_facts(runs), *episodes.notes)
    body = report_html(title, sections, facts, gallery.count > 0)
    bodies = (folded(episode.view.anchor, episode.body) for episode in episodes.together)
    problems = [problem for run in runs.episodes for problem in run.stored.problems]
    problems += [problem for run in runs.trainings for problem in run.problems]
    page = page_html(
        title,
        Markup("").join([body, *bodies]),
        thumbnails | episodes.sources,
        tuple(problems),
        gallery.data(hrefs),
    )
    write_page(target, page)
    return Written(target, episodes.count, episodes.folder if episodes.apart else None)


def _add_episodes(
    run: EvalRun, order: _Order, into: tuple[Episodes, Gallery], watch: CountCallback
) -> Mapping[str, Sources]:
    """Add every episode of a run; the small pictures of the gallery."""
    episodes, gallery = into
    book = PictureBook(run.stored.store)
    book.folder = episodes.folder.parent
    small = book.smaller(THUMBNAIL)
    for trajectory in run.trajectories():
        place = order.places.get((run.name, trajectory.id))
        if place is None:
            continue  # written since the figures were made
        book.new_page()
        wires = wires_of(run.stored.file.parent, trajectory.id, run.stored.problems)
        view = episode_view(f"e{place.number}", trajectory, book, wires=wires)
        episodes.add(view, book.sources, order.others(place))
        pictures = trajectory.task.media
        gallery.add(place.number, run, place.row, small.add(pictures[0].part) if pictures else None)
        watch(episodes.count, len(order.places))
    return small.sources


def _other(place: _Place) -> Other:
    correct = place.row.correct
    outcome = place.run.outcome(place.row)
    right = None if correct is None or 0 < correct < 1 else correct >= 1
    return Other(f"#e{place.number}", f"{place.run.name} #{place.row.rollout}", Verdict(outcome, right))


def _facts(runs: Runs) -> tuple[str, ...]:
    facts = []
    if runs.evals:
        samples = sum(len(run.rows) for run in runs.evals)
        facts.append(f"{some(len(runs.evals), 'evaluation')} with {some(samples, 'sample')}.")
    if runs.trainings:
        facts.append(f"{some(len(runs.trainings), 'training run')}.")
    return tuple(facts)


RunLike = str | os.PathLike[str] | Evaluation


def make_report(runs: RunLike | Sequence[RunLike], out: str | os.PathLike[str], *, title: str = "") -> Written:
    """Write the report of one or more runs, evaluations or training runs, to the page `out`.

    Raises:
        SettingsError: one of them is no run.
        RecordError: a run's failures or findings cannot be read.
    """
    listed = [runs] if isinstance(runs, str | os.PathLike | Evaluation) else list(runs)
    paths = [run.path if isinstance(run, Evaluation) else Path(run) for run in listed]
    return write_report(open_runs(paths), Path(out), title=title)
