"""Puts verdicts on a sample into its trajectory as scores, and keeps samples that failed.

Without a judge there is one score, `correct`, by the rule grader. With one there are also `correct-by-rule` and
`correct-by-judge`, and `correct` is a copy of the one that is the headline. A task that cannot be graded has the score
without a value, is left out of every average and counted apart; so is a sample whose headline is a judge without a
verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from saccade.episode.flow import IDLE_NOTICE, idle_turns
from saccade.errors import (
    ModelLostError,
    ModelRefusedError,
    SaccadeError,
    SandboxLostError,
    SettingsError,
    ToolLostError,
)
from saccade.grading.registry import scored_by_rule
from saccade.record.codec import append_line, read_lines, recover_lines
from saccade.record.content import Name, Record, Text
from saccade.record.trajectory import CORRECT, STOPS, UNANSWERED, Score, StopReason, Trajectory
from saccade.tasks.sources.settings import MOST_BROKEN, refusal, too_many

BY_RULE: Final = "correct-by-rule"
BY_JUDGE: Final = "correct-by-judge"
JUDGE: Final = "judge:"
"""Beginning of the name of a judge where a grade names its grader."""
Headline = Literal["rule", "judge"]


def graded(trajectory: Trajectory, grader: str = "", headline: Headline = "rule") -> Trajectory:
    """Return the trajectory with its rule's verdict, by that grader or the one for the answer's type.

    A judge's verdict stays as it is, and is `correct` if it is the headline.

    Raises:
        RegistryError: there is no such grader.
        SettingsError: it has no such parameters.
    """
    rule = scored_by_rule(trajectory.answer, trajectory.task, grader)
    return headed(trajectory, rule, score_named(trajectory.scores, BY_JUDGE), headline)


def headed(trajectory: Trajectory, rule: Score, judge: Score | None, headline: Headline) -> Trajectory:
    """Return the trajectory with both verdicts and the headline's as `correct`; without a judge, only the rule's."""
    if judge is None:
        return trajectory.with_scores([rule.model_copy(update={"name": CORRECT, "weight": 1.0})])
    correct = judge if headline == "judge" else rule
    # The single ones have no weight, so that no sum counts an answer twice.
    return trajectory.with_scores(
        [
            correct.model_copy(update={"name": CORRECT, "weight": 1.0}),
            rule.model_copy(update={"name": BY_RULE, "weight": 0.0}),
            judge.model_copy(update={"name": BY_JUDGE, "weight": 0.0}),
        ]
    )


def rule_score(scores: Iterable[Score]) -> Score:
    """Return the rule's verdict; without a value if there is none."""
    listed = tuple(scores)
    return score_named(listed, BY_RULE) or score_named(listed, CORRECT) or Score(name=CORRECT)


def score_named(scores: Iterable[Score], name: str) -> Score | None:
    """Return the score of that name, if there is one."""
    return next((score for score in scores if score.name == name), None)


# Samples that failed for a reason that is not the model's (outages, tasks that cannot be shown) are in no
# average and are played again when the run is continued. A failure counts as long as no trajectory has its id.

FAILURES = "failures.jsonl"


class SampleFailure(Record):
    """One sample without a trajectory."""

    id: Name
    """Of the sample."""
    kind: Name
    """A stop reason such as `model_lost`, or the name of an error's class."""
    detail: Text = ""


def add_failure(root: Path, failure: SampleFailure) -> None:
    """Append `failure` to the run folder's list."""
    append_line(root / FAILURES, failure)


def mend_failures(root: Path) -> None:
    """Cut off a last line that a killed writer left."""
    if (root / FAILURES).exists():
        recover_lines(root / FAILURES)


def open_failures(root: Path, done: Collection[str]) -> dict[str, SampleFailure]:
    """Return the last failure of every sample that is not among `done`, by its id. Raises `RecordError` if the file
    cannot be read.
    """
    path = root / FAILURES
    if not path.exists():
        return {}
    return {failure.id: failure for failure in read_lines(path, SampleFailure) if failure.id not in done}


# Counts the samples of a run, for a screen while it runs and at its end.


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
