"""What a grader is, what it says, and the steps that all graders share.

A verdict is data for a person and for metrics; no model may read it during an episode. An answer that cannot be graded
(none given, several different ones, far too long) is wrong with that reason. A task that cannot be graded (no gold
answer, or one that the grader cannot read) is a fault of the data and raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from saccade.errors import GradingError
from saccade.grading.clean import clipped
from saccade.grading.extract import Says, final_answer, words_said
from saccade.grading.number_words import literal_list
from saccade.record.task import Task


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is right, and why."""

    correct: float
    """From 0 to 1; what lies between is partial credit, which only ANLS, VQA accuracy, MRA and IoU give."""
    reason: str
    """For a person, never for a model."""
    extracted: str = ""
    """What was taken for the answer, at most 200 characters of it."""
    read: bool = True
    """Whether one answer was found that this grader can read; where not, the answer is wrong for want of one."""

    def __post_init__(self) -> None:
        if not 0 <= self.correct <= 1:
            raise ValueError(f"correct is {self.correct}, not from 0 to 1")
        object.__setattr__(self, "extracted", clipped(self.extracted))

    @property
    def accepted(self) -> bool:
        """Whether the answer has full credit."""
        return self.correct == 1


class Grader(Protocol):
    """Compares the answer of an episode with the gold answer of its task."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict on `answer`: a whole final message or what a dialect took out of it; None if there was none.

        The same arguments give the same verdict. No text of an answer makes it raise.

        Raises:
            GradingError: the task has no gold answer, or one that this grader cannot read.
        """
        ...


Compare = Callable[[str], Verdict]
"""Judges the one candidate that an answer holds."""


def right(reason: str, extracted: str) -> Verdict:
    """A verdict of full credit."""
    return Verdict(1.0, reason, extracted)


def wrong(reason: str, extracted: str = "") -> Verdict:
    """A verdict of no credit."""
    return Verdict(0.0, reason, extracted)


def unread(reason: str, extracted: str = "") -> Verdict:
    """No credit, since no single answer could be read."""
    return Verdict(0.0, reason, extracted, read=False)


def judged(answer: str | None, compare: Compare, says: Says = words_said, prose: bool = False) -> Verdict:
    """What `compare` says of the single candidate in `answer`; wrong if there is none or more than one.

    `says` and `prose` are those of `final_answer`: which candidates are one answer, and whether sentences are read.
    """
    if answer is None:
        return unread("no answer was given")
    found = final_answer(answer, says, prose)
    if found.text is None:
        return unread(found.problem)
    return compare(found.text)


def gold_of(task: Task) -> str:
    """The gold answer.

    Raises:
        GradingError: the task has none.
    """
    if task.answer is None or not task.answer.strip():
        raise GradingError(f"task {task.id} has no gold answer, so it cannot be graded. Leave it out, or give it one.")
    return task.answer


def golds_of(task: Task) -> tuple[str, ...]:
    """All accepted answers: the texts of a JSON array or Python list of texts, or the gold answer alone.

    Raises:
        GradingError: the task has none.
    """
    gold = gold_of(task)
    several = literal_list(gold) if gold.lstrip().startswith("[") else None
    texts = tuple(item for item in several or () if isinstance(item, str) and item.strip())
    return texts if several and len(texts) == len(several) else (gold,)


def unreadable(task: Task, what: str) -> GradingError:
    """The error of a gold answer that is not `what` it must be for this grader."""
    return GradingError(
        f"the gold answer {clipped(task.answer or '')!r} of task {task.id} is no {what}. "
        "Correct the data, or choose the grader that fits it."
    )
