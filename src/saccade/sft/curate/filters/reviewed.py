"""What a person decided in `saccade review`: keep, drop, or keep with another gold answer or question."""

from __future__ import annotations

from pathlib import Path

from saccade.errors import SettingsError
from saccade.grading.grade import scored_by_rule
from saccade.record.score import CORRECT
from saccade.record.task import AnswerType, Task
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.stage import (
    KEEP,
    Drop,
    FilterContext,
    FilterOutcome,
    FilterSettings,
    FilterStage,
    Keep,
    Undecided,
    each,
)
from saccade.sft.review.decisions import ReviewDecision, decisions_in


class Reviewed(FilterSettings):
    """Leaves out what a person dropped, and corrects what a person corrected; what is still open is undecided.

    A trajectory whose gold answer was corrected is graded anew by the task's rule.
    """

    ABOUT_TASKS = True

    reviews: tuple[Path, ...]
    """The folders that were reviewed, which hold `review.jsonl`."""

    def start(self, around: FilterContext) -> FilterStage:
        """The stage for one run over a set. Raises `SettingsError` for a folder that nobody has reviewed."""
        logs = [decisions_in(folder) for folder in self.reviews]

        def decide(trajectory: Trajectory) -> FilterOutcome:
            decisions = [decision for log in logs if (decision := log.of(trajectory.id)) is not None]
            if not decisions:
                return Undecided("not reviewed yet")
            return _outcome(trajectory, decisions[-1])

        return each(decide)


def corrected_task(task: Task, answer: str | None, question: str | None) -> Task:
    """The task with another gold answer or question. Raises `SettingsError` if a choice is answered by none of them."""
    if answer is not None and task.answer_type is AnswerType.CHOICE and answer not in task.choices:
        raise SettingsError(f"{answer!r} is none of the choices {list(task.choices)}. Take one of them.")
    changes = {"answer": answer, "question": question}
    return task.model_copy(update={name: value for name, value in changes.items() if value is not None})


def _outcome(trajectory: Trajectory, decision: ReviewDecision) -> FilterOutcome:
    if decision.verdict == "drop":
        return Drop("dropped by a person", decision.note)
    if decision.answer is None and decision.question is None:
        return KEEP
    if decision.question is not None and trajectory.turns:
        raise SettingsError(f"the question of {trajectory.id} was corrected after it was played. Play it again.")
    changed = trajectory.model_copy(
        update={"task": corrected_task(trajectory.task, decision.answer, decision.question)}
    )
    if any(score.name == CORRECT for score in changed.scores):
        changed = changed.with_scores([scored_by_rule(changed.answer, changed.task)])
    return Keep(changed)
