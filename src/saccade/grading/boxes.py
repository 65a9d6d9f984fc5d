"""Boxes: `x0, y0, x1, y1` in pixels of the task's picture, compared by intersection over union.

The gold box is the task's answer, or else its first evidence. Numbers from 0 to 1 are read as pixels like all others: a
dialect whose models answer in another scale converts before this.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from saccade.grading.base import Verdict, judged, unreadable, wrong
from saccade.grading.clean import clean
from saccade.grading.quantities import DOUBT
from saccade.record.box import Box, iou
from saccade.record.task import Task

_NUMBER = r"(-?[0-9]{1,7}(?:\.[0-9]{1,17})?)"
_FOUR = re.compile(rf"(?<![0-9.\w]){_NUMBER}" + rf"\s{{0,9}}[,\s]\s{{0,9}}{_NUMBER}" * 3 + r"(?![0-9\w]|\.[0-9])")


@dataclass(frozen=True, slots=True)
class BoxGrader:
    """Full credit from an IoU of `threshold` on."""

    threshold: Annotated[float, Field(gt=0, le=1)] = 0.5

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict; see `Grader.grade`."""
        gold = _gold(task)

        def compare(prediction: str) -> Verdict:
            box = read_box(prediction)
            if box is None:
                return wrong("states no single box x0, y0, x1, y1", prediction)
            return self._credit(iou(box, gold), prediction)

        return judged(answer, compare)

    def _credit(self, overlap: float, prediction: str) -> Verdict:
        return Verdict(float(overlap >= self.threshold), f"IoU {overlap:.3f}", prediction)


@dataclass(frozen=True, slots=True)
class IouGrader(BoxGrader):
    """The IoU itself."""

    def _credit(self, overlap: float, prediction: str) -> Verdict:
        return Verdict(overlap, f"IoU {overlap:.3f}", prediction)


def read_box(text: str) -> Box | None:
    """The one box in `text`; None if there is none, more than one, or one without area."""
    plain = clean(text)
    found = _FOUR.findall(plain)
    if DOUBT.search(re.sub(r'"[^"]{0,200}"', "", plain)):
        return None
    if len(found) != 1 or len(re.findall(r"(?<![\w.])-?[0-9]+(?:\.[0-9]+)?", plain)) != 4:
        return None
    x0, y0, x1, y1 = (float(number) for number in found[0])
    return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None


def _gold(task: Task) -> Box:
    if task.answer is None and task.evidence:
        return task.evidence[0].xyxy
    box = read_box(task.answer or "")
    if box is None:
        raise unreadable(task, "box x0, y0, x1, y1")
    return box


BOX = BoxGrader()
IOU = IouGrader()
