"""Pictures with too little in them to look into (CodeDance, table 5)."""

from __future__ import annotations

from saccade.record.base import Record
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.judge import JudgedSettings, JudgeQuestion, judge_question
from saccade.sft.curate.stage import KEEP, Drop, FilterOutcome, Undecided, task_pictures

_PROMPT = """\
Look at the whole picture above and say whether questions about its details are worth asking. Judge four things:
- varied: it shows four kinds of things or more, or six single things or more.
- distinct: one thing at least is hardly covered by others, takes less than 30% of the area, and is not one of many that
  look the same.
- closer_look_helps: that thing, or another, has a detail (lettering, a number, a mark, a texture, a face) that would
  become clearly easier to make out if its region were enlarged.
- askable: one can ask about such a detail a question with a definite answer.

Reply with one JSON object and nothing else:
{"varied": true or false, "distinct": true or false, "closer_look_helps": true or false, "askable": true or false}
"""


class InformativeReply(Record):
    """The form of a reply."""

    varied: bool
    distinct: bool
    closer_look_helps: bool
    askable: bool


class ImageInformative(JudgedSettings):
    """Leaves out tasks whose picture a judge finds too poor in detail for looking again.

    All four conditions must hold. A task with several pictures is judged by all of them together.
    """

    ABOUT_TASKS = True

    def question(self, trajectory: Trajectory) -> JudgeQuestion | FilterOutcome:
        """What the judge is asked."""
        if not task_pictures(trajectory):
            return Undecided("the task has no picture")
        return judge_question(trajectory, _PROMPT, InformativeReply, _decide)


def _decide(verdict: InformativeReply) -> FilterOutcome:
    failed = [name for name, holds in verdict.model_dump().items() if not holds]
    return Drop("judge finds the picture poor in detail", "not " + ", ".join(failed)) if failed else KEEP
