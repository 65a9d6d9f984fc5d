"""E4, an estimate: did a call that was well written look at the right thing?

Gold arguments are the task's evidence boxes: a step that cut out parts of its pictures, none of which holds a quarter
of a box, however large it is, chose the wrong argument. Steps whose parts are not known are judged by a model where one
was asked about their pictures: all of them show nothing that the question names. Looking around before finding counts
as an error too, and a wrong column, series or word is not seen at all. So it is an estimate.
"""

from __future__ import annotations

from typing import Final

from saccade.evals.protocols.base import Studied
from saccade.evals.protocols.errors.records import ErrorClass, StepError
from saccade.rewards.judges.box import BoxRule, containment
from saccade.rewards.reading import succeeded

HELD: Final = BoxRule().touched
"""Fraction of a gold box that a part must hold; its size is no error."""


def content_errors(studied: Studied) -> tuple[tuple[StepError, ...], bool]:
    """The errors, and whether the sample could be decided: nothing was called well, or one such step was judged."""
    steps = [number for number, turn in enumerate(studied.trajectory.turns) if succeeded(turn)]
    if not steps:
        return (), True
    verdicts = [(number, verdict) for number in steps if (verdict := _right(studied, number)) is not None]
    errors = tuple(
        StepError(error=ErrorClass.E4, turn=number, rule=rule, detail=detail)
        for number, (right, rule, detail) in verdicts
        if not right
    )
    return errors, bool(verdicts)


def _right(studied: Studied, number: int) -> tuple[bool, str, str] | None:
    """Whether the step looked at the right thing, what says so, and a sentence; None if nothing says."""
    return _by_boxes(studied, number) or _by_model(studied, number)


def _by_boxes(studied: Studied, number: int) -> tuple[bool, str, str] | None:
    task = studied.trajectory.task
    looked = [region for region in studied.regions if region.turn == number] if task.evidence else []
    if not looked:
        return None
    full_boxes = {(item.name, (0, 0, item.part.width, item.part.height)) for item in task.media}
    parts = [region for region in looked if (region.name, region.box) not in full_boxes]
    if not parts:
        return None  # it looked at all of the picture: no argument chose a place
    held = max(containment(gold, region) for region in parts for gold in task.evidence)
    boxes = ", ".join(str([round(edge) for edge in region.box]) for region in parts[:3])
    gold = ", ".join(str([round(edge) for edge in box.xyxy]) for box in task.evidence[:3])
    return held >= HELD, "gold_box", f"Looked at {boxes}; the evidence lies at {gold}."


def _by_model(studied: Studied, number: int) -> tuple[bool, str, str] | None:
    verdicts = () if studied.verdicts is None else studied.verdicts[number]
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    if not scores or len(scores) < len(verdicts):
        return None
    return max(scores) >= 1, "model_judge", "No picture that came back shows what the question names."
