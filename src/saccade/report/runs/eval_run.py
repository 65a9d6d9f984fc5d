"""A folder of episodes as a report reads it: rows for figures, labels for filters, the trajectories again for pages.

The trajectories are read once for the rows and once more for the pages, never all kept. Of two of one id the later one
counts. What cannot be read is reported and left out, so a run that is still written can be looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from saccade.errors import SettingsError
from saccade.evals.benchmarks import BROKEN_ROW
from saccade.evals.failures import SampleFailure, open_failures
from saccade.evals.merge import run_settings
from saccade.evals.rows import EvalRow, row_of, row_order
from saccade.evals.settings import EvalSettings
from saccade.record.status import Status
from saccade.record.trajectory import StopReason, Trajectory
from saccade.report.stored_run import StoredRun, open_run

RIGHT, PARTLY, WRONG = "right", "partly right", "wrong"
NO_ANSWER, NOT_GRADED, LOST = "no answer", "not graded", "lost"
FAILED_CALL = "a call failed"
OUTCOMES = (RIGHT, PARTLY, WRONG, NO_ANSWER, NOT_GRADED, LOST)
"""Every sample has one of them."""

TrajectoryCallback = Callable[[Trajectory], None]
"""Is shown every trajectory as it is read for the first time."""


@dataclass
class EvalRun:
    """One folder of episodes."""

    name: str
    stored: StoredRun
    settings: EvalSettings | None
    """None where the folder was not made by an evaluation."""
    rows: list[EvalRow] = field(default_factory=list)
    """In the order of tasks and rollouts."""
    labels: dict[str, set[str]] = field(default_factory=dict)
    """Of each sample, by its id: its outcome, and whatever else it can be looked up by."""
    dialects: dict[str, str] = field(default_factory=dict)
    """Of each sample."""
    models: Counter[str] = field(default_factory=Counter)
    failures: list[SampleFailure] = field(default_factory=list)
    """Samples that came to nothing; rows of the data that gave no task are not among them."""
    broken_rows: int = 0
    _lines: Counter[str] = field(default_factory=Counter)

    @property
    def k(self) -> int:
        """Samples of each task."""
        return self.settings.k if self.settings is not None else max((row.rollout + 1 for row in self.rows), default=1)

    @property
    def seed(self) -> int:
        """Of the bootstrap."""
        return self.settings.seed if self.settings is not None else 0

    def outcome(self, row: EvalRow) -> str:
        """Which of `OUTCOMES` a sample has."""
        return next(name for name in OUTCOMES if name in self.labels[row.id])

    def read(self, look: TrajectoryCallback = lambda trajectory: None) -> None:
        """Read everything but the pages."""
        rows = {}
        for trajectory in self.stored.trajectories():
            row = self.learn(trajectory)
            rows[row.id] = row
            look(trajectory)
        self.rows = sorted(rows.values(), key=row_order)
        failures = open_failures(self.stored.file.parent, set(rows)).values()
        self.failures = [failure for failure in failures if failure.kind != BROKEN_ROW]
        self.broken_rows = len(failures) - len(self.failures)

    def learn(self, trajectory: Trajectory) -> EvalRow:
        """The row of a trajectory, once its labels, its dialect and its model are noted; `rows` stays as it is."""
        row = row_of(trajectory)
        self._lines[row.id] += 1
        self.labels[row.id] = {_outcome(row, trajectory.lost), *_conduct(trajectory)}
        self.dialects[row.id] = trajectory.provenance.dialect
        self.models[trajectory.provenance.model] += 1
        return row

    def trajectories(self) -> Iterator[Trajectory]:
        """Those of the rows, read again, in the order of the file."""
        already = len(self.stored.problems)
        seen: Counter[str] = Counter()
        for trajectory in self.stored.trajectories():
            seen[trajectory.id] += 1
            if seen[trajectory.id] == self._lines[trajectory.id]:
                yield trajectory
        del self.stored.problems[already:]  # they were reported the first time


def open_eval_run(name: str, path: Path) -> EvalRun:
    """The run in a folder, or in a file of trajectories; nothing of it is read yet.

    Raises:
        SettingsError: there is no such run.
    """
    stored = open_run(path)
    try:
        settings = run_settings(stored.file.parent)
    except SettingsError:
        settings = None  # made by other means
    return EvalRun(name, stored, settings)


def _outcome(row: EvalRow, lost: bool) -> str:
    if lost:
        return LOST
    if row.correct is not None and row.correct > 0:
        return RIGHT if row.correct >= 1 else PARTLY
    if row.stop != StopReason.ANSWERED:
        return NO_ANSWER
    return NOT_GRADED if row.correct is None else WRONG


def _conduct(trajectory: Trajectory) -> Iterator[str]:
    statuses = {execution.status for turn in trajectory.turns for execution in turn.executions}
    if statuses - {Status.OK, Status.LOST}:
        yield FAILED_CALL
