"""Find the number that a question asks for in a sentence with several, and read numbers as its language writes them.

No language has rules of its own here: the words of the question tell which number it names itself, and which one stands
where it asks. "Im Café sitzen acht Personen: drei Paare und zwei Gäste" counts persons, as the question does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Final

from saccade.grading.clean import clean, unwrapped
from saccade.grading.extract import concluded, is_corrected
from saccade.grading.languages import DOUBT, common_words, written_in
from saccade.grading.number_words import foreign_words_as_digits, with_digits
from saccade.grading.quantities import (
    AMONG,
    PER_HUNDRED,
    UNSPACED,
    Numeral,
    is_known,
    numerals,
    ungrouped,
)

LONGEST: Final = 400
_MOST: Final = 12
WORD = re.compile(r"[^\W\d_]+")
_YEAR = re.compile(r"(?:1[89]|20)[0-9]{2}")
_ASKS_YEAR = re.compile(
    r"\b(?:(?:which|what|welche[ms]?|quelle?|qué|que|qual|quale|в\sкаком|w\skt[óo]rym|welk|vilket|hvilket)\s(?:year|jahr|année|año|ano|anno|год\w*|roku|jaar|år)"
    r"|năm\snào|tahun\sberapa|hangi\syıl)|哪一?年|何年|몇\s?년",
    re.IGNORECASE,
)
LEAVES_OPEN = re.compile(
    r"\b(?:or|oder|ou|oppure|или|або|lub|czy|eller|vagy|atau|hoặc|veya)\b|或|または|또는|\?", re.IGNORECASE
)
_DENIES = re.compile(rf"{DOUBT.pattern}|[不没沒未]|ない|なかっ|않|못|안\s", re.IGNORECASE)
_EVERY = re.compile(
    r"(?:\b(?:all|alle[nr]?|tod[oa]s|tou(?:te)?s|tutt[ie]|все[хм]?|усі[хм]?|wszystkie|tất\scả|semua|tüm|kaikki|alla)\b|[所全都]有?|すべて|모든|모두).{0,6}\Z",
    re.IGNORECASE,
)
"""Before a number that the question names: "all 5 cars" counts them."""
_OF = re.compile(
    r"\s(?:out\s)?(?:of|von|der|sur|des|de|su|dei|delle|di|из|z|ze|van|av|af|dari|trong)\s(?:(?:the|these|those|den|les|los|las|os|as|de)\s)?",
    re.IGNORECASE,
)
_ON = re.compile(r"(?:,|;|[和与及]|\b(?:and|und|y|e|et|и|і|en|och|og|i|dan|và|ve|a|και))\s?\Z", re.IGNORECASE)
"""Joins a further count to one before: "3 cats on the left and 2 on the right"."""
_ONE = re.compile(r"(?P<lead>\band|[,;:-])\sone\b(?!\s(?:another|other))", re.IGNORECASE)
_PARTED = re.compile(r"\s?[:(]\s?|\s-\s")
_SIGNS = re.compile(r"[*+/×÷=√^]|[0-9]\s?-\s?[0-9]")
_LINKS: Final = "是为為约約有共了は이가은는"
_TOO_COMMON: Final = "的是在了有は가이은는に"


def asks_year(question: str) -> bool:
    """Tell whether a question asks for a year."""
    return _ASKS_YEAR.search(question) is not None


def asked_for(text: str, question: str) -> str | None:
    """Return `text` with no number but the one that `question` asks for; None if that cannot be told."""
    read = _numbers(text, question)
    if read is None:
        return None
    plain, asked, found, left = read
    if asks_year(question):
        years = [one for one in found if _YEAR.fullmatch(plain, one.start, one.end)]
        return _alone(plain, found, years[0]) if len(years) == 1 else None
    share = len(found) == 2 and _OF.fullmatch(plain, found[0].end, found[1].start) and found[0].value < found[1].value
    about, told = telling_words(asked), telling_words(plain)
    missing = [word for word in about[1:] or about if not is_known(word) and _stem(word) not in map(_stem, told)]
    if about and not_asked(told, asked) and (missing if share else len(left) == 1 and missing[-1:] == about[-1:]):
        return None  # "17 of the 20 passed" tells nothing of those who failed
    if share and _counted(plain, found[1], asked):
        return _alone(plain, found, found[0])
    whole = [found[0]] if _comes_to(plain, found, asked) and _counted(plain, found[0], asked) else []
    for way in (left, whole, _whole(plain, left, asked), _filling(plain, left, asked), _by_clause(plain, left, asked)):
        if len(way) == 1:
            return _alone(plain, found, way[0])
    return None


def told_first(text: str, question: str) -> str | None:
    """Return `text` with the number that its sentences say of what is asked, before any rule looks at one sentence.

    "There are 4 cats. Three sit and one sleeps"; "37 people prefer tea, 25 coffee". None where it may be another.
    """
    read = _numbers(text, question)
    if read is None or len(read[2]) < 2 or asks_year(question) or is_corrected(text):
        return None
    plain, asked, found, left = read
    whole = [found[0]] if _comes_to(plain, found, asked) and _counted(plain, found[0], asked) else []
    way = _part(plain, found, asked) or whole or _total(plain, left, asked)
    way = way or (_by_clause(plain, left, asked) if 2 <= len(left) <= 4 else [])
    return _alone(plain, found, way[0]) if len(way) == 1 else None


def _total(plain: str, left: Sequence[Numeral], asked: str) -> list[Numeral]:
    """Return the last number where it is said to be the total of the others: "3 red, 4 blue and 2 black, 9 in all".

    Where the question asks for one of the parts, that one.
    """
    *parts, last = left
    lead = plain[parts[-1].end : last.start] if len(parts) > 1 else ""
    adds_up = sum(part.value for part in parts) == last.value
    if not adds_up or not (_TOTAL.search(lead) or _IN_ALL.match(plain, last.end)) or DOUBT.search(plain):
        return []
    counted = [_content(plain[one.end : other.start], False) for one, other in pairwise(left)]
    told = [{after, plain[: part.start].rstrip()[-2:]} for part, after in zip(parts, counted, strict=True)]
    keys = [{word[0] if UNSPACED.match(word) else word for word in words if word} for words in told]
    every = set.intersection(*keys)  # "3 red books, 4 blue books": what all of them are is what the total counts
    meant = [
        part
        for part, words in zip(parts, told, strict=True)
        if any(
            word and not {word, word[0]} & every and word not in plain[last.end :] and is_asked_about(word, asked)
            for word in words
        )
    ]
    return meant or [last]


_TOTALS: Final = (
    r"(?:一共|总共|總共|共计|共計|合计|合計|全部で|\b(?:in\stotal|in\sall|altogether|a\stotal\sof|insgesamt|zusammen|en\stotal|au\stotal|en\stout|no\stotal|ao\stodo"
    r"|in\stotale|in\stutto|всего|итого|разом|усього|łącznie|razem|celkem|in\stotaal|totalt|toplam|tổng\scộng|total)\b|모두|총)"
)
_TOTAL = re.compile(rf"[,;.:,，;;。]\s?[^,;.:]{{0,12}}{_TOTALS}[^,;.:]{{0,12}}\Z", re.IGNORECASE)
_IN_ALL = re.compile(rf"(?:\s[^\W\d_]+)?\s{_TOTALS}", re.IGNORECASE)


def _part(plain: str, found: tuple[Numeral, ...], asked: str) -> list[Numeral]:
    """Return the part of a whole that the question asks for by a word that the whole lacks: "7 candles, 3 are lit"."""
    first, *parts = found
    apart = APART.search(plain, first.end)
    summed = len(parts) > 1 and sum(one.value for one in parts) == first.value
    if (
        apart is None
        or apart.start() > parts[0].start
        or not all(0 < one.value < first.value for one in parts)
        or not (summed or (len(parts) == 1 and AMONG.fullmatch(plain)))
        or _RECKONS.search(asked)
        or _JOINS.search(asked)
    ):
        return []
    lead = plain[: apart.start()]
    ends = [one.start for one in parts[1:]] + [len(plain)]
    rests = [plain[one.end : end] for one, end in zip(parts, ends, strict=True)]

    def is_new(word: str) -> bool:
        if UNSPACED.match(word):
            return word in asked and word not in lead
        return is_asked_about(word, asked) and not is_asked_about(word, lead)

    meant = [any(map(is_new, telling_words(rest))) for rest in rests]
    return [parts[meant.index(True)]] if sum(meant) == 1 and _counted(plain, first, asked) else []


def strays(text: str, question: str) -> frozenset[Fraction]:
    """Return the numbers of a text that it says of another year than the question's, or of more than something else."""
    asked, plain = plain_text(question), plain_text(text[-LONGEST:])
    found = numerals(plain) or ()
    years = {found[0] for found in re.finditer(_YEAR, asked)}
    stray, own = set[Fraction](), set[Fraction]()
    for one in found:
        begin = max((other.end() for other in APART.finditer(plain, 0, one.start)), default=0)
        end = APART.search(plain, one.end)
        told = {year[0] for year in _YEAR.finditer(plain[begin : end.start() if end else len(plain)])}
        more = _COMPARED.match(plain, one.end) and not _RECKONS.search(asked) and not _COMPARATIVE.search(asked)
        if more or (told and years and told.isdisjoint(years)):
            stray.add(one.value)
        else:
            own.add(one.value)
    return frozenset(stray - own if own else ())


_COMPARATIVE = re.compile(
    r"\b(?:taller|shorter|longer|higher|lower|wider|older|younger|heavier|lighter|bigger|smaller|larger|faster|slower|farther"
    r"|further|deeper|warmer|colder|cheaper|more|fewer|less)\b"
)
_COMPARED = re.compile(rf"\s?\S{{1,12}}\s{_COMPARATIVE.pattern}")


def _numbers(text: str, question: str) -> tuple[str, str, tuple[Numeral, ...], list[Numeral]] | None:
    """Return text and question in plain spelling, the numbers of the text, and those that the question does not name.

    None where they leave it open, or there is nothing to choose from.
    """
    if len(text) > 2 * LONGEST:
        return None
    asked, whole = plain_text(question), plain_text(text)
    plain = _without_names(whole, asked)
    found = numerals(plain) if len(plain) <= LONGEST else None
    if not found or len(found) > _MOST or (len(found) < 2 and plain == whole):
        return None
    if DOUBT.search(plain) or LEAVES_OPEN.search(plain) or _denies(question):
        return None
    named = {key for one in re.finditer(r"[0-9]+(?:[.,][0-9]+)*", asked) for key in _named_by(asked, one.span())}
    left = []
    for one in found:
        if named.isdisjoint(_named_by(plain, (one.start, one.end))):
            left.append(one)
        elif _EVERY.search(plain[: one.start]):
            return None
    if not asks_year(question):
        left = [
            one for one in left if not (_YEAR.fullmatch(plain, one.start, one.end) and plain[one.end :][:1] in "年년")
        ]
    return (plain, asked, found, left) if left else None


@lru_cache(maxsize=64)
def plain_text(text: str) -> str:
    """Return a text as its numbers are looked for: in plain spelling, with number words as digits."""
    plain = PER_HUNDRED.sub("%", unwrapped(clean(text[: 4 * LONGEST])))
    plain = with_digits(ungrouped(foreign_words_as_digits(plain)))
    plain = re.sub(r"(?<=[^\W\d_])(?:\s-\s|([,:]))(?=[0-9])", lambda found: f"{found[1] or ':'} ", plain)
    plain = _ONE.sub(r"\g<lead> 1", plain) if re.search(r"[0-9]", plain) else plain
    return re.sub(r"\bno(?=s?\s[a-z])", "em", plain) if written_in(plain) == "pt" else plain  # "in the"


def _denies(question: str) -> bool:
    """Tell whether a question asks what is not so; the Portuguese "no" means "in the"."""
    if re.match(r"\W*(?:\w+\s){0,2}(?:quant[oa]s?|qual|quais)\b", question, re.IGNORECASE):
        return "não" in question.casefold()
    return _DENIES.search(question.strip().rstrip("?？ ")) is not None


def _without_names(plain: str, asked: str) -> str:
    """Drop the question's names with digits: "aged 18-24", "in Q4"."""
    for name in re.findall(
        r"(?<!\S)[^\s0-9]{0,9}[0-9]+[-:/A-Za-z][^\s.,?!]{0,9}|(?<!\S)[A-Za-z]{1,9}[0-9]{1,4}(?![^\s.,?!])", asked
    ):
        plain = plain.replace(name, " ")
    return plain


def _alone(plain: str, found: tuple[Numeral, ...], meant: Numeral) -> str:
    """Return the text without the digits of other numbers."""
    kept, start = [], 0
    for one in found:
        if one is not meant:
            kept.append(plain[start : one.start])
            start = one.end
    return "".join([*kept, plain[start:]])


def _content(part: str, backwards: bool, reach: int = 3) -> str:
    """Return the word nearest to a number that tells something, of unspaced scripts two signs; empty without one."""
    part = part.rpartition("\n")[2].rstrip(" *_\"'$(") if backwards else part.partition("\n")[0].lstrip(" *_\"'-%°")
    if backwards and UNSPACED.match(part[-1:]):
        return part.rstrip(_LINKS)[-2:]
    if UNSPACED.match(part[:1]) and not backwards:
        return part[:2]
    tokens = part.split()[::-1] if backwards else part.split()
    for token in tokens[:reach]:
        word = token.strip(".,:;!?()\"'*").casefold()
        if word.isdigit() or (backwards and (token[-1:] in ".,:;!?" or _ON.fullmatch(word))):
            break
        if len(word) > 2 and word not in common_words():
            return word
        if not backwards and token[-1:] in ".,:;!?":
            break
    return ""


def _named_by(text: str, span: tuple[int, int]) -> Iterator[tuple[str, str, str]]:
    """Yield a number with the word on either side; a year stands for itself."""
    digits = text[span[0] : span[1]].strip("+-$€£¥ ")
    if _YEAR.fullmatch(digits):
        yield digits, "", ""
    for way, word in (("after", _content(text[: span[0]], True, 1)), ("before", _content(text[span[1] :], False, 1))):
        if word:
            yield digits, way, _stem(word)


def _stem(word: str) -> str:
    word = word.removeprefix("ال")
    return word[: max(4, len(word) - 3)]


def is_asked_about(word: str, asked: str) -> bool:
    """Tell whether a question holds a word, perhaps in another form."""
    if not word:
        return False
    if UNSPACED.match(word):
        return word in asked or (
            word[0] not in _TOO_COMMON and f"{word[0]}{word[1:2] if word[0] in _LINKS else ''}" in asked
        )
    return _stem(word) in {_stem(other) for other in WORD.findall(asked.casefold())}


def _counted(plain: str, one: Numeral, asked: str) -> bool:
    return is_asked_about(_content(plain[one.end :], False), asked)


def _filling(plain: str, left: list[Numeral], asked: str) -> list[Numeral]:
    """Return the numbers that stand where the question asks: "at the outer level 6 electrons", "3 red cars".

    None where a further count is joined on, which may be a part of the answer.
    """
    ranks = []
    if _FURTHER.search(plain):
        return []
    for one in left:
        head, counted = plain[: one.start].rstrip(), _counted(plain, one, asked)
        if (
            _ON.search(head)
            and not _phrase(plain[one.end :])
            and not counted
            and not _YEAR.fullmatch(plain, one.start, one.end)
        ):
            return []
        before = _content(head, True)
        shared = 0
        if UNSPACED.match(before):
            head = head.rstrip(_LINKS)
            if _ON.search(head):
                return []
            shared = next((size for size in range(min(12, len(head)), 1, -1) if head[-size:] in asked), 0)
            counted = (
                counted or _SLOT.match(asked, asked.find(head[-shared:]) + shared) is not None if shared else False
            )
        elif is_asked_about(before, asked) and _is_plain(plain, one, asked):
            shared = 2
            counted = counted or not _content(plain[one.end :], False)
        ranks.append(shared if counted else 0)
    best = max(ranks, default=0)
    if best and sum(rank > best - 2 for rank in ranks) == 1:
        return [left[ranks.index(best)]]
    if _EACH.search(plain) or _RECKONS.search(asked) or _JOINS.search(asked):
        return []
    for forwards, phrases in (
        (True, [_phrase(plain[one.end :]) for one in left]),
        (False, [_phrase_before(plain[: one.start]) for one in left]),
    ):
        known = [bool(words) and not not_asked(words, asked) for words in phrases]
        closed = [not forwards or _ends(plain[one.end :], words) for one, words in zip(left, phrases, strict=True)]
        if all(phrases) and sum(known) == 1 and all(a or b for a, b in zip(known, closed, strict=True)):
            return [left[known.index(True)]]
    return []


def _is_plain(plain: str, one: Numeral, asked: str) -> bool:
    """Tell whether the clause of a number holds no word that the question lacks: of Tom's goals none is Anna's."""
    if _RECKONS.search(asked) or _JOINS.search(asked):
        return False
    begin = max((found.end() for found in APART.finditer(plain, 0, one.start)), default=0)
    end = APART.search(plain, one.end)
    clause = plain[begin : end.start() if end else len(plain)]
    return not not_asked(telling_words(clause), asked) and _labels(clause) <= _labels(asked)


def not_asked(words: list[str], asked: str) -> list[str]:
    """Return the words that the question does not hold."""
    return [word for word in words if not is_asked_about(word, asked)]


def _labels(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w'])[A-Z](?![\w'])", text))


_JOINS = re.compile(r"\b(?:and|und|y|et|и|e|och|dan|và|ve)\b|[和与及]|(?<=[\u3040-\u9fff])と", re.IGNORECASE)


def _ends(rest: str, words: list[str]) -> bool:
    """Tell whether an item of a list ends with these words, so that they name a thing."""
    tokens = rest.split()
    tail = tokens[len(words) :]
    return not words or tokens[len(words) - 1][-1:] in ",;.:" or not tail or _ON.fullmatch(tail[0]) is not None


_SLOT = re.compile(r"[是为為有占共约はがを은는이가\s]{0,3}(?:多少|几|幾|何|什么|いくら|몇|얼마|百分之)")


def _phrase_before(head: str) -> list[str]:
    words = _phrase(" ".join(reversed(head.split("\n")[-1].split())))
    return words if len(words) > 1 else []


def _phrase(rest: str) -> list[str]:
    """Return the words beside a number up to a common one or a stop: "3 red cars in"."""
    words: list[str] = []
    for token in rest.split()[:4]:
        word = token.strip(".,:;!?()\"'*").casefold()
        if not word.isalpha() or word in common_words() or len(word) < 3:
            break
        words.append(word)
        if token[-1:] in ".,:;!?":
            break
    return words


def _whole(plain: str, left: list[Numeral], asked: str) -> list[Numeral]:
    """Return the number whose parts the others are: they come to it, or a colon leads to them."""
    if len(left) < 2 or _SIGNS.search(plain):
        return []
    first, *parts = left
    if not all(0 < one.value < first.value for one in parts) or not _content(plain[first.end :], False):
        return []
    apart = _PARTED.search(plain, first.end)
    led = apart is not None and apart.end() <= parts[0].start and _counted(plain, first, asked)
    return [first] if led or (len(parts) > 1 and sum(one.value for one in parts) == first.value) else []


def _comes_to(plain: str, found: tuple[Numeral, ...], asked: str) -> bool:
    """Tell whether the other numbers come to the first one: by sum or product, or in brackets as a difference."""
    first, *parts = (one.value for one in found)
    apart = re.search(r"[.,:;]\s?\S|\s?(?P<open>\()", plain[found[0].end : found[1].start]) if parts else None
    if apart is None or len(parts) < 2:
        return False
    two = parts if len(parts) == 2 and min(parts) > 1 else [Fraction(0)] * 2
    less = apart["open"] and not not_asked(telling_words(plain[: found[0].end + apart.start()]), asked)
    return first in (sum(parts), two[0] * two[1]) or bool(less and first == abs(two[0] - two[1]) > 0)


_RECKONS = re.compile(
    r"\b(?:more|fewer|less|than|differen\w+|total|altogether|together|sum|average|mean|combined|all|ratio|product|mehr|weniger|unterschied|insgesamt|zusammen|summe|durchschnitt\w*"
    r"|más|menos|diferencia|total|suma|promedio|plus|moins|somme|moyenne|più|meno|differenza|somma|media|mais|diferença|soma|média|больше|меньше|разниц\w+|сумм\w+|всего|средн\w+"
    r"|więcej|mniej|różnic\w+|razem|meer|minder|verschil|samen|hơn|tổng|lebih|selisih|daha|fark\w*|toplam)\b|比|差|一共|共|总|總|平均|합|총|더|차이|平均|合計|全部|違い",
    re.IGNORECASE,
)
_FURTHER = re.compile(
    r"\b(?:plus|another|more|further|additional|extra|also|too|behind|weitere|noch|auch|otr[oa]s|además|también|autres|aussi|altr[ie]|anche|outr[oa]s|também|ещё|еще|также|jeszcze)\b|还有|另有|另外|外加|以及|さらに|ほかに|또한|추가",
    re.IGNORECASE,
)
_EACH = re.compile(r"\b(?:each|every|per|je|jede\w*|chaque|cada|ogni|кажд\w+)\b|每|各|ずつ|씩", re.IGNORECASE)
_SHOWN: Final = frozenset(
    """
        image picture photo figure chart graph table diagram bild foto imagen imagem immagine shown
        only just exactly years year old them these those which whom but aber pero mais mas maar
    """.split()  # noqa: SIM905
)
"""Words that tell nothing of what is asked."""
APART = re.compile(
    r"[,;:.()]\s|(?<=[\u3040-\ud7a3])[,;:()]|\s(?:and|und|y|e|et|и|en|och|og|i|dan|và|ve|while|whereas|mientras|mentre|während)\s"
)


def _by_clause(plain: str, left: list[Numeral], asked: str) -> list[Numeral]:
    if (
        _RECKONS.search(asked)
        or _JOINS.search(asked)
        or _SIGNS.search(plain)
        or _EACH.search(plain)
        or concluded(plain)
        or "=" in plain
        or _FURTHER.search(plain)
    ):
        return []
    begins = [0]
    for one, other in pairwise(left):
        apart = list(APART.finditer(plain, one.end, other.start))
        if not apart:
            return []
        begins.append(apart[0].start())
    about = telling_words(asked)
    told = [telling_words(plain[begin:end]) for begin, end in pairwise([*begins, len(plain)])]
    shared = [{_stem(word) for word in words if is_asked_about(word, asked)} for words in told]
    foreign = [not_asked(words, asked) for words in told]
    labels = [_labels(plain[begin:end]) for begin, end in pairwise([*begins, len(plain)])]
    if all(plain[one.end :].lstrip()[:1] == "%" for one in left):
        alone = [one for one, words in zip(left, shared, strict=True) if words]
        if len(alone) < 2:
            return alone
    for at, one in enumerate(left):
        others = [index for index in range(len(left)) if index != at]
        own = [word for word in foreign[at] if not any(word in foreign[index] for index in others)]
        if (
            own
            or not labels[at] <= _labels(asked)
            or not shared[at]
            or not all(foreign[index] or shared[index] for index in others)
        ):
            continue
        full = len(shared[at]) > max((len(shared[index]) for index in others), default=0) and (
            len(shared[at]) > 1 or not (_counted(plain, one, asked) or any(shared[i] for i in others))
        )
        last = bool(about) and _stem(about[-1]) in shared[at] and all(_stem(about[-1]) not in shared[i] for i in others)
        if (full and all(foreign[index] or shared[index] for index in others)) or (last and at > 0):
            return [one]
    return []


def telling_words(text: str) -> list[str]:
    """Return the words that tell something, without those grown onto digits."""
    found = re.findall(r"(?<![\w%])[^\W\d_]+", text.casefold())
    return [word for word in found if len(word) > 2 and word not in common_words() and word not in _SHOWN]
