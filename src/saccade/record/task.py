"""A task: a question about pictures or a video, with what is known about its answer.

The gold answer and the evidence are for graders and reports. Nothing here keeps them from a model: that is the
dialect's work, which shows only `question`, `choices` and `media`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from enum import StrEnum
from threading import Lock
from typing import Final, Self

from pydantic import FiniteFloat, NonNegativeFloat, NonNegativeInt, model_validator

from saccade.record.content import ImagePart, MediaPart, Name, Record, Sha256, Text

OPEN: Final = "judge"
"""Grader of a task with an open answer; `judge|RULE` also names the rule for runs without a judge."""


class AnswerType(StrEnum):
    """How an answer is compared with the gold one."""

    TEXT = "text"
    CHOICE = "choice"
    """The answer is one of `choices`."""
    YES_NO = "yes_no"
    NUMBER = "number"
    BOX = "box"
    """The answer is a grounding box."""
    LIST = "list"


class FrameOf(Record):
    """Which frame of which video a picture is."""

    video: Name
    """Name that the video had among the task's media."""
    sha256: Sha256
    """Of the video's bytes."""
    index: NonNegativeInt
    """Number of the frame, from 0."""
    second: NonNegativeFloat
    """When it is first shown."""


class NamedMedia(Record):
    """A picture or video under the name that evidence and prompts use for it."""

    name: Name
    part: MediaPart
    frame: FrameOf | None = None
    """Of a picture that was taken from a video."""


class EvidenceBox(Record):
    """Where in a picture the answer can be seen: `xyxy` pixels, right and bottom edge exclusive."""

    image: Name
    """Name of the picture in the task's media."""
    xyxy: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]
    label: Text = ""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        x0, y0, x1, y1 = self.xyxy
        if not (0 <= x0 < x1 and 0 <= y0 < y1):
            raise ValueError(f"box {self.xyxy} is empty, negative or not ordered as x0, y0, x1, y1")
        return self


class RewardParameter(Record):
    """A parameter of a reward that a task has of its own, in place of the run's."""

    name: Name
    value: bool | int | FiniteFloat | Text


class Task(Record):
    """One question with its media and, where known, its gold answer and the evidence for it."""

    id: Name
    question: Text
    media: tuple[NamedMedia, ...] = ()
    choices: tuple[Text, ...] = ()
    answer: Text | None = None
    """The gold answer; of a choice its full text, of several right ones a JSON array of these. None if unknown."""
    answer_type: AnswerType = AnswerType.TEXT
    grader: Text = ""
    """How the answer is compared with the gold one, if the source says so: a grader's id, or `judge` for an open answer
    that only a model can compare; `judge|ID` names the grader for runs without one. Empty: the grader of the type."""
    evidence: tuple[EvidenceBox, ...] = ()
    program: Text | None = None
    """Python code that finds the answer, where a generated world knows one."""
    source: Text = ""
    """Benchmark, world or file that the task comes from."""
    split: Text = ""
    difficulty: FiniteFloat | None = None
    """Larger is harder; the scale is the source's."""
    tags: tuple[Text, ...] = ()
    reward: tuple[RewardParameter, ...] = ()
    """Parameters of the reward that is paid for this task, where its source asks for others than the run."""

    @property
    def right_choices(self) -> tuple[str, ...]:
        """The choices that are right; none if the answer is not known."""
        return right_choices(self.answer, self.choices)

    @property
    def is_open(self) -> bool:
        """Whether only a model can say that an answer is wrong."""
        return self.grader.partition("|")[0] == OPEN

    @property
    def rule(self) -> str:
        """The grader that its source names, for runs without a judge; empty: that of the type of answer."""
        return self.grader.partition("|")[2] if self.is_open else self.grader

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [item.name for item in self.media]
        if len(set(names)) < len(names):
            raise ValueError(f"two media share a name: {names}")
        if self.answer_type is AnswerType.CHOICE:
            if not self.choices:
                raise ValueError("a task of answer type `choice` needs choices")
            if self.answer is not None and not self.right_choices:
                raise ValueError(f"the gold answer {self.answer!r} is none of the choices {list(self.choices)}")
        for box in self.evidence:
            self._check_evidence(box)
        return self

    def _check_evidence(self, box: EvidenceBox) -> None:
        part = next((item.part for item in self.media if item.name == box.image), None)
        if not isinstance(part, ImagePart):
            raise ValueError(f"evidence names the picture {box.image!r}, which is not among the task's pictures")
        if box.xyxy[2] > part.width or box.xyxy[3] > part.height:
            raise ValueError(f"box {box.xyxy} reaches beyond {box.image!r} of {part.width}x{part.height} pixels")


def right_choices(answer: str | None, choices: Sequence[str]) -> tuple[str, ...]:
    """Return the choices that a gold answer names: its own text, or each of a JSON array; none if one is no choice."""
    if answer is None or answer in choices:
        return () if answer is None else (answer,)
    try:
        named = json.loads(answer) if answer.startswith("[") else None
    except ValueError:
        return ()
    if not isinstance(named, list) or not all(isinstance(one, str) and one in choices for one in named):
        return ()
    return tuple(dict.fromkeys(named))


# Python source as a tree, from any thread.
#
# CPython 3.11 keeps one count of depth for all threads while it makes a tree, and raises SystemError where two make one
# at once (python/cpython#106905).


_ONE_AT_A_TIME = Lock()


def parse(source: str) -> ast.Module:
    """Parse like `ast.parse`. Raises the same: SyntaxError, ValueError for null bytes, RecursionError, MemoryError."""
    with _ONE_AT_A_TIME:
        return ast.parse(source)
