"""Questions that no picture answers without further knowledge (CodeV leaves out OK-VQA and its like)."""

from __future__ import annotations

from saccade.dialects.question import question_text
from saccade.record.base import Record
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.judge import JudgedSettings, JudgeQuestion, judge_question
from saccade.sft.curate.stage import KEEP, Drop, FilterOutcome

_PROMPT = """\
Say whether this question about the picture above can be answered by looking, reading, counting, measuring and
reasoning, with nothing but school mathematics and everyday words. It cannot if one must know facts that the picture
does not show: who somebody is, when something was made, what a thing is used for, what the law says.

Question: {question}

Reply with one JSON object and nothing else: {{"in_the_picture": true or false}}
"""


class KnowledgeReply(Record):
    """The form of a reply."""

    in_the_picture: bool


class OutsideKnowledge(JudgedSettings):
    """Leaves out tasks that a judge finds to need facts that the picture does not show."""

    ABOUT_TASKS = True

    def question(self, trajectory: Trajectory) -> JudgeQuestion | FilterOutcome:
        """What the judge is asked."""
        text = _PROMPT.format(question=question_text(trajectory.task))
        return judge_question(trajectory, text, KnowledgeReply, _decide)


def _decide(verdict: KnowledgeReply) -> FilterOutcome:
    return KEEP if verdict.in_the_picture else Drop("judge finds that it needs outside knowledge")
