"""A stored run graded anew, without the model: with another grader, after a grader was corrected, or by a judge.

Only scores change. The trajectories are replaced all at once, so a crash leaves the old ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from saccade.episode.continued import SETTINGS
from saccade.episode.run_folder import TRAJECTORIES
from saccade.errors import SettingsError
from saccade.evals.benchmarks import headline_of
from saccade.evals.grades import Headline, graded, rule_score
from saccade.evals.judged import judge_run
from saccade.evals.merge import run_settings
from saccade.evals.progress import Progress, Watch
from saccade.evals.rows import Row, read_rows
from saccade.evals.run import sum_up
from saccade.evals.settings import EvalSettings
from saccade.evals.summary import Summary
from saccade.grading.grade import grade_of
from saccade.grading.registry import load_grader, newest
from saccade.record.codec import read_lines, write_lines
from saccade.record.settings import save_settings
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Change:
    """One sample whose score is another now."""

    id: str
    before: float | None
    after: float | None
    answer: str | None
    gold: str | None
    reason: str
    """Of the new grade."""


@dataclass(frozen=True, slots=True)
class Regraded:
    """What regrading changed."""

    summary: Summary
    samples: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Regrading:
    """What is to be another than before; an empty text leaves it as it is."""

    grader: str = ""
    """Of all samples; else each is graded by the one that graded it before, in its newest version."""
    judge: str = ""
    """A model that is asked about all answers of which it has not said anything yet."""
    headline: Literal["", "rule", "judge"] = ""


def regrade(run: Path, wanted: Regrading | None = None, *, watch: Watch = lambda progress: None) -> Regraded:
    """Grade all trajectories of `run` anew and write its summary anew.

    What is `wanted` holds from then on, also where the run is continued. Without a judge in it none is asked, and the
    verdicts that are there stay.

    Raises:
        SettingsError: it is no run of `saccade eval`, or nothing was played yet.
        RegistryError: there is no such grader.
        RecordError: the trajectories cannot be read.
        ModelError: the judge cannot be asked.
    """
    wanted = wanted or Regrading()
    changed = {name: value for name, value in asdict(wanted).items() if value}
    settings = EvalSettings.model_validate({**run_settings(run).model_dump(), **changed})
    if wanted.grader:
        load_grader(wanted.grader)
    file = run / TRAJECTORIES
    if not file.is_file():
        raise SettingsError(f"{run} holds no trajectories yet. Play them first: saccade eval ... --out {run}")
    before = {row.id: row.correct for row in read_rows(run)}
    write_lines(file, _regraded(file, wanted.grader, headline_of(settings)))
    save_settings(settings, run / SETTINGS)
    if wanted.judge:
        asyncio.run(judge_run(run, settings, Progress(len(before)), watch=watch))
    rows = read_rows(run)
    changes = tuple(_change(row, before[row.id]) for row in rows if row.correct != before[row.id])
    return Regraded(sum_up(run, settings), len(rows), changes)


def _regraded(file: Path, grader: str, headline: Callable[[Task], Headline]) -> Iterator[Trajectory]:
    for trajectory in read_lines(file, Trajectory):
        before = grade_of(rule_score(trajectory.scores).detail).grader
        yield graded(trajectory, grader or newest(before), headline(trajectory.task))


def _change(row: Row, before: float | None) -> Change:
    return Change(row.id, before, row.correct, row.answer, row.gold, row.reason)
