r"""The final answer in a text: where it is looked for, in this order, and what makes it doubtful.

1. inside `<answer>…</answer>`, in any letter case, and there again by the rules below;
2. what is marked as the answer: `\boxed{…}`, "Answer: …", "the answer is …", "the correct option is …";
3. inside `{…}` that belongs to no formula, as BlindTest asks for it;
4. what is not marked: the whole text, its last line, or the sentence that concludes it (`prose`).

The first rule by which something is said decides. Answers that say the same are one answer; what says the same is up to
the grader (`Says`). Different ones are no answer: nobody may answer twice and be graded by the better one. A line that
only leads to the answer ("Thus, the correct answer is:") is none, and neither is what a model thinks between `<think>`
tags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from saccade.grading.clean import LONGEST_ANSWER, LONGEST_CANDIDATE, clean
from saccade.grading.marks import Candidate, curly, marked, tagged
from saccade.grading.prose import leading_number, unmarked
from saccade.grading.quantities import DOUBT
from saccade.grading.wrappers import tight, unwrapped

Says = Callable[[str], object]
"""What a candidate says, as a value that equals that of another candidate that says the same; None: it says nothing."""
_MOST = 64
"""Candidates of one kind that are looked at: the last ones."""


@dataclass(frozen=True, slots=True)
class Extraction:
    r"""The final answer in a text."""

    text: str | None
    """None if there is none, or more than one."""
    problem: str = ""
    """Why there is none, for a person."""


_NOTHING = Extraction(None, "the answer is empty")


def words_said(candidate: str) -> str:
    """The words of a candidate, but for letter case and spaces: what it says where nothing more is known of it."""
    return tight(" ".join(candidate.casefold().split()))


def final_answer(text: str, says: Says = words_said, prose: bool = False) -> Extraction:
    """The one final answer in `text`, without what is written around it.

    `says` is what the grader reads in a candidate. With `prose`, sentences that conclude a longer text are read too:
    only for graders whose `says` is None for a text without an answer.
    """
    if len(text) > LONGEST_ANSWER:
        return Extraction(None, f"the answer is longer than {LONGEST_ANSWER} characters")
    said = _after_thinking(clean(text))
    parts = tagged(said)
    if not parts:
        return _inside(said, says, prose)
    found = [_inside(part, says, prose) for part in parts[-_MOST:]]
    problem = next((item for item in found if item.text is None), None)
    if problem is not None:
        return problem
    return _agreed([Candidate(item.text or "", strong=True) for item in found], says) or _NOTHING


def _inside(text: str, says: Says, prose: bool) -> Extraction:
    for layer in (marked(text), curly(text)):
        layer = layer[-_MOST:]
        if prose:
            layer = [one if says(one.text[:LONGEST_CANDIDATE]) is not None else _shortened(one) for one in layer]
        found = _agreed(layer, says)
        if found is not None:
            return found
    return unmarked_answer(text, says, prose)


def _shortened(one: Candidate) -> Candidate:
    """A candidate in a longer sentence: "1982 with an income of $9,000" is 1982."""
    return Candidate(leading_number(one.text[:LONGEST_CANDIDATE]), one.strong) if not one.strong else one


def unmarked_answer(text: str, says: Says, prose: bool) -> Extraction:
    """The answer of a text in which nothing is marked as one."""
    found: Extraction | None = None
    for layer in unmarked(text, says, prose):
        extraction = _agreed(layer, says)
        if extraction is None:
            continue
        if extraction.text is None or says(extraction.text) is not None:
            return extraction
        found = found or extraction
    last = next((line.strip() for line in reversed(text.split("\n")) if line.strip()), "")
    return found or (_taken(_bare(last)) if last else _NOTHING)


def _agreed(candidates: Sequence[Candidate], says: Says) -> Extraction | None:
    """What the candidates, in their order in the text, say in agreement; None if that is nothing at all."""
    plain = [Candidate(_bare(one.text.strip()), one.strong) for one in dict.fromkeys(candidates) if one.text.strip()]
    plain = [one for one in plain if one.text]
    if not plain:
        return _NOTHING if candidates else None
    sayings = [_short_says(one.text, says) for one in plain]
    weighed = [
        index
        for index, one in enumerate(plain)
        if sayings[index] is not None or not _is_aside(index, plain, sayings, one)
    ]
    if not weighed:
        return None
    last = weighed[-1]
    differing = [index for index in weighed if not _same(index, last, plain, sayings)]
    if differing:
        shown = ", ".join(repr(plain[index].text[:40]) for index in [*differing[:3], last])
        return Extraction(None, f"different answers were given: {shown}")
    return _taken(plain[last].text)


def _bare(text: str) -> str:
    """`text` without the markup around it; one that is too long to be compared stays too long, and is not read."""
    return unwrapped(text) if len(text) <= LONGEST_CANDIDATE else text[: LONGEST_CANDIDATE + 1]


def _taken(text: str) -> Extraction:
    if len(text) > LONGEST_CANDIDATE:
        return Extraction(None, f"the final answer is longer than {LONGEST_CANDIDATE} characters")
    return Extraction(text)


def _short_says(text: str, says: Says) -> object:
    return says(text) if len(text) <= LONGEST_CANDIDATE else text


def _is_aside(index: int, plain: Sequence[Candidate], sayings: Sequence[object], one: Candidate) -> bool:
    """Whether a candidate that says nothing is no answer but a sentence about it, and others say something."""
    answered_later = any(said is not None for said in sayings[index + 1 :])
    if one.strong:
        return answered_later and len(one.text.split()) > 3
    later_mark = any(
        other.strong and said is not None for other, said in zip(plain[index:], sayings[index:], strict=True)
    )
    return later_mark or len(one.text.split()) > 3


def _same(index: int, last: int, plain: Sequence[Candidate], sayings: Sequence[object]) -> bool:
    if sayings[index] == sayings[last]:
        return sayings[index] is not None or words_said(plain[index].text) == words_said(plain[last].text)
    # "The answer is Paris, the capital.\nAnswer: Paris": a text that was said in a sentence before.
    earlier, later = plain[index].text.casefold(), plain[last].text.casefold()
    spot = f" {' '.join(''.join(sign if sign.isalnum() else ' ' for sign in earlier).split())} "
    is_text = isinstance(sayings[last], str) and later[:1].isalpha()
    said_before = f" {later} " in spot and DOUBT.search(earlier) is None and " or " not in spot
    return plain[last].strong and not plain[index].strong and is_text and said_before


def _after_thinking(text: str) -> str:
    """What follows the last `</think>`; nothing where thinking was begun and not ended."""
    lower = text.lower() if text.isascii() else text
    end = lower.rfind("</think>")
    rest = text[end + len("</think>") :] if end >= 0 else text
    start = rest.find("<think>")
    return rest[:start] if start >= 0 else rest
