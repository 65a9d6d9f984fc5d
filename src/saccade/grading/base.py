"""Define graders, their verdicts, and the steps that all graders share.

No model may read a verdict during an episode. An answer that cannot be graded (missing, ambiguous, far too long) is
wrong with that reason. A task that cannot be graded (no readable gold answer) is a fault of the data and raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from saccade.errors import GradingError
from saccade.grading.clean import clipped
from saccade.grading.extract import Says, final_answer, without_question, words_said
from saccade.grading.number_words import literal_list
from saccade.record.task import Task


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is right, and why."""

    correct: float
    """From 0 to 1; only ANLS, VQA accuracy, MRA and IoU give partial credit."""
    reason: str
    """For a person, never for a model."""
    extracted: str = ""
    """The extracted answer, at most 200 characters of it."""
    read: bool = True
    """Whether a single answer was found that this grader can read; if not, the answer is wrong."""

    def __post_init__(self) -> None:
        if not 0 <= self.correct <= 1:
            raise ValueError(f"correct is {self.correct}, not from 0 to 1")
        object.__setattr__(self, "extracted", clipped(self.extracted))

    @property
    def accepted(self) -> bool:
        """Tell whether the answer has full credit."""
        return self.correct == 1


class Grader(Protocol):
    """Compares the answer of an episode with the gold answer of its task."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Grade `answer`: a whole final message or a dialect's extract of it; None if there was none.

        Deterministic. No text of an answer makes it raise.

        Raises:
            GradingError: the task has no gold answer, or one that this grader cannot read.
        """
        ...


Compare = Callable[[str], Verdict]
"""Compares the one candidate of an answer with the gold answer."""


def right(reason: str, extracted: str) -> Verdict:
    """Return a verdict of full credit."""
    return Verdict(1.0, reason, extracted)


def wrong(reason: str, extracted: str = "") -> Verdict:
    """Return a verdict of no credit."""
    return Verdict(0.0, reason, extracted)


def unread(reason: str, extracted: str = "") -> Verdict:
    """Return a verdict of no credit, because no single answer could be read."""
    return Verdict(0.0, reason, extracted, read=False)


def judged(answer: str | None, task: Task, compare: Compare, says: Says = words_said, prose: bool = False) -> Verdict:
    """Apply `compare` to the single candidate in `answer`; wrong if there is none or more than one.

    What the answer repeats of the question is no answer.

    `says` (which candidates are one answer) and `prose` (whether sentences are read) go to `final_answer`.
    """
    if answer is None:
        return unread("no answer was given")
    found = final_answer(without_question(answer, task.question), says, prose)
    if found.text is None:
        return unread(found.problem)
    return compare(found.text)


def gold_of(task: Task) -> str:
    """Return the gold answer. Raises `GradingError` if the task has none."""
    if task.answer is None or not task.answer.strip():
        raise GradingError(f"task {task.id} has no gold answer, so it cannot be graded. Leave it out, or give it one.")
    return task.answer


def golds_of(task: Task) -> tuple[str, ...]:
    """Return all accepted answers: the texts of a JSON array or Python list, or the gold one. Raises as `gold_of`."""
    gold = gold_of(task)
    several = literal_list(gold) if gold.lstrip().startswith("[") else None
    texts = tuple(item for item in several or () if isinstance(item, str) and item.strip())
    return texts if several and len(texts) == len(several) else (gold,)


def unreadable(task: Task, what: str) -> GradingError:
    """Make the error for a gold answer that is not `what` this grader needs."""
    return GradingError(
        f"the gold answer {clipped(task.answer or '')!r} of task {task.id} is no {what}. "
        "Correct the data, or choose the grader that fits it."
    )
