"""VQA accuracy (Antol et al. 2015): how many of ten people gave this answer.

    mean over all sets of nine people of: min(1, people with this answer / 3)

The gold answer is a JSON array with one text per person. With fewer than four of them, any match has full credit. Both
sides are compared lower-case, without articles and punctuation, number words as digits; nothing is looked for inside an
answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from saccade.grading.base import Verdict, golds_of, judged
from saccade.grading.number_words import with_digits
from saccade.grading.text import bare
from saccade.record.task import Task

_FEWEST = 4
_ARTICLE = re.compile(r"\b(?:a|an|the)\s")
_PUNCTUATION = re.compile(r"(?<![0-9])[.,](?![0-9])|[;:!?\"()\[\]/_]|(?<=[0-9]),(?=[0-9]{3})|(?<=\w)[.,](?![\w])")


@dataclass(frozen=True, slots=True)
class VqaGrader:
    """VQA accuracy, from 0 to 1 in steps of a third, or of what the mean over the sets of nine gives."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict; see `Grader.grade`."""
        golds = [normalised(gold) for gold in golds_of(task)]

        def compare(said: str) -> Verdict:
            same = golds.count(normalised(said))
            return Verdict(vqa_accuracy(same, len(golds)), f"{same} of {len(golds)} people gave this answer", said)

        return judged(answer, compare)


def vqa_accuracy(same: int, people: int) -> float:
    """The credit of an answer that `same` of `people` gave."""
    if people < _FEWEST:
        return float(same > 0)
    without_one_of_them, without_another = min(1.0, (same - 1) / 3), min(1.0, same / 3)
    return (same * without_one_of_them + (people - same) * without_another) / people if same else 0.0


def normalised(text: str) -> str:
    """`text` as VQA answers are compared."""
    plain = _PUNCTUATION.sub(" ", with_digits(bare(text)))
    short = " ".join(_ARTICLE.sub("", plain + " ").split())
    return short or bare(text) or text.strip()


VQA = VqaGrader()
