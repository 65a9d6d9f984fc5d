"""Normalise text before it is compared, strip markup, and find marked answers.

Invisible characters go, minus signs and quotes get one form, superscripts become `^` and digits, `½` becomes `1/2`.
Visibly different texts stay different, except for compatibility forms (NFKC).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from saccade.grading.languages import DOUBT
from saccade.grading.remembered import remembered
from saccade.grading.wrappers import stated_in_json, without_end_tokens
from saccade.record.content import clean_text

LONGEST_ANSWER: Final = 200_000
"""Characters of an answer beyond which it is not read."""
LONGEST_CANDIDATE: Final = 2_000
"""Characters of a final answer beyond which it is not compared."""
_SHOWN: Final = 200

_SUPERSCRIPTS: Final = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"
_SUPER = re.compile(f"[{_SUPERSCRIPTS}]+")
_PLAIN: Final = str.maketrans(_SUPERSCRIPTS, "0123456789+-")
_VULGAR = re.compile("(?P<before>[0-9])?(?P<sign>[¼½¾⅐-⅞])")
_ONE_FORM: Final = str.maketrans(
    {
        **dict.fromkeys("−‒–—―﹣－⁃", "-"),
        **dict.fromkeys("‘’‚‛′`´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("º˚", "°"),
        "⁄": "/",
        "∕": "/",
        **dict.fromkeys("【〔", "("),
        **dict.fromkeys("】〕", ")"),
        **dict.fromkeys("「」『』", '"'),
        "٪": "%",
        "٫": ".",
        **dict.fromkeys("٬،、", ","),
        "؛": ";",
        "؟": "?",
        **dict.fromkeys("。।॥۔", "."),
        "\u20e3": "",  # keycaps
        "\ufe0f": "",
        **dict.fromkeys("\u0640\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u0654", ""),  # often left out
        "\r": "\n",
        "\u2028": "\n",
        "\u2029": "\n",
    }
)
_WIDE_STOPS: Final = str.maketrans(
    {"，": ", ", "、": ", ", "：": ": ", "；": "; ", "！": "! ", "？": "? ", "。": ". "}
    | {"،": ", ", "؛": "; ", "؟": "? "}
)
_WIDE_STOP = re.compile(r"[，、：；！？。،؛؟](?![0-9０-９\s])|(?<![0-9０-９])[，、：；！？。](?=[0-9０-９])")
_CIRCLED = re.compile("(?<=[①-⑳Ⓐ-ⓩ])(?=[①-⑳Ⓐ-ⓩ])")
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")
_DIGIT_GAP = re.compile("(?<=[0-9])[\u00a0\u2007\u2009\u202f](?=[0-9]{3}(?![0-9]))")


@remembered
def clean(text: str) -> str:
    """Return `text` in one spelling; at most `LONGEST_ANSWER` characters of it are looked at."""
    text = without_end_tokens(clean_text(text[:LONGEST_ANSWER]))
    if text.isascii():
        return _all_visible(text.replace("\r", "\n"))
    text = _SUPER.sub(lambda match: "^" + match[0].translate(_PLAIN), text)
    text = _VULGAR.sub(_spelt_fraction, text)
    text = _WIDE_STOP.sub(lambda match: match[0].translate(_WIDE_STOPS), _CIRCLED.sub(", ", text))
    text = _DIGIT_GAP.sub("", text.translate(_ONE_FORM))
    text = unicodedata.normalize("NFKC", text).translate(_ONE_FORM)
    text = _FOREIGN_DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text)
    return _all_visible(text)


@remembered
def folded(text: str) -> str:
    """Return `text` in one spelling, lower-case, every run of white space one space."""
    return " ".join(clean(text).casefold().split())


def clipped(text: str) -> str:
    """Return `text` short enough for a message, and such that JSON can hold it."""
    return clean_text(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def _spelt_fraction(match: re.Match[str]) -> str:
    above, _, below = unicodedata.normalize("NFKC", match["sign"]).partition("⁄")
    return f"{match['before']} {above}/{below}" if match["before"] else f"{above}/{below}"


def _all_visible(text: str) -> str:
    """Drop signs of format, and write a space for others that cannot be seen."""
    unseen = {sign for sign in set(text) if not sign.isprintable() and sign != "\n"}
    return text.translate({ord(sign): "" if unicodedata.category(sign) == "Cf" else " " for sign in unseen})


_TEXT_COMMAND = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|operatorname|ce)\s?\{([^{}\\]*)\}")
_BOLD = re.compile(
    r"(?<![0-9A-Za-z_*])\*\*(?=[^\s*])([^*]{1,200})(?<=\S)\*\*(?![0-9A-Za-z_*])"
)  # never the power `9**9**9`
_DECIMAL_COMMA = re.compile(r"(?<=[0-9])\{,\}(?=[0-9]+(?![0-9]))(?![0-9]{3}(?![0-9]))")
"""`0{,}6` is a decimal; `1{,}000` is a thousand."""
_TIE = re.compile(r"(?<!\\)\\ ")
_INNER_SIGNS = re.compile(r"(?<!\\)\\[()\[\]]")
_FENCE = re.compile(r"(?P<tick>`{1,3}|\'\'\')(?:[a-z]{0,12}\n)?(?P<inside>[^`]*)(?P=tick)")
_LOOSE = re.compile(r"(?<![0-9A-Za-z])\s+|\s+(?![0-9A-Za-z])")
_PAIRS: Final = (
    ("***", "***"),
    ("**", "**"),
    ("__", "__"),
    ("*", "*"),
    ("$$", "$$"),
    ("$", "$"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ('"', '"'),
    ("'", "'"),
)
_SPACING: Final = (
    ("\\lvert", "|"),
    ("\\rvert", "|"),
    ("{,}", ","),
    ("\\!", ""),
    ("\\,", " "),
    ("\\;", " "),
    ("\\:", " "),
    ("\\quad", " "),
    ("\\%", "%"),
    ("\\$", "$"),
    ("^{\\circ}", "°"),
    ("^\\circ", "°"),
    ("\\circ", "°"),
    ("\\degree", "°"),
    ("\\displaystyle", ""),
    ("\\left", ""),
    ("\\right", ""),
    ("\\dfrac", "\\frac"),
    ("\\tfrac", "\\frac"),
)

_PICTOGRAPH: Final = r"(?![❌✗✘❎❓❔🚫⛔])[\u2600-\u27bf\u2b50-\u2b55\U0001f000-\U0001faff\ufe0f\u200d]"
_PICTOGRAPHS = re.compile(rf"\A(?:{_PICTOGRAPH}\s*)+|(?:\s*{_PICTOGRAPH})+\Z")
"""Emoji at the ends, which say nothing further; signs that deny or ask stay."""


@remembered
def unwrapped(text: str) -> str:
    """Strip markup around an answer: Markdown, quotes, LaTeX delimiters, text commands, emoji, a final full stop."""
    if "\\" in text or "{" in text:
        text = _without_commands(text)
    text = _fenced(_BOLD.sub(r"\1", text).strip()).strip()
    text = text if text.isascii() else _PICTOGRAPHS.sub("", text) or text
    while (bare := _without_pair(_without_stop(text)).strip()) != text:
        text = bare
    return text


def _without_commands(text: str) -> str:
    """Write commands of LaTeX as signs, spaces or their plain text."""
    text = _DECIMAL_COMMA.sub(".", text)
    for old, new in _SPACING:
        text = text.replace(old, new)
    return _INNER_SIGNS.sub("", _TEXT_COMMAND.sub(_plain_text, _TIE.sub(" ", text)))


def _plain_text(match: re.Match[str]) -> str:
    """Return the inside of a text command; its tie signs are spaces, and it never grows onto a command before it."""
    apart = match.start() > 0 and match.string[match.start() - 1].isalpha()
    return (" " if apart else "") + match[1].replace("~", " ")


def _fenced(text: str) -> str:
    """Return the inside of a text that is fenced as code."""
    fence = _FENCE.fullmatch(text)
    return fence["inside"] if fence else text


def tight(text: str) -> str:
    """Return `text` without the spaces that mean nothing in a formula; those between two digits or letters stay."""
    return _LOOSE.sub("", text.strip())


def _without_stop(text: str) -> str:
    """Drop the full stop that ends a sentence; that of `P.M.` or `…` stays."""
    head = text.rstrip("*_ ")
    if head.endswith(".") and not head.endswith("..") and not re.search(r"(?:^|[\s.])[A-Za-z]\.[A-Za-z]\.$", head):
        return head[:-1] + text[len(head) :]
    return text


def _without_pair(text: str) -> str:
    for opening, closing in _PAIRS:
        if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
            inner = text[len(opening) : -len(closing)]
            if opening not in inner and closing not in inner:
                return inner
    return text.removeprefix("**").removesuffix("**") if text.count("**") == 1 else text


# Marks of an answer (boxes, JSON, phrases, braces) are each found in one pass over the text.

_BOX = re.compile(r"\\(?:boxed|fbox)\s?(?=\{)")
_PHRASE = re.compile(
    r"\b(?<!incorrect\s)(?<!wrong\s)(?<!trap\s)(?<!worst\s)(?<!false\s)(?:answer|ans|final\s(?:answer|result)"
    r"|(?:correct|right|best|closest|appropriate|accurate|suitable)\s(?:(?:answer|option|statement|response)\s)?"
    r"(?:answer|option|choice))"
    r"(?:\s(?:to\s(?:the|this|your)\squestion\s)?(?:is|are|should\sbe|would\sbe|must\sbe|will\sbe)\b"
    r"(?:\s(?:therefore|thus|then|hence|definitely|clearly|indeed|simply|likely|undoubtedly|certainly|surely|obviously)\b)?)?"
    r"[*_\"]{0,3}\s?(?P<colon>[:=]|-(?=\s))?[*_]{0,3}",
    re.IGNORECASE,
)
_MAY_MARK = re.compile(r"\bans|final\s|option|choice|question", re.IGNORECASE)
"""In every line with a phrase that marks an answer."""
_VERB = re.compile(r"\b(?:is|are|be)(?:\s[a-z]+)?[*_\s]*$", re.IGNORECASE)
_DISTANT = re.compile(
    r"(?:correct|right|best)\s(?:answer|option|choice|question)\b[^.\n:]{1,80}?\s(?:is|are)[:\s]", re.IGNORECASE
)
_LEAD = re.compile(
    r"[\s#>*_\-\d.)(\\\[]*(?:\\text\s?\{)?(?:(?:the|my|final|correct|so|thus|therefore|hence|closest|best)[,\s]+)*",
    re.IGNORECASE,
)
_LEADS_ON = re.compile(
    r"[\s*_]*(?:so|thus|therefore|hence)?[,\s]*(?:the|my)(?:\s(?:final|correct|best))?[\s*_]*", re.IGNORECASE
)
_DENIED = re.compile(
    rf"(?:{DOUBT.pattern})(?:(?!\b(?:but|so|thus|therefore|hence|because|since|means|implies|suggests|shows|tells|indicates)\b)"
    r"(?:[^.,;:!?\n]|,\s(?=dass|daß|że|что|що|hogy))){0,60}\b(?:that|if|whether|think|says?|believe|suppose|feel|see\s(?:how|why)"
    r"|que|dass|daß|che|dat|że|что|що|hogy)\s(?:(?:the|my|final|correct|right|best)\s){0,3}$",
    re.IGNORECASE,
)
_LONGEST_DENIAL: Final = 400
"""Characters, more than `_DENIED` can take up."""
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
    """Whether the mark stands by itself (a box, "Answer:" at the start of a line), not within a sentence."""


@remembered
def marked(text: str) -> tuple[Candidate, ...]:
    """Return boxes and phrases in order; a phrase that leads to a box is that box."""
    boxes = list(_boxed(text))
    found = [(end, Candidate(inside, strong=True)) for _, end, inside in boxes]
    stated = list(stated_in_json(text))
    found += [(start, Candidate(said, strong=True)) for start, _, said in stated if _BOX.search(said) is None]
    starts = sorted(start for start, _, _ in boxes)
    openings = sorted(start for start, _, _ in stated)
    closings = list(accumulate((end for _, end, _ in sorted(stated)), max))
    for start, end, candidate in _phrased(text):
        last = bisect_right(openings, start)
        inside = last > 0 and start <= closings[last - 1]
        if bisect_left(starts, start) == bisect_right(starts, end) and not inside:
            found.append((start, candidate))
    return tuple(candidate for _, candidate in sorted(found, key=lambda pair: pair[0]))


def is_mark(line: str) -> bool:
    """Tell whether a line announces an answer."""
    return any(head["colon"] or _VERB.search(head[0]) for head in _PHRASE.finditer(line))


def curly(text: str) -> tuple[Candidate, ...]:
    """Return groups in braces; named ones (`rows={5} columns={6}`) are one answer. Lines with formulas have none."""
    return tuple(Candidate(group) for group in _groups(text))


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
    if _MAY_MARK.search(text) is None:
        return
    lines = text.split("\n")
    following = ""
    below: list[str] = [""] * len(lines)
    for number in range(len(lines) - 1, -1, -1):
        below[number] = following
        following = lines[number] if lines[number].strip(_EDGES) else following
    position = 0
    for number, line in enumerate(lines):
        if _MAY_MARK.search(line):
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
        before_head, before = before, head.end()
        said = _SENTENCE_END.split(line[head.end() : end], maxsplit=1)[0].strip()
        said = said.strip("*") if said.strip(_EDGES) else ""
        if not said.strip(_EDGES) and number + 1 == len(heads):
            if _PHRASE.search(below[:200]) is not None or below.rstrip("* ").endswith(":"):
                continue  # only leads to the next line, which has a mark of its own or leads on
            said = below.strip().lstrip(">#").strip()
        elif said.rstrip("* ").endswith(":") or not said or _LEADS_ON.fullmatch(said):
            continue
        denied = _DENIED.search(line, max(before_head, head.start() - _LONGEST_DENIAL), head.start())
        if denied is not None:
            said = line[denied.start() : head.end()] + said
        groups = _groups(said) if _IN_BRACES.match(said) else []
        yield from ((position + head.start(), position + end, Candidate(one, strong)) for one in (groups or [said]))


def _groups(text: str) -> list[str]:
    plain = "\n".join(line for line in text.split("\n") if _FORMULA.search(line) is None)
    groups = list(_CURLY.finditer(plain))
    if len(groups) > 1 and all(found["name"] for found in groups):
        return [", ".join(f"{found['name']}={found['inside']}" for found in groups)]
    return [found["inside"] for found in groups]
