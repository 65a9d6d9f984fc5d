"""Puts verdicts on a sample into its trajectory as scores, and keeps samples that failed.

Without a judge there is one score, `correct`, by the rule grader. With one there are also `correct-by-rule` and
`correct-by-judge`, and `correct` is a copy of the one that is the headline. A task that cannot be graded has the score
without a value, is left out of every average and counted apart; so is a sample whose headline is a judge without a
verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, Literal

from saccade.grading.registry import scored_by_rule
from saccade.record.base import Name, Record, Text
from saccade.record.codec import append_line, read_lines, recover_lines
from saccade.record.trajectory import CORRECT, Score, Trajectory

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
