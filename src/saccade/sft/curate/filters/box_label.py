"""Boxes of what a question is about, labelled by a model (CodeDance, table 6): as evidence, or to check it.

Boxes are asked for in pixels of the picture at its stored size. A provider may scale a picture down on its way to the
model; a judge that answers in pixels of what it got is not noticed where its boxes lie inside the picture.
"""

from __future__ import annotations

from pydantic import Field, FiniteFloat, TypeAdapter, ValidationError

from saccade.dialects.question import question_text
from saccade.record.base import Record, Text
from saccade.record.box import iou
from saccade.record.content import ImagePart
from saccade.record.task import EvidenceBox, NamedMedia
from saccade.record.trajectory import Trajectory
from saccade.rewards.judges.client import unfenced
from saccade.sft.curate.judge import JudgedSettings, JudgeQuestion, ask_about
from saccade.sft.curate.stage import KEEP, Drop, FilterOutcome, Keep, Undecided

_PROMPT = """\
The picture above is {width} pixels wide and {height} high. Find in it what this question asks about:

{question}

Give the box of every whole object that fits the question best; if the question is about a part, give the object to
which the part belongs. Reply with a JSON array and nothing else, an empty one if nothing fits. Each entry:
{{"label": "name of the object", "bbox_2d": [left, top, right, bottom]}}, in pixels, counted from the upper left corner.
"""


class DetectedObject(Record):
    """One entry of a reply."""

    label: Text
    bbox_2d: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]


_REPLY = TypeAdapter(list[DetectedObject])


class BoxLabel(JudgedSettings):
    """Asks a judge for boxes: they become a task's evidence where it has none, and are compared with it where it has.

    Left out are tasks in which the judge finds nothing, and those whose evidence none of its boxes meets. Only tasks
    with exactly one picture are asked about; others are undecided.
    """

    ABOUT_TASKS = True

    iou: float = Field(default=0.5, gt=0, le=1)
    """Intersection over union that a box and a piece of evidence need, at least once."""

    def question(self, trajectory: Trajectory) -> JudgeQuestion | FilterOutcome:
        """What the judge is asked."""
        media = trajectory.task.media
        if len(media) != 1 or not isinstance(media[0].part, ImagePart):
            return Undecided("the task has not exactly one picture")
        named, part = media[0], media[0].part
        text = _PROMPT.format(width=part.width, height=part.height, question=question_text(trajectory.task))
        message = ask_about(trajectory, text)
        if isinstance(message, Undecided):
            return message
        return JudgeQuestion(message, lambda reply: self._read(reply, trajectory, named, part))

    def _read(self, reply: str, trajectory: Trajectory, named: NamedMedia, part: ImagePart) -> FilterOutcome | None:
        boxes = _boxes(reply, named.name, part)
        if boxes is None:
            return None
        if not boxes:
            return Drop("judge finds nothing that fits the question")
        known = trajectory.task.evidence
        if known:
            best = max(iou(box.xyxy, evidence.xyxy) for box in boxes for evidence in known)
            return KEEP if best >= self.iou else Drop("judge's boxes miss the evidence", f"best overlap {best:.2f}")
        task = trajectory.task.model_copy(update={"evidence": boxes})
        return Keep(trajectory.model_copy(update={"task": task}))


def _boxes(reply: str, image: str, part: ImagePart) -> tuple[EvidenceBox, ...] | None:
    """The boxes of a reply; None if it is no array of boxes that lie in the picture."""
    try:
        items = _REPLY.validate_json(unfenced(reply), strict=True)
        boxes = tuple(EvidenceBox(image=image, xyxy=item.bbox_2d, label=item.label) for item in items)
    except ValidationError:
        return None
    inside = all(box.xyxy[2] <= part.width and box.xyxy[3] <= part.height for box in boxes)
    return boxes if inside else None
