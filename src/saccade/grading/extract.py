r"""The final answer in a text: where it is looked for, in this order, and what makes it doubtful.

1. inside `<answer>…</answer>`, and there again by the rules below;
2. inside `\boxed{…}`, braces matched;
3. after "the answer is", "Answer:" and their like, up to the end of the line or sentence;
4. inside `{…}` that belongs to no formula, as BlindTest asks for it;
5. the whole text, or its last line, unless a line before it looks like an answer too: lettered, or of up to three
   words without a stop.

The first rule that finds something decides. If it finds different things, the text has no answer: nobody may answer
twice and be graded by the better one. What a model thinks between `<think>` tags is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from saccade.grading.clean import LONGEST_ANSWER, LONGEST_CANDIDATE, clean
from saccade.grading.wrappers import tight, unwrapped

_TAG_OPEN: Final = "<answer>"
_TAG_CLOSE: Final = "</answer>"
_BOX = re.compile(r"\\(?:boxed|fbox)\s?(?=\{)")
_PHRASE = re.compile(
    r"\b(?:answer|final\s(?:answer|result)|(?:correct|right|best)\s(?:answer|option|choice))"
    r"(?:\s(?:to\s(?:the|this)\squestion\s)?(?:is|are|should\sbe|would\sbe|must\sbe)\b)?[*_]{0,3}\s?(?P<colon>[:=])?[*_]{0,3}",
    re.IGNORECASE,
)
_VERB = re.compile(r"\b(?:is|are|be)[*_\s]*$", re.IGNORECASE)
_BRACE = re.compile(r"(?<!\\)[{}]")
_SENTENCE_END = re.compile(
    r"(?:(?<=[^\W_]{2})|(?<=[)%°}*\"']))(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bDr)(?<!\bSt)(?<!\bMt)(?<!\bNo)(?<!\bvs)"
    r"[.!]\s+(?=[A-Z*(])|\s(?:because|since)\s"
)
_LETTERED = re.compile(r"[*_\-\s(\[]{0,4}[A-Za-z][.):\]]+(?:\s|\*|$)")
_FORMULA = re.compile(r"\\[A-Za-z]+\s*\{|[\^_]\s*\{")
_CURLY = re.compile(r"(?<![\\^_}\]A-Za-z0-9])\{(?P<inside>[^{}\\\":]{1,200})\}")


@dataclass(frozen=True, slots=True)
class Extraction:
    r"""The final answer in a text."""

    text: str | None
    """None if there is none, or more than one."""
    problem: str = ""
    """Why there is none, for a person."""


def final_answer(text: str) -> Extraction:
    """The one final answer in `text`, without what is written around it."""
    if len(text) > LONGEST_ANSWER:
        return Extraction(None, f"the answer is longer than {LONGEST_ANSWER} characters")
    said = _after_thinking(clean(text))
    tagged = list(_tagged(said))
    if not tagged:
        return _inside(said)
    found = [_inside(part) for part in tagged]
    problem = next((item.problem for item in found if item.text is None), "")
    if problem:
        return Extraction(None, problem)
    return _single([item.text or "" for item in found])


def _inside(text: str) -> Extraction:
    for rule in (_boxed, _phrased, _curly):
        candidates = list(rule(text))
        if candidates:
            return _single(candidates)
    return _last_line(text)


def _last_line(text: str) -> Extraction:
    """The last line, if no line before it looks like an answer too: a list of candidates is no answer."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    for line in lines[:-1]:
        prose = line.endswith((".", ":", "!", "?")) or len(line.split()) > 3 or line.startswith("#")
        if line != lines[-1] and (not prose or _LETTERED.match(line)):
            return Extraction(None, f"lines before the last one look like answers too: {line[:40]!r}")
    return _single(lines[-1:])


def _single(candidates: list[str]) -> Extraction:
    distinct: dict[str, str] = {}
    for candidate in dict.fromkeys(candidates):
        plain = unwrapped(candidate[: LONGEST_CANDIDATE + 1])
        distinct.setdefault(tight(" ".join(plain.casefold().split())), plain)
        if len(distinct) > 4:
            break
    distinct.pop("", None)
    if not distinct:
        return Extraction(None, "the answer is empty")
    if len(distinct) > 1:
        shown = ", ".join(repr(text[:40]) for text in list(distinct.values())[:4])
        return Extraction(None, f"different answers were given: {shown}")
    text = next(iter(distinct.values()))
    if len(text) > LONGEST_CANDIDATE:
        return Extraction(None, f"the final answer is longer than {LONGEST_CANDIDATE} characters")
    return Extraction(text)


def _after_thinking(text: str) -> str:
    """What follows the last `</think>`; nothing where thinking was begun and not ended."""
    lower = text.lower() if text.isascii() else text
    end = lower.rfind("</think>")
    rest = text[end + len("</think>") :] if end >= 0 else text
    start = rest.find("<think>")
    return rest[:start] if start >= 0 else rest


def _tagged(text: str) -> Iterator[str]:
    """The insides of the answer tags; without a closing one (stop strings are often cut off), up to the end."""
    position = 0
    while (start := text.find(_TAG_OPEN, position)) >= 0:
        start += len(_TAG_OPEN)
        end = text.find(_TAG_CLOSE, start)
        end = len(text) if end < 0 else end
        yield text[start:end]
        position = end


def _boxed(text: str) -> Iterator[str]:
    """The insides of the boxes that hold no further box."""
    boxes = {found.end() for found in _BOX.finditer(text)}
    if not boxes:
        return
    opened: list[int] = []
    latest = -1
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            opened.append(brace.start())
            latest = brace.start() if brace.start() in boxes else latest
        elif opened and opened.pop() == latest:
            yield text[latest + 1 : brace.start()]


def _phrased(text: str) -> Iterator[str]:
    following = ""
    found: list[str] = []
    for line in reversed(text.split("\n")):
        heads = [head for head in _PHRASE.finditer(line) if head["colon"] or _VERB.search(head[0])]
        ends = [*(head.start() for head in heads[1:]), *([len(line)] if heads else [])]
        for head, end in zip(heads, ends, strict=True):
            said = _SENTENCE_END.split(line[head.end() : end], maxsplit=1)[0]
            found.append(said.strip().strip("*") if said.strip(" *_:") else following)
        following = line if line.strip() else following
    for said in found:
        yield from list(_curly(said)) or [said]


def _curly(text: str) -> Iterator[str]:
    """Groups in braces; named ones (`rows={5} columns={6}`) are one answer together. Lines with formulas have none."""
    plain = "\n".join(line for line in text.split("\n") if _FORMULA.search(line) is None)
    groups = list(_CURLY.finditer(plain))
    names = [re.search(r"([A-Za-z]+)\s?=\s?$", plain[max(0, found.start() - 30) : found.start()]) for found in groups]
    if len(groups) > 1 and all(names):
        yield ", ".join(f"{name[1]}={found['inside']}" for name, found in zip(names, groups, strict=True) if name)
    else:
        yield from (found["inside"] for found in groups)
