"""What a text says without marking it as its answer: its last line, or the sentence that concludes it.

A text whose lines could all be answers is a list of candidates and says nothing. Sentences are read for graders alone
that know what an answer looks like (`prose`): of these, first the last one that says that it concludes ("therefore",
"so"), then the last one, then the first. Of a sentence about several numbers that is read which it puts in bold, writes
after its last equals sign, or after "is" or "there are". Offers of help, code and tables at the end are no part of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from saccade.grading.marks import Candidate
from saccade.grading.number_words import with_digits
from saccade.grading.quantities import DOUBT
from saccade.grading.totals import totals

_LETTERED = re.compile(r"[*_\-\s(\[]{0,4}[A-Za-z][.):\]]+(?:\s|\*|$)")
_SIGN_OFF = re.compile(
    r"^(?:i hope (?:this|that|it)|hope this|let me know|is there anything else|do you have (?:any )?other"
    r"|please let me know"
    r"|if you have any|feel free|would you like|can i help|i'm (?:happy|glad) to help|have a (?:nice|great))\b.*$",
    re.IGNORECASE,
)
_CONCLUDES = re.compile(
    r"^[\s*_>#\d.)-]*(?:therefore|thus|hence|so|consequently|accordingly"
    r"|in conclusion|conclusion|to conclude|overall|in summary|finally"
    r"|as a result|this means|that means|based on (?:this|these|the)|it follows)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(
    r"(?<=[^\W_][.!?])(?<!\b[A-Z][.])(?<!vs\.)(?<!\bNo\.)(?<!Dr\.)(?<!Mr\.)(?<!Ms\.)[*_\"')]*\s+(?=[A-Z*(\"$\\])"
)
_ITEM = re.compile(r"[0-9]{1,2}[.)]")
_FENCE = re.compile(r"^\s*(?:```|~~~|\'\'\')")
_BOLD = re.compile(r"(?<![\w*])\*\*([^*\n]{1,200})\*\*(?![\w*])|\\mathbf\{([^{}]{1,100})\}|\\textbf\{([^{}]{1,100})\}")
_NUMBER_AHEAD: Final = r"(?=[\s*_$\\({£€-]{0,6}\.?[0-9])"
_COPULA = re.compile(
    r"(?:\b(?:is|are|was|were|equals?|be|being|has|have|had|contains?|shows?|get|totals?"
    r"|(?:comes?|amounts?|equal|rounds?|rounded|adds?\sup|simplif\w+|reduces?|closer|closest)\sto|total\sof)\b|=|≈)"
    r"(?:\s(?:equal\sto|about|approximately|only|exactly|just|thus|therefore|also|then|a\stotal\sof|around|roughly))*"
    + _NUMBER_AHEAD,
    re.IGNORECASE,
)
_WEAK_LINKS: Final = ("has", "have", "had", "get", "contains", "contain", "shows", "show", "total")
_THERE = re.compile(
    r"\bthere\s(?:are|is|were|was|will\sbe|would\sbe)(?:\s(?:only|exactly|just|about|approximately|still|now|a\stotal\sof))*"
    + _NUMBER_AHEAD,
    re.IGNORECASE,
)
_TOTAL = re.compile(r"\btotal(?:\s[a-z]+){0,3}\s(?:of|is|are|=)\s" + _NUMBER_AHEAD, re.IGNORECASE)
_AND_MORE = re.compile(r"(?:\b(?:and|or)|[,;])\s+[0-9]")
_CUT = re.compile(
    r"[,;](?=\s+(?!or\b|(?:and|to)\s+[0-9])[^\s0-9])|\.(?=\s|$)|\s(?:which|that|who|whose|where|when|because|since|with|in|on|for|if|as|between|among|from|at|by|than"
    r"|preferred|sold|left|and\sthe|so)\b",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"[0-9](?:[0-9.,]*[0-9])?")
_JOINED = re.compile(r"\b(?:or|to|and)\b|[-,;/+x×*=^]")
_NO_ANSWER_IN_BOLD = re.compile(
    r"(?:step|part|option|figure|case|question|note|method|row|column|image)\b|.*:$", re.IGNORECASE
)
_HEADING = re.compile(r"[*_#\s]*(?:step|part|figure|case|question|note|method)\s[0-9]{1,2}[*_.:)\s]*", re.IGNORECASE)
_LONGEST_SENTENCE: Final = 1_000
_MOST_SENTENCES: Final = 40

CandidateLayer = list[Candidate]


def unmarked(text: str, says: Callable[[str], object], prose: bool) -> Iterator[CandidateLayer]:
    """Layers of candidates, the more telling ones first."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not prose:
        yield [*map(Candidate, _like_answers(lines)), *map(Candidate, lines[-1:])]
        return
    lines = _without_frame(lines)
    sentences = [part for line in lines[-_MOST_SENTENCES:] for part in _sentences(line)]
    concluding = [part for part in sentences if _CONCLUDES.match(part)][-1:]
    first = _sentences(lines[0])[:1] if lines else []
    if first and len(first[0].split()) <= 3 and _ITEM.fullmatch(first[0]) is None and says(first[0]) is not None:
        yield [*map(Candidate, first), *(Candidate(part) for part in sentences[-1:] if says(part) is not None)]
    bold = [piece for _, piece in _in_bold("\n".join(lines)) if says(piece) is not None]
    if bold and all(says(part) == says(bold[0]) for part in bold[1:]):
        yield [Candidate(bold[0])]
    if len(lines) > 1 and concluding:
        yield from _pieces(concluding[0])
    readable = [line for line in _like_answers(lines) if says(line) is not None]
    yield [*map(Candidate, readable), *map(Candidate, lines[-1:])]
    for part in [*concluding, *sentences[-1:], *first]:
        yield from _pieces(part)


def _like_answers(lines: list[str]) -> list[str]:
    """The lines before the last one that look like answers too: lettered, or of up to three words without a stop."""
    found = []
    for line in lines[:-1]:
        prose = line.endswith((".", ":", "!", "?")) or len(line.split()) > 3 or line.startswith("#")
        if line != lines[-1] and (not prose or _LETTERED.match(line)):
            found.append(line)
    return [*found[:8], *found[8:][-8:]]


def _without_frame(lines: list[str]) -> list[str]:
    """Without offers of help, code, tables and headings of what follows, unless nothing else is there."""
    kept: list[str] = []
    inside = False
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line) is not None
        inside = inside != fence
        heading = number < len(lines) and _HEADING.fullmatch(line)
        if not (fence or inside or heading or line.startswith("|") or _SIGN_OFF.match(line)):
            kept.append(line)
    return kept or [line for line in lines if not _FENCE.match(line)]


def _sentences(line: str) -> list[str]:
    parts = [part.strip() for part in _SENTENCE.split(line) if part.strip()]
    return [part for part in parts if not _SIGN_OFF.match(part)] or parts[-1:]


def _pieces(sentence: str) -> Iterator[CandidateLayer]:
    """What a sentence may conclude with: what is in bold, all of it, what follows "=", "there are" or "is"."""
    if len(sentence) > _LONGEST_SENTENCE:
        return
    for start, piece in _in_bold(sentence)[-1:]:
        if DOUBT.search(sentence, endpos=start) is None:  # "**3**, not **7**" states no 7
            yield [Candidate(piece)]
    yield [Candidate(sentence)]
    plain = with_digits(sentence.replace("**", ""))
    if sentence.rstrip().endswith("?"):
        return
    yield from ([Candidate(number)] for number in totals(plain))
    there = _THERE.search(plain)
    if there is not None and _AND_MORE.search(plain, there.end()):
        there = None
    for found in (there, _TOTAL.search(plain), _last_copula(plain)):
        if found is not None and DOUBT.search(plain, endpos=found.start()) is None:
            yield [Candidate(_cut(plain[found.end() :]))]


def _in_bold(text: str) -> list[tuple[int, str]]:
    """Where each piece in bold begins, and the piece; headings such as "Step 1" are none."""
    pieces = [(spot.start(), next(group for group in spot.groups() if group)) for spot in _BOLD.finditer(text)]
    return [(start, piece) for start, piece in pieces if _NO_ANSWER_IN_BOLD.match(piece.strip()) is None]


def _last_copula(plain: str) -> re.Match[str] | None:
    links = list(_COPULA.finditer(plain))
    firm = [link for link in links if link[0].split()[0].casefold() not in _WEAK_LINKS]
    best = firm or links
    return best[-1] if best else None


def leading_number(piece: str) -> str:
    """The number with which `piece` starts, with its unit; all of it if it starts otherwise, or lists several."""
    starts = re.match(r"[\s*_$\\({£€-]{0,6}\.?[0-9]", piece)
    return piece if starts is None or _AND_MORE.search(piece) or DOUBT.search(piece) else _cut(piece)


def _cut(piece: str) -> str:
    """The number at the start with what belongs to it; all of it where a second number is joined on."""
    number = _NUMBER.search(piece)
    assert number is not None  # whoever asks has seen it there
    cut = _CUT.search(piece, number.end())
    piece = piece[: cut.start()] if cut else piece
    further = _NUMBER.search(piece, number.end())
    if further is not None and _JOINED.search(piece, number.end(), further.start()) is None:
        words = re.match(r"\S*(?:\s+[^\W\d]+){0,2}", piece[number.end() :])
        piece = piece[: number.end()] + (words[0] if words else "")
    return piece
