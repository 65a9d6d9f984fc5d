"""The graders by id, and which one a task gets if nothing else is said.

An entry's target is a ready grader. Further packages add entries by the entry point group `saccade.graders`. Nothing is
imported before it is asked for. A rule that changes verdicts gets a new version; the old one stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from saccade.errors import RegistryError
from saccade.grading.base import Grader
from saccade.record.registry import Registry
from saccade.record.task import AnswerType, Task

GRADERS = Registry(
    "graders",
    {
        "text@1": "saccade.grading.text:TEXT",
        "choice@1": "saccade.grading.choice:CHOICE",
        "yes-no@1": "saccade.grading.yes_no:YES_NO",
        "number@1": "saccade.grading.number:NUMBER",
        "number-rounded@1": "saccade.grading.number:ROUNDED",
        "number-1pct@1": "saccade.grading.number:ONE_PERCENT",
        "count@1": "saccade.grading.number:COUNT",
        "year@1": "saccade.grading.number:YEAR",
        "math@1": "saccade.grading.math:MATH",
        "list@1": "saccade.grading.lists:ORDERED",
        "set@1": "saccade.grading.lists:SET",
        "relaxed@1": "saccade.grading.relaxed:RELAXED",
        "mra@1": "saccade.grading.mra:MRA",
        "anls@1": "saccade.grading.anls:ANLS",
        "anls-published@1": "saccade.grading.anls:PUBLISHED",
        "vqa@1": "saccade.grading.vqa:VQA",
        "box@1": "saccade.grading.boxes:BOX",
        "iou@1": "saccade.grading.boxes:IOU",
    },
)

DEFAULTS: Mapping[AnswerType, str] = MappingProxyType(
    {
        AnswerType.TEXT: "text@1",
        AnswerType.CHOICE: "choice@1",
        AnswerType.YES_NO: "yes-no@1",
        AnswerType.NUMBER: "number@1",
        AnswerType.BOX: "box@1",
        AnswerType.LIST: "list@1",
    }
)
"""The grader of each type of answer, where no benchmark names another."""


def load_grader(wanted: str) -> Grader:
    """The grader that `wanted` names, as in `relaxed` or `relaxed@1`.

    Raises:
        RegistryError: nothing has that id (suggests the nearest), or it cannot be imported.
    """
    grader = GRADERS.load(wanted)
    if not callable(getattr(grader, "grade", None)):
        raise RegistryError(f"{wanted} of graders has no method `grade`; correct its target")
    return cast(Grader, grader)


def grader_for(task: Task) -> Grader:
    """The grader that fits the type of the task's answer."""
    return load_grader(DEFAULTS[task.answer_type])
