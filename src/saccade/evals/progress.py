"""Counts the samples of a run, for a screen while it runs and at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from saccade.episode.flow import IDLE_NOTICE, idle_turns
from saccade.errors import (
    ModelLostError,
    ModelRefusedError,
    SaccadeError,
    SandboxLostError,
    SettingsError,
    ToolLostError,
)
from saccade.evals.grades import SampleFailure
from saccade.record.trajectory import CORRECT, STOPS, UNANSWERED, StopReason, Trajectory
from saccade.tasks.sources.broken import MOST_BROKEN, refusal, too_many

ProgressCallback = Callable[["EvalProgress"], None]
"""Called with the counts after every sample."""
OUTAGES = 8
"""So many outages in a row (or as many as there are workers, if those are more) end the run."""

BROKEN_TASK = "broken_task"
"""Kind of the failure of a sample whose task cannot be made."""
_OUTAGE: dict[str, type[SaccadeError]] = {
    StopReason.MODEL_LOST.value: ModelLostError,
    StopReason.MODEL_REFUSED.value: ModelRefusedError,
    StopReason.SANDBOX_LOST.value: SandboxLostError,
    StopReason.TOOL_LOST.value: ToolLostError,
}


@dataclass
class EvalProgress:
    """Counts so far, of this call of the command but for `skipped`."""

    total: int
    """Samples of the run."""
    skipped: int = 0
    """Samples that were there before."""
    played: int = 0
    graded: int = 0
    credit: float = 0.0
    """Sum of the scores of the graded ones."""
    failed: int = 0
    """Samples that failed."""
    to_judge: int = 0
    """Samples that a judge is asked about."""
    judged: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    """Failed samples by their kind."""
    idle: int = 0
    """Samples that ended since the model did not follow its dialect."""
    framed: int = 0
    """Samples whose videos were shown as frames."""
    notices: list[str] = field(default_factory=list)
    """What a person should know at once: the first failure of each kind, the first model that writes prose."""
    most_outages: int = OUTAGES
    tasks: int = 0
    """Of the run; 0 where broken ones are not limited."""
    most_broken: float = MOST_BROKEN
    broken: set[str] = field(default_factory=set)
    """Ids of the tasks that could not be made."""
    _outages: int = 0
    _seen: set[StopReason] = field(default_factory=set)
    """Those of `UNANSWERED` of which there was a notice."""

    @property
    def done(self) -> int:
        """Samples that are over."""
        return self.skipped + self.played + self.failed

    @property
    def accuracy(self) -> float | None:
        """Mean score of those played now; None before the first."""
        return self.credit / self.graded if self.graded else None

    def count(self, outcome: Trajectory | SampleFailure) -> None:
        """Count one sample.

        Raises:
            DataError: too many tasks cannot be made.
            SaccadeError: the last `most_outages` ones were outages, or the first ones all failed; says why.
        """
        if isinstance(outcome, SampleFailure):
            self._count_failure(outcome)
            return
        self._outages = 0
        self.played += 1
        if outcome.stop in UNANSWERED:
            if outcome.stop not in self._seen:
                self._seen.add(outcome.stop)
                self.notices.append(f"{outcome.id}: {STOPS[outcome.stop].words} {outcome.stop_detail}".rstrip())
        elif idle_turns(outcome.turns) >= IDLE_NOTICE:
            self.idle += 1
            if self.idle == 1:
                self.notices.append(f"{outcome.id}: {outcome.stop_detail or outcome.stop}")
        value = next((score.value for score in outcome.scores if score.name == CORRECT), None)
        if value is not None:
            self.graded += 1
            self.credit += value
        self.framed += any(item.frame is not None for item in outcome.task.media)

    def check_frames(self, given: str) -> None:
        """Notice, when all are played, that the settings `given` for frames of videos changed no sample."""
        if given and self.played and not self.framed:
            self.notices.append(f"No sample was shown as frames of a video: {given} changed nothing.")

    def _count_broken(self, failure: SampleFailure) -> None:
        self.broken.add(failure.id.rpartition("#")[0])
        if self.tasks and too_many(len(self.broken), self.tasks, self.most_broken):
            raise refusal(len(self.broken), self.tasks, self.most_broken, failure.detail)

    def _count_failure(self, failure: SampleFailure) -> None:
        self.failed += 1
        self.kinds[failure.kind] += 1
        if failure.kind == BROKEN_TASK:
            self._count_broken(failure)
        if self.kinds[failure.kind] == 1:
            self.notices.append(f"{failure.id} failed ({failure.kind}): {failure.detail}")
        outage = _OUTAGE.get(failure.kind)
        self._outages = self._outages + 1 if outage is not None else 0
        nothing = self.failed - self.kinds[BROKEN_TASK] >= self.most_outages and not self.played + self.skipped
        if self._outages >= self.most_outages or nothing:
            raise (outage or SettingsError)(
                f"{self.failed if outage is None else self._outages} samples in a row failed "
                f"({failure.kind}): {failure.detail} "
                "What was played before is kept; correct the cause and run the same command again."
            )
