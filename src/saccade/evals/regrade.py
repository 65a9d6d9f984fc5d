"""A stored run graded anew, without the model: with another grader, or after a grader was corrected.

Only the score `correct` changes. The trajectories are replaced all at once, so a crash leaves the old ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from saccade.episode.continued import SETTINGS
from saccade.episode.run_folder import TRAJECTORIES
from saccade.errors import SettingsError
from saccade.evals.grades import Grade, grade_of, graded
from saccade.evals.merge import run_settings
from saccade.evals.run import sum_up
from saccade.evals.summary import Summary
from saccade.grading.registry import load_grader
from saccade.record.codec import read_lines, write_lines
from saccade.record.score import CORRECT, Score
from saccade.record.settings import save_settings
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


@dataclass
class Regraded:
    """What regrading changed."""

    summary: Summary
    samples: int
    changes: list[Change] = field(default_factory=list)


def regrade(run: Path, grader: str = "") -> Regraded:
    """Grade all trajectories of `run` and write its summary anew.

    Without a `grader` each sample is graded by the one that graded it before, in its newest version. A grader that is
    given holds from then on, also where the run is continued.

    Raises:
        SettingsError: it is no run of `saccade eval`, or nothing was played yet.
        RegistryError: there is no such grader.
        RecordError: the trajectories cannot be read.
    """
    settings = run_settings(run)
    if grader:
        load_grader(grader)
        settings = settings.model_copy(update={"grader": grader})
    file = run / TRAJECTORIES
    if not file.is_file():
        raise SettingsError(f"{run} holds no trajectories yet. Play them first: saccade eval ... --out {run}")
    changes: list[Change] = []
    write_lines(file, _regraded(file, grader, changes))
    save_settings(settings, run / SETTINGS)
    summary = sum_up(run, settings)
    return Regraded(summary, sum(summary.graders.values()), changes)


def _regraded(file: Path, grader: str, changes: list[Change]) -> Iterator[Trajectory]:
    for trajectory in read_lines(file, Trajectory):
        before, grade = _score(trajectory)
        again = graded(trajectory, grader or grade.grader.partition("@")[0])
        after, now = _score(again)
        if before != after:
            task = trajectory.task
            changes.append(Change(trajectory.id, before, after, trajectory.answer, task.answer, now.reason))
        yield again


def _score(trajectory: Trajectory) -> tuple[float | None, Grade]:
    score = next((score for score in trajectory.scores if score.name == CORRECT), Score(name=CORRECT))
    return score.value, grade_of(score.detail)
