"""Grade by VQA accuracy (Antol et al. 2015): how many of ten people gave this answer.

    mean over all sets of nine people of: min(1, people with this answer / 3)

The gold answer is a JSON array with one text per person. With fewer than four of them, any match has full credit. Both
sides are compared as the official evaluation does: lower-case, without articles and punctuation, number words as digits
("none" is 0), contractions with their apostrophes; nothing is looked for inside an answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from saccade.grading.base import Verdict, golds_of, judged
from saccade.grading.number_words import with_digits
from saccade.grading.text import bare
from saccade.record.task import Task

_FEWEST = 4
_ARTICLES: Final = frozenset(("a", "an", "the"))
_NUMBERS: Final = {"none": "0", "one": "1"}
"""Beside those that `with_digits` reads: as an answer, "none" is a count of nothing, and "one" is never a pronoun."""
_PUNCTUATION: Final = ';/[]"{}()=+\\_-><@`?!:'
_STOP = re.compile(r"\.(?![0-9])")
_GROUPED = re.compile(r"(?<=[0-9]),(?=[0-9])")
_SHORTENED: Final = """
    ain't aren't can't couldn't didn't doesn't don't hadn't hasn't haven't he'd he's how'd how'll how's isn't it'd
    it'll let's ma'am mightn't might've mustn't must've needn't o'clock oughtn't shan't should've shouldn't could've
    somebody'll somebody's someone'd someone'll someone's something'd something'll that's there'd there're there's
    they'd they'll they're they've 'twas wasn't we've weren't what'll what're what's what've when's where'd where's
    where've who'd who'll who's who've why'll why're why's won't would've wouldn't y'all you'd you'll you're you've
""".split()  # noqa: SIM905
_CONTRACTIONS: Final = {word.replace("'", ""): word for word in _SHORTENED}


@dataclass(frozen=True, slots=True)
class VqaGrader:
    """VQA accuracy, from 0 to 1 in steps of a third, or of what the mean over the sets of nine gives."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Return the verdict; see `Grader.grade`."""
        golds = [normalised(gold) for gold in golds_of(task)]

        def compare(prediction: str) -> Verdict:
            same = golds.count(normalised(prediction))
            return Verdict(
                vqa_accuracy(same, len(golds)), f"{same} of {len(golds)} people gave this answer", prediction
            )

        return judged(answer, task, compare)


def vqa_accuracy(same: int, people: int) -> float:
    """Return the credit of an answer that `same` of `people` gave."""
    if people < _FEWEST:
        return float(same > 0)
    without_one_of_them, without_another = min(1.0, (same - 1) / 3), min(1.0, same / 3)
    return (same * without_one_of_them + (people - same) * without_another) / people if same else 0.0


def normalised(text: str) -> str:
    """Return `text` as VQA answers are compared: the steps of the official evaluation, on its words."""
    plain = with_digits(bare(text)).replace("'s", " 's")
    grouped = _GROUPED.search(plain) is not None
    plain = plain.replace(",", "")
    for sign in _PUNCTUATION:
        beside_space = f"{sign} " in plain or f" {sign}" in plain
        plain = plain.replace(sign, "" if beside_space or grouped else " ")
    words = [_NUMBERS.get(word, word) for word in _STOP.sub("", plain).split()]
    short = " ".join(_CONTRACTIONS.get(word, word) for word in words if word not in _ARTICLES)
    return short or bare(text) or text.strip()


VQA = VqaGrader()
