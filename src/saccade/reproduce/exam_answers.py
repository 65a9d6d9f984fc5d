"""What an examination shows of every held-out task: right or not, calls, whether the evidence was cut out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from saccade.episode.run_folder import RunFolder
from saccade.looks.regions import StoredPixels, regions
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory
from saccade.reproduce.tasks import set_of
from saccade.rewards.judges.box import BoxJudge, BoxRule
from saccade.rewards.reading import accuracy, calls, returned_pictures
from saccade.sft.experts.demonstrator import is_looked_for


@dataclass(frozen=True, slots=True)
class ExamAnswer:
    """One held-out task and what came of it."""

    task: str
    """Its id."""
    set: str
    """Name of its task set."""
    right: float
    """Accuracy, 0 to 1."""
    calls: int
    searched: bool
    """The task is visual search: a detail to be found by eye."""
    boxed: bool
    """Gold boxes say where the evidence is."""
    looked: bool
    """A call gave back a picture."""
    saw_evidence: bool
    """A call cut out the evidence, as gold boxes say."""

    @property
    def faithful(self) -> float:
        """1 for a right answer whose evidence was cut out (CodeV, table 5), else 0."""
        return self.right * self.saw_evidence


def read_exam(out: Path) -> tuple[ExamAnswer, ...]:
    """The examination in the folder `out`; rollouts that were lost or could not be graded are left out."""
    folder = RunFolder(out)
    if not folder.path.exists():
        return ()
    judge = BoxJudge(partial(regions, book=StoredPixels(folder.store)))
    read = (_answer(item, judge) for item in read_lines(folder.path, Trajectory))
    return tuple(item for item in read if item is not None)


def _answer(trajectory: Trajectory, judge: BoxJudge) -> ExamAnswer | None:
    right = accuracy(trajectory)
    if right is None:
        return None
    verdicts = judge.verdicts(trajectory) if trajectory.task.evidence else ()
    saw_evidence = any(item is not None and item.score == BoxRule().full for item in verdicts)
    return ExamAnswer(
        trajectory.task.id,
        set_of(trajectory.task.id),
        right,
        len(calls(trajectory)),
        is_looked_for(trajectory.task),
        bool(trajectory.task.evidence),
        returned_pictures(trajectory) > 0,
        saw_evidence,
    )
