"""Questions that are not worth training on: a wrong gold answer, or nothing to find out (CodeDance, table 7)."""

from __future__ import annotations

from saccade.record.base import Record
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.judge import JudgedSettings, JudgeQuestion, gold_question
from saccade.sft.curate.stage import KEEP, Drop, FilterOutcome

_PROMPT = """\
Check a question about the picture above, together with the answer that is taken for correct.

Question: {question}
Answer taken for correct: {answer}

Judge two things:
- answer_right: does the picture show that this answer is correct?
- needs_care: must one look at the picture carefully to answer? It is false where a glance, or common sense without the
  picture, is enough.

Reply with one JSON object and nothing else: {{"answer_right": true or false, "needs_care": true or false}}
"""


class QualityReply(Record):
    """The form of a reply."""

    answer_right: bool
    needs_care: bool


class QuestionQuality(JudgedSettings):
    """Leaves out tasks whose gold answer a judge finds wrong, or whose question it finds trivial.

    A task without a gold answer is undecided. To check labels alone, and keep what is easy, use `label-check`.
    """

    ABOUT_TASKS = True

    def question(self, trajectory: Trajectory) -> JudgeQuestion | FilterOutcome:
        """What the judge is asked."""
        return gold_question(trajectory, _PROMPT, QualityReply, _decide)


def _decide(verdict: QualityReply) -> FilterOutcome:
    if not verdict.answer_right:
        return Drop("judge finds the gold answer wrong")
    return KEEP if verdict.needs_care else Drop("judge finds the question trivial")
