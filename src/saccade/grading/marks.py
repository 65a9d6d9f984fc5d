r"""What a text marks as its answer: tags, boxes, "Answer: …", "the answer is …", single braces.

Each mark is found in one pass over the text. A candidate is strong where the mark stands by itself (a box, or "Answer:"
at the start of a line) and weak where it is part of a sentence ("so the answer is …").
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_TAG: Final = re.compile(r"<(?P<close>/?)answer>", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)\s?(?=\{)")
_PHRASE = re.compile(
    r"\b(?:answer|ans|final\s(?:answer|result)"
    r"|(?:correct|right|best|closest|appropriate|accurate|suitable)\s(?:(?:answer|option|statement|response)\s)?"
    r"(?:answer|option|choice))"
    r"(?:\s(?:to\s(?:the|this|your)\squestion\s)?(?:is|are|should\sbe|would\sbe|must\sbe|will\sbe)\b"
    r"(?:\s(?:therefore|thus|then|hence|definitely|clearly|indeed|simply|likely)\b)?)?"
    r"[*_\"]{0,3}\s?(?P<colon>[:=]|-(?=\s))?[*_]{0,3}",
    re.IGNORECASE,
)
_VERB = re.compile(r"\b(?:is|are|be)(?:\s[a-z]+)?[*_\s]*$", re.IGNORECASE)
_DISTANT = re.compile(
    r"(?:correct|right|best)\s(?:answer|option|choice|question)\b[^.\n:]{1,80}?\s(?:is|are)[:\s]", re.IGNORECASE
)
_LEAD = re.compile(
    r"[\s#>*_\-\d.)(\\\[]*(?:\\text\s?\{)?(?:(?:the|my|final|correct|so|thus|therefore|hence|closest|best)[,\s]+)*",
    re.IGNORECASE,
)
_BRACE = re.compile(r"(?<!\\)[{}]")
_SENTENCE_END = re.compile(
    r"(?:(?<=[^\W_]{2})|(?<=[)%°}*\"']))(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bDr)(?<!\bSt)(?<!\bMt)(?<!\bNo)(?<!\bvs)"
    r"[.!]\s+(?=[A-Z*(])|\s(?:because|since)\s"
)
_FORMULA = re.compile(r"(?:\\[A-Za-z]+|[\^_√])\s*\{")
_CURLY = re.compile(
    r"(?:(?<![A-Za-z])(?P<name>[A-Za-z]+)\s?=\s?)?(?<![\\^_}\]A-Za-z0-9])\{(?P<inside>[^{}\\\":]{1,200})\}"
)
_IN_BRACES = re.compile(r"[\s*_$'\"]*(?:\{|[A-Za-z]+\s?=\s?\{)")
_EDGES: Final = " *_:`#>"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A piece of a text that may be its answer."""

    text: str
    strong: bool = False
    """Whether it is marked as the answer by itself, and not within a sentence."""


def tagged(text: str) -> list[str]:
    """The insides of the answer tags; without a closing one (stop strings are often cut off), up to the end."""
    parts: list[str] = []
    start: int | None = None
    for tag in _TAG.finditer(text):
        if start is None and not tag["close"]:
            start = tag.end()
        elif start is not None and tag["close"]:
            parts.append(text[start : tag.start()])
            start = None
    return parts if start is None else [*parts, text[start:]]


def marked(text: str) -> list[Candidate]:
    """Boxes and phrases in the order in which they stand; a phrase that leads to a box is that box."""
    boxes = list(_boxed(text))
    found = [(end, Candidate(inside, strong=True)) for _, end, inside in boxes]
    starts = sorted(start for start, _, _ in boxes)
    for start, end, candidate in _phrased(text):
        if bisect_left(starts, start) == bisect_right(starts, end):
            found.append((start, candidate))
    return [candidate for _, candidate in sorted(found, key=lambda pair: pair[0])]


def is_mark(line: str) -> bool:
    """Whether a line says that an answer follows."""
    return any(head["colon"] or _VERB.search(head[0]) for head in _PHRASE.finditer(line))


def curly(text: str) -> list[Candidate]:
    """Groups in braces; named ones (`rows={5} columns={6}`) are one answer together. Lines with formulas have none."""
    return [Candidate(group) for group in _groups(text)]


def _boxed(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and inside of the boxes that hold no further box."""
    boxes = {found.end() for found in _BOX.finditer(text)}
    if not boxes:
        return
    opened: list[int] = []
    latest: int | None = None
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            opened.append(brace.start())
            latest = brace.start() if brace.start() in boxes else latest
        elif opened and opened.pop() == latest:
            yield latest, brace.end(), text[latest + 1 : brace.start()]


def _phrased(text: str) -> Iterator[tuple[int, int, Candidate]]:
    """Start and end of the line's part, and what is said there; what only leads to an answer says nothing."""
    lines = text.split("\n")
    following = ""
    below: list[str] = [""] * len(lines)
    for number in range(len(lines) - 1, -1, -1):
        below[number] = following
        following = lines[number] if lines[number].strip(_EDGES) else following
    position = 0
    for number, line in enumerate(lines):
        yield from _in_line(line, position, below[number])
        position += len(line) + 1


def _in_line(line: str, position: int, below: str) -> Iterator[tuple[int, int, Candidate]]:
    heads = [head for head in _PHRASE.finditer(line) if head["colon"] or _VERB.search(head[0])]
    heads = heads or list(_DISTANT.finditer(line))[-1:]
    leading, before = True, 0
    for number, head in enumerate(heads):
        end = heads[number + 1].start() if number + 1 < len(heads) else len(line)
        leading = leading and _LEAD.fullmatch(line, before, head.start()) is not None
        strong = leading and head.re is _PHRASE and head["colon"] is not None
        before = head.end()
        said = _SENTENCE_END.split(line[head.end() : end])[0].strip()
        said = said.strip("*") if said.strip(_EDGES) else ""
        if not said.strip(_EDGES) and number + 1 == len(heads):
            if _PHRASE.search(below[:200]) is not None or below.rstrip("* ").endswith(":"):
                continue  # only leads to the next line, which has a mark of its own or leads on
            said = below.strip().lstrip(">#").strip()
        elif said.rstrip("* ").endswith(":") or not said:
            continue
        groups = _groups(said) if _IN_BRACES.match(said) else []
        yield from ((position + head.start(), position + end, Candidate(one, strong)) for one in (groups or [said]))


def _groups(text: str) -> list[str]:
    plain = "\n".join(line for line in text.split("\n") if _FORMULA.search(line) is None)
    groups = list(_CURLY.finditer(plain))
    if len(groups) > 1 and all(found["name"] for found in groups):
        return [", ".join(f"{found['name']}={found['inside']}" for found in groups)]
    return [found["inside"] for found in groups]
