"""Gold answers that a model finds wrong (CodeV cleans labels with Qwen2.5-VL-32B); easy tasks stay."""

from __future__ import annotations

from saccade.record.base import Record
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.judge import JudgedSettings, JudgeQuestion, gold_question
from saccade.sft.curate.stage import KEEP, Drop, FilterOutcome

_PROMPT = """\
A question about the picture above has a recorded answer, and recorded answers are sometimes wrong. Work out the answer
yourself first, then compare.

Question: {question}
Recorded answer: {answer}

Other words for the same thing are right, and so is a number that is rounded as the question asks. If the picture does
not show enough to say, or the question can be read in two ways with different answers, the recorded answer is not
right. Whether the question is easy does not matter.

Reply with one JSON object and nothing else: {{"answer_right": true or false}}
"""


class LabelReply(Record):
    """The form of a reply."""

    answer_right: bool


class LabelCheck(JudgedSettings):
    """Leaves out tasks whose gold answer a judge finds wrong, however easy or hard they are.

    A task without a gold answer is undecided.
    """

    ABOUT_TASKS = True

    def question(self, trajectory: Trajectory) -> JudgeQuestion | FilterOutcome:
        """What the judge is asked."""
        return gold_question(trajectory, _PROMPT, LabelReply, _decide)


def _decide(verdict: LabelReply) -> FilterOutcome:
    return KEEP if verdict.answer_right else Drop("judge finds the gold answer wrong")
