r"""Extract the final answer from a text, in this order of search.

1. inside `<answer>…</answer>` and other tags (`wrappers`), and there again by the rules below;
2. after a mark: `\boxed{…}`, `{"answer": …}`, "Answer: …", "the answer is …", in any of the `languages`;
3. inside `{…}` that belongs to no formula, as BlindTest asks for it;
4. unmarked: the whole text, its last line, or the sentence that concludes it (`prose`).

The first rule that finds something decides. The grader tells which answers say the same (`Says`); different ones are no
answer, so that nobody is graded by the better of two, unless one corrects the other ("no, wait"): the last word counts.
A line that only leads to the answer ("Thus, the correct answer is:") is none, and neither is a thought (`<think>`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from saccade.grading.clean import (
    LONGEST_ANSWER,
    LONGEST_CANDIDATE,
    Candidate,
    clean,
    curly,
    marked,
    tight,
    unwrapped,
)
from saccade.grading.equals import is_one_of_several, leads_to_value
from saccade.grading.languages import AGAIN, DOUBT, VERBS, WAIT, in_english, written_in
from saccade.grading.number_words import with_digits
from saccade.grading.quantities import ungrouped
from saccade.grading.remembered import remembered
from saccade.grading.wrappers import insides, without_thoughts

_NUMBER: Final = re.compile(r"(?<![0-9.,])[0-9]{1,9}(?![0-9]|[.,][0-9])")
_IN_ALL = re.compile(
    r"(?<![0-9.,])(?P<number>[0-9]{1,9})(?:\s[a-z]+){0,3}\s(?:in\s(?:total|all)|altogether|total)\b", re.IGNORECASE
)
_MAKING = re.compile(
    r"\b(?:mak(?:ing|es)|bring(?:ing|s)|rais(?:ing|es))\s(?:it|that|the\s(?:total|count|sum|number))\s(?:(?:up\s)?to\s)?"
    r"(?P<number>[0-9]{1,9})(?:\s[a-z]+)?\W*$",
    re.IGNORECASE,
)
_LEADS_TO = re.compile(
    r"[,;:]\s(?:(?:so|for|making|giving|which|that|there|it|is|are|makes|gives|a|total|of|and|thus|therefore|or)\s){0,5}"
)
_LISTED = re.compile(
    r"(?:[^0-9:]*\b(?:are|is|at|see|count|has|have|had|contains?|shows?|find|found)\s(?:(?:only|exactly|just|all)\s)?)?"
    r"(?P<number>[0-9]{1,9})(?:\s[a-z]+){0,4}:\s(?P<list>[^:]*)",
    re.IGNORECASE,
)


def totals(sentence: str) -> Iterator[str]:
    """Yield the total that a sentence states ("2 left and 3 right, 5 in total") if the other numbers confirm it."""
    if DOUBT.search(sentence) is not None:
        return
    making = _MAKING.search(sentence)
    if making is not None:
        yield making["number"]
    said = list(_IN_ALL.finditer(sentence))
    if len(said) == 1 and _borne_out(sentence, said[0]):
        yield said[0]["number"]
    listed = _LISTED.fullmatch(sentence)
    if listed is not None and int(listed["number"]) in _counts(listed["list"]):
        yield listed["number"]


def _borne_out(sentence: str, total: re.Match[str]) -> bool:
    """Tell whether the other numbers add up to the total, or lead to it as the last one."""
    before = list(_NUMBER.finditer(sentence, 0, total.start()))
    after = list(_NUMBER.finditer(sentence, total.end()))
    if sum(int(found[0]) for found in (*before, *after)) == int(total["number"]):
        return True
    leads = re.search(r"[,;:][^,;:]*$", sentence[: total.start()])
    return bool(before) and not after and leads is not None and _LEADS_TO.fullmatch(leads[0]) is not None


def _counts(listed: str) -> set[int]:
    """Return possible totals of a list: the sum and the count of its numbers, and the count of its brackets."""
    numbers = [int(found[0]) for found in _NUMBER.finditer(listed)]
    return {listed.count("(") or -1, *((sum(numbers), len(numbers)) if len(numbers) > 1 else ())}


# Unmarked answers: the last line or, with `prose`, a sentence: the last that concludes ("therefore", "so"), the last,
# the first. In a sentence with several numbers those count that are bold, or follow the last "=", "is" or "there are".
# Offers of help, code and tables at the end are skipped. A text whose lines could all be answers gives none.

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
    r"|total(?:\s[a-z]+)?(?=:)|as a result|this means|that means|based on (?:this|these|the)|it follows)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(
    r"(?<=[^\W_][.!?]|[)%°\"][.!?])(?<!\b[A-Z][.])(?<!vs\.)(?<!Dr\.)(?<!Mr\.)(?<!Ms\.)[*_\"')]*\s+(?=[A-ZÀ-ÞЀ-Я\u0590-\uffdc*(\"$\\])"
)
_ITEM = re.compile(r"[0-9]{1,2}[.)](?:\s.*)?", re.DOTALL)
_FENCE = re.compile(r"^\s*(?:```|~~~|\'\'\')")
_BOLD = re.compile(
    r"(?<![0-9A-Za-z_*])\*\*([^*\n]{1,200})\*\*(?![0-9A-Za-z_*])|\\mathbf\{([^{}]{1,100})\}|\\textbf\{([^{}]{1,100})\}"
)
_NUMBER_AHEAD: Final = r"(?=[\s*_$\\({£€-]{0,6}\.?[0-9])"
_COPULA = re.compile(
    r"(?:\b(?:is|are|was|were|equals?|be|being|has|have|had|contains?|shows?|get|totals?"
    r"|(?:comes?|amounts?|equal|rounds?|rounded|adds?\sup|simplif\w+|reduces?|closer|closest)\sto|total\sof|makes?|gives?|yields?)\b|(?<![<>!=])=(?!=)|≈)"
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
_TOTAL = re.compile(r"\btotal(?:(?:\s[a-z]+){0,3}\s(?:of|is|are|=)|:)\s" + _NUMBER_AHEAD, re.IGNORECASE)
_AND_MORE = re.compile(r"(?:\b(?:and|or)|[,;])\s+[0-9]")
_CUT = re.compile(
    r"[,;](?=\s+(?!or\b|(?:and|to)\s+[0-9])[^\s0-9])|\.(?=\s|$)|\s(?:which|that|who|whose|where|when|because|since|with|in|on|for|if|as|between|among|from|at|by|than"
    r"|preferred|sold|left|and\sthe|so)\b",
    re.IGNORECASE,
)
_PROSE_NUMBER: Final = re.compile(r"[0-9](?:[0-9.,]*[0-9])?")
_JOINED = re.compile(r"\b(?:or|to|and)\b|[-,;/+x×*=^]")
_NO_ANSWER_IN_BOLD = re.compile(
    r"(?:step|part|option|figure|case|question|note|method|row|column|image)\b|.*:$", re.IGNORECASE
)
_HEADING = re.compile(r"[*_#\s]*(?:step|part|figure|case|question|note|method)\s[0-9]{1,2}[*_.:)\s]*", re.IGNORECASE)
_LONGEST_SENTENCE: Final = 1_000
_MOST_SENTENCES: Final = 40
_ENDS: Final = 20_000

CandidateLayer = list[Candidate]


def unmarked(text: str, says: Callable[[str], object], prose: bool) -> Iterator[CandidateLayer]:
    """Yield layers of candidates, the most telling first; of a very long text its beginning and end are read."""
    if len(text) > 2 * _ENDS:
        text = f"{text[:_ENDS]}\n{text[-_ENDS:]}"
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not prose:
        yield [*map(Candidate, _like_answers(lines)), *map(Candidate, lines[-1:])]
        return
    total = _total_of_table(lines)
    lines = _without_given(_without_frame(lines))
    sentences = [part for line in lines[-_MOST_SENTENCES:] for part in _sentences(line)]
    sentences = [part for part in sentences if not _REMARK.fullmatch(part)] or sentences
    concluding = [part for part in sentences if _CONCLUDES.match(part)][-1:]
    first = _sentences(lines[0])[:1] if lines else []
    summed = len(lines) > 1 and _IS_TOTAL.match(lines[-1]) is not None
    if summed or (total and lines[-1].startswith("|")):
        yield [Candidate(lines[-1] if summed else total)]
    if first and len(first[0].split()) <= 3 and _ITEM.fullmatch(first[0]) is None and says(first[0]) is not None:
        short = [part for part in sentences[1:-1] if len(part.split()) <= 3]
        yield [
            *map(Candidate, first),
            *(Candidate(part) for part in (*short, *sentences[-1:]) if says(part) is not None),
        ]
    bold = list(dict.fromkeys(piece for _, piece in _in_bold("\n".join(lines))))
    telling = [piece for piece in bold if says(piece) is not None] if len(bold) <= _MOST else []
    if telling and all(says(part) == says(telling[0]) for part in telling[1:]):
        yield [Candidate(telling[0])]
    if len(lines) > 1 and concluding:
        yield from _pieces(concluding[0])
    if _REMARK.fullmatch(lines[-1] if lines else "") and len(lines) > 1:
        lines = lines[:-1]
    readable = [line for line in _like_answers(lines) if says(line) is not None]
    yield [*map(Candidate, readable), *map(Candidate, lines[-1:])]
    for part in [*concluding, *sentences[-1:], *first]:
        yield from _pieces(part)
    if total:
        yield [Candidate(total)]


_REMARK = re.compile(r"\([^()]{10,400}\)\.?")
"""A sentence in brackets, which remarks on something else than the answer."""
_TOTALS: Final = (
    r"(?:(?:grand\s|overall\s)?total|sum|gesamt|summe|insgesamt|somma|totale|suma|итого|всего|合计|合計|总计|總計|합계|tổng|toplam"
    r"|łącznie|razem|totaal)"
)
_IS_TOTAL = re.compile(rf"[*_\s-]*{_TOTALS}[^:\n]{{0,20}}:[*_\s]*[^:\n]{{1,60}}\Z", re.IGNORECASE)
_TOTAL_ROW = re.compile(rf"\|[*_\s]*{_TOTALS}[*_\s]*\|[^|]*?(?P<said>[^|]+)\|", re.IGNORECASE)


def _without_given(lines: list[str]) -> list[str]:
    """Drop the values that a last line works with, or follows: "July: 1,250 visitors"."""
    given = [line for line in lines[:-1] if _GIVEN.fullmatch(line)]
    leads = given and (_WORKING.search(lines[-1]) or (len(given) > 1 and not _GIVEN.fullmatch(lines[-1])))
    if len(given) > 1 and not leads and len(given) == len(lines) - 1:
        *parts, total = (float(_PROSE_NUMBER.findall(line)[-1].replace(",", "")) for line in lines)
        leads = sum(parts) == total
    return [line for line in lines if line not in given] if leads else lines


_GIVEN = re.compile(
    r"[-•*\s]{0,4}(?=[^\d\n:=→]{0,60}[^\W\d_][^\W_])[^\d\n:=→]{1,60}\d{0,4}\s?(?::|→|=>|->|=)[\s*$]{0,4}[$€£¥]?\d[^:=\n]{0,40}"
)
"""A value that is worked with, by its name: "July: 1,250 visitors"."""
_WORKING = re.compile(r"[0-9][^=\n]{0,40}[-+*/×·÷]\s?[^=\n]{0,40}[0-9][^=\n]{0,40}=")


def _total_of_table(lines: list[str]) -> str:
    """Return what the row of the total in a table says, where it is the last row of two columns."""
    rows = [line for line in lines if line.startswith("|")]
    found = _TOTAL_ROW.fullmatch(rows[-1].strip()) if len(rows) > 2 else None
    return found["said"].strip() if found is not None else ""


def _like_answers(lines: list[str]) -> list[str]:
    """Return earlier lines that look like answers too: lettered, or up to three words without a full stop."""
    found = []
    for line in lines[:-1]:
        prose = line.endswith((".", ":", "!", "?")) or len(line.split()) > 3 or line.startswith("#")
        if line != lines[-1] and (not prose or _LETTERED.match(line)):
            found.append(line)
    return [*found[:8], *found[8:][-8:]]


def _without_frame(lines: list[str]) -> list[str]:
    """Drop offers of help, code, tables and headings, unless nothing else is left."""
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
    """Yield possible conclusions of a sentence: bold text, all of it, and after "=", "there are" or "is"."""
    if len(sentence) > _LONGEST_SENTENCE:
        return
    for start, piece in _in_bold(sentence)[-1:]:
        if DOUBT.search(sentence, endpos=start) is None:  # "**3**, not **7**" states no 7
            yield [Candidate(piece)]
    yield [Candidate(sentence)]
    if _HEDGE.match(sentence):
        yield [Candidate(_SURELY.sub("", _HEDGE.sub("", sentence)))]
    sentence = sentence.replace("\\ ", " ")
    plain = ungrouped(with_digits(sentence.replace("**", "")))
    if sentence.rstrip().endswith("?"):
        return
    if end := concluded(sentence):
        yield [Candidate(_SURELY.sub("", ungrouped(sentence)[-len(end) :]))]
    yield from ([Candidate(number)] for number in totals(plain))
    there = _THERE.search(plain)
    last = _last_copula(plain)
    if there is not None and _AND_MORE.search(plain, there.end()):
        last = None if last is not None and last.end() == there.end() else last
        there = None
    for found in (there, _TOTAL.search(plain), last):
        if found is not None and DOUBT.search(plain, endpos=found.start()) is None:
            yield [Candidate(_cut(plain[found.end() :]))]


SO: Final = (
    r"(?:(?:[,;.]|\s-|(?<=\d))\s(?:(?:and|but|und|et|y|e|и)\s)?(?:so|hence|thus|therefore|(?:which|that)\s(?:makes?|gives?|is|leaves|means|comes\sto|totals)|giving|making|leaving|i\.e\.|that\sis"
    r"|(?P<german>also)|somit|daher|das\s(?:heißt|macht|sind|ergibt)|donc|soit|c'est-à-dire|así\sque|es\sdecir|o\ssea|por\s(?:(?:lo\s)?tanto|lo\sque)|portanto|logo|ou\sseja|ossia|quindi|dunque|cioè"
    r"|то\sесть|значит|поэтому|следовательно|итого|отже|тобто|czyli|więc|zatem|dus|oftewel|yani|dolayısıyla|tức\slà|vậy|nên|jadi|yaitu|sehingga|أي|إذن|لذا|لذلك|یعنی|پس|तो|यानी|इसलिए|তাই|অর্থাৎ|tehát|azaz|vagyis"
    r"|eli|siis|joten|alltså|dvs\.?|altså|tedy|takže|deci|adică|άρα|δηλαδή|כלומר|לכן)(?![^\W\d_]),?:?\s|(?:所以|因此|即|也就是|故|したがって|よって|つまり|ので|따라서|즉|그러므로|므로),?\s?|(?<=[0-9])\s?(?:→|⇒|⟶|➜|[-=]>)\s?)"
)
"""What leads to the conclusion of a sentence: "they are 2 rows of 3, so 6"."""
_SO = re.compile(SO, re.IGNORECASE)


def concluded(sentence: str) -> str:
    """Return what follows the last "so", "thus" or the like within a sentence, in any language; empty without one."""
    so = list(_SO.finditer(sentence))
    return sentence[so[-1].end() :] if so and (not so[-1]["german"] or written_in(sentence) == "de") else ""


_HEDGE = re.compile(
    r"(?:(?:I(?:'m|\sam)?\s(?:can't|cannot|can\snot|not|could\snot|couldn't|don't|wouldn't)|it(?:'s|\sis)\s(?:hard|difficult|not|tricky|tough))\b[^.;:!?]{0,120}?|[^.;:!?]{0,60}\b(?:at\sfirst(?:\sglance)?|first|initially|looks\slike"
    r"|looked\slike|seems?|seemed|thought)\b[^.;:!?]{0,80}?),?\s(?:but|though|however,?)\s(?=(?:it(?:'s|\sis)|there(?:'s|\sare|\sis)|I|the|my)\b)",
    re.IGNORECASE,
)
"""A hedge before an answer that is given after all."""
_SURELY = re.compile(
    r"\A(?:the\s(?:answer|count|total|number)\s(?:is|comes\sto)|it\sis|there\sare|I\s(?:count|get|see))\s",
    re.IGNORECASE,
)


def _in_bold(text: str) -> list[tuple[int, str]]:
    """Return start and text of each bold piece, without headings such as "Step 1"."""
    pieces = [(spot.start(), next(group for group in spot.groups() if group)) for spot in _BOLD.finditer(text)]
    return [(start, piece) for start, piece in pieces if _NO_ANSWER_IN_BOLD.match(piece.strip()) is None]


def _last_copula(plain: str) -> re.Match[str] | None:
    links = list(_COPULA.finditer(plain))
    equations = [link for link in links if link[0][0] in "=≈"]
    several = any(is_one_of_several(plain[: link.start()]) for link in equations)
    links = [link for link in links if link not in equations or (not several and leads_to_value(plain[: link.start()]))]
    firm = [link for link in links if link[0].split()[0].casefold() not in _WEAK_LINKS]
    if not firm and len(links) > 1:
        return None  # "Tom has 3 apples, Anna has 5": the question tells whose are asked for
    return (firm or links)[-1] if links else None


def leading_number(piece: str) -> str:
    """Return the number at the start of `piece`, with its unit; all of it if there is none or several."""
    starts = re.match(r"[\s*_$\\({£€-]{0,6}\.?[0-9]", piece)
    return piece if starts is None or _AND_MORE.search(piece) or DOUBT.search(piece) else _cut(piece)


def _cut(piece: str) -> str:
    """Return the number at the start with its unit; all of it if a second number is joined on."""
    number = _PROSE_NUMBER.search(piece)
    assert number is not None  # the callers have matched it
    cut = _CUT.search(piece, number.end())
    piece = piece[: cut.start()] if cut else piece
    further = _PROSE_NUMBER.search(piece, number.end())
    grouped = further is not None and piece[number.end() : further.start()].isspace()  # 15 000
    if further is not None and not grouped and _JOINED.search(piece, number.end(), further.start()) is None:
        words = re.match(r"\S*(?:\s+[^\W\d]+){0,2}", piece[number.end() :])
        piece = piece[: number.end()] + (words[0] if words else "")
    return piece


Says = Callable[[str], object]
"""Maps a candidate to a value that is equal for candidates that say the same; None: it says nothing."""
_DEEPEST: Final = 8
_MOST = 64
"""The last candidates of one kind that are considered."""
_LONGEST_TOGETHER: Final = 8_000
"""Characters of several different marked answers beyond which none of them is read."""


@dataclass(frozen=True, slots=True)
class Extraction:
    r"""The final answer in a text."""

    text: str | None
    """None if there is none, or more than one."""
    problem: str = ""
    """Why there is none, for a person."""


_NOTHING = Extraction(None, "the answer is empty")


def words_said(candidate: str) -> str:
    """Return the words of a candidate without letter case and spacing: the default `Says`."""
    return tight(" ".join(candidate.casefold().split()))


def final_answer(text: str, says: Says = words_said, prose: bool = False) -> Extraction:
    """Extract the single final answer from `text`.

    `says` is the grader's reading of a candidate. With `prose`, concluding sentences of a longer text are read too, for
    which `says` must be None for a text without an answer.
    """
    if len(text) > LONGEST_ANSWER:
        return Extraction(None, f"the answer is longer than {LONGEST_ANSWER} characters")
    return _in_part(_said(text), lambda part: says(part) if len(part) <= LONGEST_CANDIDATE else None, prose)


@remembered
def _said(text: str) -> str:
    """Return what a text says behind its thoughts, with English leads to its answer."""
    return in_english(without_thoughts(clean(text)))


def _in_part(text: str, says: Says, prose: bool, depth: int = 0) -> Extraction:
    """Extract the answer inside tags, and inside tags within these."""
    parts = insides(text)
    if not parts:
        return _inside(_corrected(text, says, prose), says, prose)
    if depth == _DEEPEST:
        return Extraction(None, f"tags are nested more than {_DEEPEST} deep")
    parts = list(dict.fromkeys(parts[-_MOST:]))
    if (too_long := _too_long(parts)) is not None:
        return too_long
    found = [_in_part(part, says, prose, depth + 1) for part in parts]
    problem = next((item for item in found if item.text is None), None)
    if problem is not None:
        return problem
    return _agreed([Candidate(item.text or "", strong=True) for item in found], says) or _NOTHING


def _too_long(marked_answers: Sequence[str]) -> Extraction | None:
    """Return why several different answers are not read; None where they are short enough, or only one."""
    if len(marked_answers) < 2 or sum(map(len, marked_answers)) <= _LONGEST_TOGETHER:
        return None
    return Extraction(None, f"the different marked answers are longer than {_LONGEST_TOGETHER} characters together")


_INSTRUCTS = re.compile(
    r"\b(?:e\.?g\b|for\s(?:example|instance)|such\sas|examples?|hint|format|answer|respond|reply|output|brackets?|braces)\b"
    r"|\\boxed|<answer>|[例如答]",
    re.IGNORECASE,
)
_PART = re.compile(r"\n+|(?<=[.!?])\s+(?=[A-Z(\[<{\\])|(?<=[。！？])")
_FEWEST_WORDS: Final = 3
_LONGEST_QUESTION: Final = 20_000


def without_question(answer: str, question: str) -> str:
    """Remove the question from an answer that repeats it, or its parts that say how to answer, with their examples."""
    if len(answer) > LONGEST_ANSWER or len(question) > _LONGEST_QUESTION or _is_short(question):
        return answer
    instructions = [part for part in _PART.split(question) if _INSTRUCTS.search(part) and not _LETTERED.match(part)]
    parts = [part for part in instructions if not _is_short(part)]
    for repeated in dict.fromkeys((question, *parts[:_MOST])):
        words = repeated.split()
        if words[0] in answer and words[-1] in answer:
            answer = re.sub(r"\s+".join(map(re.escape, words)), " ", answer)
    return answer


def _is_short(text: str) -> bool:
    return len(text.split()) < _FEWEST_WORDS and len(text) < 12  # some scripts write no spaces


@remembered
def in_final_part(text: str) -> str | None:
    """Return an answer without thoughts and tags, for graders that read it whole; None if parts of it are marked."""
    if len(text) > LONGEST_ANSWER:
        return None
    said = _said(text)
    parts = insides(said)
    part = parts[0] if len(parts) == 1 else said
    return None if len(parts) > 1 or insides(part) or marked(part) else part.strip()


_ITALIC = re.compile(r"(?<![\w*])\*([^*\s][^*\n]{0,200})\*(?![\w*])")
_IN_SIGNS = re.compile(
    r"(?<![\\$])\$([^$\n]{1,500})\$(?!\$)|\\\((.{1,500}?)\\\)|\\\[(.{1,500}?)\\\]|\$\$([^$]{1,500})\$\$", re.DOTALL
)

_ONE_OF = re.compile(r"\b(?:or|oder|ou|o|u|eller|of|lub|albo|или|або|veya|atau|hoặc)\W*\Z|[或또]\W*\Z", re.IGNORECASE)


def emphasised(answer: str, question: str, formulas: bool = False) -> tuple[str, ...]:
    """Return the pieces of an unmarked answer in bold or italics, or in formula signs, that no doubt stands by.

    Of text one piece, or none; of formulas up to four, which all have to be right.
    """
    whole = in_final_part(without_question(answer, question))
    if whole is None:
        return ()
    plain = [(found.start(), found[1]) for found in _ITALIC.finditer(whole)]
    signs = [(found.start(), next(filter(None, found.groups()))) for found in _IN_SIGNS.finditer(whole)]
    for pieces in (_in_bold(whole), signs if formulas else plain):
        if 1 <= len({piece.strip() for _, piece in pieces}) <= (4 if formulas else 1):
            start, piece = pieces[-1]
            corrections = _NO_WAIT.finditer(whole, max(1, start - _ENDS), start)
            corrected = max((again.end() for again in corrections), default=0)
            begin = max(whole.rfind(". ", 0, start) + 1, whole.rfind("\n", 0, start) + 1, corrected)
            rest = re.split(r"[.!?]\s|\n", whole[start + len(piece) :], maxsplit=1)[0]
            doubtful = DOUBT.search(f"{whole[begin:start]} {rest}") or _ONE_OF.search(whole[begin:start])
            return () if doubtful else tuple(dict.fromkeys(piece.strip(" .:") for _, piece in pieces))
    return ()


def _inside(text: str, says: Says, prose: bool) -> Extraction:
    for kind in (marked(text), curly(text)):
        layer = list(dict.fromkeys(kind[-_MOST:]))
        if (problem := _too_long([one.text[:LONGEST_CANDIDATE] for one in layer])) is not None:
            return problem
        if prose:
            layer = [one if says(one.text[:LONGEST_CANDIDATE]) is not None else _shortened(one) for one in layer]
        found = _agreed(layer, says)
        if found is not None:
            return found
    return unmarked_answer(text, says, prose)


_CLAUSE: Final = (
    r"(?:^|[.,;:!?…)*-]|\b(?i:but|however|yet)|\((?=correct|korr|corr[eé]|исправ|поправ|更正|纠正|糾正|訂正|정정))"
)
_IT_IS: Final = rf"[.,;:!…\s-]{{0,8}}(?i:(?:{VERBS}|das\sist|c'est)\s)?"
_NO_WAIT = re.compile(
    rf"{_CLAUSE}\s{{0,3}}(?:oh,?\s|hmm,?\s|hold on,?\s)?"
    rf"(?i:{WAIT}|no,?\swait|wait,?\sno|no,?\sactually|actually,?\sno|wait|actually|scratch\sthat|correct(?:ion|ed(?:\s(?:box|answer))?)|sorry"
    r"|(?:but\s)?the\squestion\sasks\s(?:for|about)\s[^\[\]():\n]{1,80}|my\smistake|i\smean|i\smeant|on\ssecond\sthoughts?|no(?=[,!…-]|\.(?!\s?[0-9]))"
    r"|(?:sorry,\s)?i\s(?:misread|miscounted|made\sa\smistake|was\swrong)[^.\n]{0,40}"
    r"|let\sme\s(?:correct\s(?:that|this|myself)|recount|redo\s(?:that|this)))"
    rf"(?=\s{{0,3}}(?:[.,;:!…-]|$)|\s(?:it's|it\sis|there|the\sanswer)|\s\W?[A-Z0-9]){_IT_IS}"
    rf"|(?:{_CLAUSE}\s{{0,3}}|(?<=[\u3040-\ud7a3]))(?i:{AGAIN}){_IT_IS}",
    re.MULTILINE,
)
"""What announces a correction, at the start of a clause."""
_LOOKED_AGAIN = re.compile(
    rf"{_CLAUSE}[\s,]{{0,3}}(?:(?:but|however|yet|then|hmm{{1,9}}|oops),?\s)?"
    r"(?:(?:up)?on\s(?:a\s)?(?:(?:closer|further|second|careful|more\scareful)\s(?:look|inspection|examination|reflection|glance"
    r"|viewing)|reflection)|(?:after\s|when\s|by\s|i'm\s)?(?:looking|zooming\sin|checking|counting)(?:\s(?:again|closer|closely"
    r"|more\s(?:closely|carefully)|carefully|further|once\smore))*|after\sa\s(?:closer|second)\slook|re-?(?:counting|checking|examining)"
    r"|let\sme\s(?:look|check|count)(?:\s(?:again|closer|once\smore))?|hmm{1,9}|oops|rather|in\sfact)"
    r"(?:\s?[.,:;…]{1,3}\s{0,3}|\s(?=it(?:'s|\sis)\b|i\s|there\b|the\s(?:correct\s|right\s)?answer\b|[A-Ja-j]\W*$|\d))"
    r"(?P<lead>(?:i\s(?:now\s)?(?:can\s)?(?:see|count|find|notice|think|reali[sz]e)\s(?:that\s)?)?"
    r"(?:(?:it|that)(?:'s|\sis|\slooks)\s(?:actually\s|really\s)?|there(?=\s(?:is|are|isn't|aren't))"
    r"|(?:the|my)\s(?:correct\s|right\s)?answer\s(?:is|should\sbe)\s)?)",
    re.IGNORECASE,
)
"""What announces a second look, at the start of a clause: a short answer after it corrects the one before."""


def is_corrected(text: str) -> bool:
    """Tell whether a text announces a correction behind its beginning: "4. Wait, one of them is orange"."""
    return _NO_WAIT.search(text, 1) is not None


_SHORT_CORRECTION: Final = 12
"""Words."""
_LONGEST_CORRECTION: Final = 400
"""Characters."""


def _corrected(text: str, says: Says, prose: bool) -> str:
    """Return what follows the last correction ("no, wait") if that answers anew or only denies; else all of `text`."""
    begin = max(len(text) - len(text.lstrip()), len(text) - _ENDS)
    looks = [again for again in _LOOKED_AGAIN.finditer(text, begin) if again.start() > begin]
    for again in reversed(looks):
        rest = text[again.start("lead") if again["lead"].casefold() == "there" else again.end() :].strip()
        if len(rest) > _LONGEST_CORRECTION:
            break
        if len(rest.split()) <= (4 if again["lead"] else 1) and says(_bare(rest)) is not None:
            return rest
    corrections = [again for again in _NO_WAIT.finditer(text, begin) if again.start() > begin]
    if corrections:
        rest = text[corrections[-1].end() :].strip()
        if marked(rest) or (len(rest.split()) <= _SHORT_CORRECTION and says(_bare(rest)) is not None):
            return rest
    last = max((again.end() for again in (*looks[-1:], *corrections[-1:])), default=0)
    rest = text[last:].strip()
    if last and prose and DOUBT.search(rest) is not None and not marked(text):
        said = unmarked_answer(rest, says, prose).text
        return rest if said is None or says(said) is None else text  # "B. Wait, that is not right."
    return text


def _shortened(one: Candidate) -> Candidate:
    """Shorten a candidate within a sentence: "1982 with an income of $9,000" becomes 1982."""
    return Candidate(leading_number(one.text[:LONGEST_CANDIDATE]), one.strong) if not one.strong else one


def unmarked_answer(text: str, says: Says, prose: bool) -> Extraction:
    """Extract an answer from unmarked text; of 'The sign says "EXIT".' the quotation, where sentences are not read."""
    quoted = None if prose or len(text) > LONGEST_CANDIDATE else _QUOTED.fullmatch(_bare(text.strip()))
    if quoted is not None and DOUBT.search(quoted["lead"]) is None:
        return _taken(quoted["said"])
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


_QUOTED = re.compile(
    r"(?P<lead>[^\"\n]{1,80}\b(?:says?|reads?|is|states|shows|displays|spells|named|called)\b(?:\s(?:that|the\sword))?:?\s?)"
    r"[\"'](?P<said>[^\"\n]{1,200})[\"']",
    re.IGNORECASE,
)


def _agreed(candidates: Sequence[Candidate], says: Says) -> Extraction | None:
    """Return the answer that all candidates agree on, or why there is none; None if they say nothing."""
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
    """Strip markup; a text that is too long to be compared stays too long and is not read."""
    return unwrapped(text) if len(text) <= LONGEST_CANDIDATE else text[: LONGEST_CANDIDATE + 1]


def _taken(text: str) -> Extraction:
    if len(text) > LONGEST_CANDIDATE:
        return Extraction(None, f"the final answer is longer than {LONGEST_CANDIDATE} characters")
    return Extraction(text)


def _short_says(text: str, says: Says) -> object:
    return says(text) if len(text) <= LONGEST_CANDIDATE else text


def _is_aside(index: int, plain: Sequence[Candidate], sayings: Sequence[object], one: Candidate) -> bool:
    """Tell whether a candidate that says nothing is only a sentence about the answer given by others."""
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
