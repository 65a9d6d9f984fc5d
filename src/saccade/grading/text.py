"""Grade text: the same words, ignoring letter case, white space, markup, quotes and punctuation at the ends.

Nothing is stemmed or searched inside a longer text. A time of day or number also matches another spelling of the same
value, unless the number has leading zeros, which make it a code.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from saccade.grading.base import Verdict, golds_of, judged, right, wrong
from saccade.grading.clean import LONGEST_CANDIDATE, clean, clipped, folded, unwrapped
from saccade.grading.extract import concluded, emphasised, in_final_part, without_question
from saccade.grading.languages import DOUBT, written_in
from saccade.grading.number_words import date_of, same_time, with_digits
from saccade.grading.quantities import ORDINAL, UNSPACED, Quantity, quantity
from saccade.grading.remembered import remembered
from saccade.grading.restated import PRONOUNS, completes, denies, fills_in, of_another, sentences, topic_of, turns
from saccade.grading.spelling import asked_in_json, names_date, same_code, same_in_greek_capitals
from saccade.record.task import Task

# Units of one dimension are converted (`100 cm` is `1 m`) and may be missing on either side. If only the gold answer
# has a percent sign, number and fraction match (`5%`: `5`, `0.05`); if only the answer has one, a gold value of at most
# 1 is a fraction (`0.05` is `5%`), a larger one is in percent (`5` is `5%`).

_HUNDRED = Fraction(100)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an answer may lie from the gold one; zero, zero means equal."""

    relative: Fraction = Fraction(0)
    """As a share of the gold value: 1/20 is 5 %."""
    absolute: Fraction = Fraction(0)

    @property
    def exact(self) -> bool:
        """Whether nothing but the same value will do."""
        return type(self) is Tolerance and not self.relative and not self.absolute

    def holds(self, answer: Fraction, gold: Fraction) -> bool:
        """Tell whether `answer` is near enough; the bound itself is near enough."""
        return abs(answer - gold) <= max(abs(gold) * self.relative, self.absolute)


EXACT = Tolerance()


def same_quantity(answer: Quantity, gold: Quantity, tolerance: Tolerance = EXACT) -> bool:
    """Tell whether `answer` is `gold` within `tolerance`. "About 5" is never exactly 5."""
    if answer.about and tolerance.exact:
        return False
    return any(tolerance.holds(*values) for values in comparable(answer, gold))


def comparable(answer: Quantity, gold: Quantity) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield the values of both in one unit, in each reading that counts; none if their units do not agree."""
    if answer.percent and gold.unit is None:
        yield (answer.value / _HUNDRED if abs(gold.value) <= 1 else answer.value), gold.value
    elif gold.percent and answer.unit is None:
        yield answer.value, gold.value
        yield answer.value * _HUNDRED, gold.value
    elif gold.unit is None:
        if answer.unit is None or answer.unit.dimension != ORDINAL:
            yield answer.value, gold.value
    elif answer.unit is None:
        if gold.unit.dimension != ORDINAL:
            yield answer.value, gold.value
    elif answer.unit.dimension == gold.unit.dimension:
        yield answer.value * answer.unit.factor, gold.value * gold.unit.factor


@dataclass(frozen=True, slots=True, eq=False)
class StatedNumber:
    """A number that a text states, equal to another one of the same value and with no other unit."""

    quantity: Quantity

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StatedNumber):
            return NotImplemented
        pairs = (self.quantity, other.quantity), (other.quantity, self.quantity)
        return any(answer == gold for pair in pairs for answer, gold in comparable(*pair))

    __hash__ = None  # type: ignore[assignment]


def number_said(text: str) -> StatedNumber | None:
    """Return the number that `text` states, for `judged`; None if it states none, or several."""
    found = quantity(text)
    return None if found is None else StatedNumber(found)


_NUMERIC = re.compile(r"[-+$€£¥]{0,2}(?:0?\.|0(?![0-9])|[1-9])[0-9.,/\s]{0,80}(?:[%°]|per\s?cent)?|-?\\frac.{0,80}")


@dataclass(frozen=True, slots=True)
class TextGrader:
    """Exact text; the gold answer may be a JSON array of several accepted ones."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Return the verdict; see `Grader.grade`."""
        golds = golds_of(task)
        if answer is not None and any("," in gold for gold in golds):
            answer = _NUMBERED_LINES.sub(lambda found: ", ".join(_LINE_NUMBER.split(found[0])[1:]), answer)
        verdict = judged(answer, task, lambda prediction: _compare(prediction, golds, task.question))
        if answer is None:
            return verdict
        if not verdict.accepted:
            stressed = [_compare(piece, golds, task.question) for piece in emphasised(answer, task.question)]
            verdict = stressed[0] if stressed and stressed[0].accepted else verdict
        final = in_final_part(without_question(answer, task.question)) or ""
        if verdict.accepted:
            other = any(of_another(*_around(final, gold), task.question) or _twice(final, gold) for gold in golds)
            return wrong("says it of another thing, or another thing of it", verdict.extracted) if other else verdict
        filled = not verdict.read and any(_filled_in(final, gold, task.question) for gold in golds)
        return right("restates the question with this text", clipped(final)) if filled else verdict


def _around(answer: str, gold: str) -> tuple[str, str]:
    """Return what stands before and behind the gold text in the last sentence of an answer that holds it."""
    parts = sentences(answer[-LONGEST_CANDIDATE:])
    one = next((one for one in reversed(parts) if gold.casefold() in one.casefold()), "")
    place = max(0, one.casefold().rfind(gold.casefold()))
    return one[:place], one[place + len(gold) :]


def _twice(answer: str, gold: str) -> bool:
    """Tell whether two sentences say the same of the gold text and of another: "Apple leads. Samsung leads"."""
    parts = [folded(one) for one in sentences(answer[-LONGEST_CANDIDATE:])]
    rest = parts[-1].removeprefix(folded(gold)) if parts else ""
    alike = [one for one in parts[:-1] if one.endswith(rest) and folded(gold) not in one]
    return rest.count(" ") > 2 and rest != parts[-1] and bool(alike) and not any(map(turns, parts))


_NUMBERED_LINES = re.compile(r"\A(?:(?:[0-9]{1,2}[.)]|[-*•])\s[^\n]{1,80}(?:\n|\Z)){2,40}")
_LINE_NUMBER = re.compile(r"(?:\A|\n)(?:[0-9]{1,2}[.)]|[-*•])\s")
_RANGE = re.compile(r"(?<=[0-9])\s?(?:-|to)\s?(?=[0-9])")
_LIST = re.compile(r",\s(?:(?:and|und|et|y|e|и)\s)?|\s(?:and|und|et|y|e|и)\s|\n")
_SUBSCRIPT = re.compile(r"(?<=[a-z)])_(?:([0-9])(?![0-9])|\{([0-9]{1,3})\})")  # H_2O


@remembered
def bare(text: str) -> str:
    """Return `text` as it is compared."""
    plain = _SUBSCRIPT.sub(r"\1\2", folded(unwrapped(clean(text))).replace("ё", "е").strip(" .,;:\"'"))
    return re.sub(r"(?<=[^\W\d_]{2})!+$", "", plain)  # "Yes!", but not `4!` or `n!`


def same_text(prediction: str, gold: str) -> bool:
    """Tell whether both are the same words, or, for a gold answer that is a bare number, the same number."""
    if bare(prediction) == bare(gold):
        return bare(gold) != "" or prediction.strip() == gold.strip()
    if same_time(prediction, gold):
        return True
    if _NUMERIC.fullmatch(bare(gold)) is None:
        return False
    answer, target = quantity(prediction), quantity(gold)
    return answer is not None and target is not None and same_quantity(answer, target)


def _measures(found: Quantity | None) -> bool:
    """Tell whether a number has a unit that is known: `5 km` is `5000 m`, but "5 cats" is a text."""
    unit = found.unit if found is not None else None
    return unit is not None and not unit.dimension.startswith("word:") and unit.dimension != ORDINAL


def starts_as_number(text: str) -> bool:
    """Tell whether `text` is a number with what may follow one, and no name with a number in it, such as "Top 5"."""
    return re.match(r"[-+~]?\s?[$€£¥]?\s?-?\.?[0-9]", bare(text)) is not None


# Sentences that state one thing and nothing else: what follows a verb to the end ("This is X", "Hier steht X"), or
# stands before one that ends the sentence: `这是X`, `X가 있습니다`.
_LINKS: Final = r"""
    is are was were 's says say reads shows show displays depicts spells indicates takes lasts costs weighs
    spricht\sfür указывает\sна wskazuje\sna indica\s(?:que\ses\s)? trata-se,?\s(?:portanto,?\s)?d[eao]
    lies departs leaves(?=\sat) arrives opens closes starts begins ends belongs\sto looks\slike points\s(?:to|at)
    holds wears     contains appears\sto\sbe seems\sto\sbe wins won holding wearing playing riding
    eating (?:can|could)\ssee I\ssee
    (?:would|'d)\s(?:say|answer|call\sit)(?:\sit(?:'s|\sis))? believe\sthis\sis gives\sthe\s\w+\sas
    ist sind lautet heißt steht zeigt kostet dauert zu\ssehen\sist es\sgibt sieht\sman
    handelt\s(?:es\s)?sich(?:\s(?:also|somit|daher|hier|dabei))*\sum
    hat(?=\s\w+\Z) trägt gehört spielen spielt hält
    est sont était c'est s'appelle indique affiche représente coûte dure il\sy\sa
    on\s(?:voit|lit|peut\s(?:voir|lire))(?:\sles?\smots?)?
    (?:joue|jouent)\s(?:au|à\sla)
    es está pone indica muestra representa se\s(?:ve|llama|lee|trata\sde) hay cuesta (?:juegan?)\s(?:al|a\sla)
    é são diz mostra há chama-se trata-se\sd[eao] custa lê-se
    è sono c'è si\s(?:vede|chiama|legge|tratta\sdi) rappresenta
    это гласит написано указано изображ[её]н[аоы]? показан[аоы]? видн[аоы]? стоит лежит сидит висит называется
    является є це зображен[оаий]+
    jest są przedstawia pokazuje widać nazywa\ssię znajduje\ssię napisano kosztuje
    zijn staat heet toont kost draagt är visar heter står(?:\sdet)? syns finns(?:\sdet)?
    er(?:\sdet)? viser ses hedder finnes koster
    adalah ialah menunjukkan bertuliskan terdapat là có ghi viết
    είναι υπάρχει γράφει δείχνει φαίνεται este sunt arată scrie se\svede je jsou stojí ukazuje
    vidím vidíme kuvassa\son látható
    kuna ni هو هي هذا هذه\sصورة في\sالصورة בתמונה\sרואים הוא היא זהו זוהי זה זו ay
""".split()  # noqa: SIM905
_LINK = re.compile(
    rf"(?<![^\W\d_])(?:{'|'.join(_LINKS)})(?![^\W\d_]):?(?<!\s)\s?|'s\s|'est\s|(?:คือ|เป็น)\s?|(?<=[а-яёіїєα-ω])\s-\s|\A(?:é|è|es|to|bu(?:\sbir)?)\s",
    re.IGNORECASE,
)
_FURTHER: Final = re.compile(
    r"(?:(?:known|painted\sin|pointing|called|named|labell?ed|titled|dated|addressed|written|painted|made|signed|directed|published|located|played|set|scheduled|caused|driven|earliest|latest|first|last"
    r"|on|la|le|der|zu|datiert|datée?|fechad[oa]|dirigid[oa]|adressée?|(?:issued|released|produced|manufactured|built|taken|shot|drawn|designed|developed|sponsored|hosted|organi[sz]ed|sold|owned|operated|approved|sent|invented|discovered)(?=\s(?:by|in|at|on)\s))\s)?(?:(?:at|to|by|on|in|from|as|of|um|am|à|a\slas|às|alle|las|les|в|o|om|kl\.?|saat|lúc|pukul)\s)?",
    re.IGNORECASE,
)
_UP_TO: Final = r"(?P<said>[^.!?:;\n]{1,80}?)"
_STATED: Final = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        r"an?\s(?P<said>\w+(?:\s\w+)?)\s(?:is|are)\s(?:\w+ing|visible|shown|seen|present)\b[^.!?:;]{0,80}",
        r"[^\W\d][^.!?:;,\n\"]{1,30}:(?:\s|(?=[^\x00-\x7f]))(?P<said>[^\n:;]{1,80}?)",
        r"the\b[^.!?:;,\n]{0,60}?\s(?:shows?|depicts|illustrates|represents)\sthe\sprocess\sof\s" + _UP_TO,
        r"(?:[^.!?:;,\n]{0,40}?[\u3400-\u9fff](?:是|为|為)|这是|這是)(?:一[个個只隻头頭条條张張辆輛座匹位]?)?" + _UP_TO,
        r"(?:[^\x00-\x7f\s]{1,20}は)?\"?" + _UP_TO + r"\"?(?:です|である|だ|と(?:思われ|考えられ|見られ|思い)ます)",
        r"(?:[가-힣]+\s){0,4}[가-힣]+(?:은|는|이|가)\s" + _UP_TO + r"(?:입니다|이다|이에요|예요)",
        r"(?:写真|画像|絵)に?は?(?P<said>[^.!?:;\n]{1,40}?)が(?:写っています|あります|います|見えます)",
        r"(?:图中|图片中|照片中|画面中|圖中|照片裡)?(?:有|显示的是|顯示的是)(?:一?[个個只隻头頭条條张張辆輛座匹位棵把])?"
        + _UP_TO,
        r"(?:resimde|görselde|fotoğrafta)\s(?:bir\s)?(?P<said>[^.!?:;\n]{1,40}?)\s(?:var|görünüyor)",
        r"a\sképen\s(?:egy\s)?(?P<said>[^.!?:;\n]{1,40}?)\s(?:látható|van)",
        r"(?:auf|in)\s(?:dem|diesem)\s[^\W\d]+\s(?:ist|sind|sieht\sman)\s"
        + _UP_TO
        + r"(?:\s(?:zu\ssehen|abgebildet|dargestellt))?",
        r"[^.!?:;,\n\"]{0,80}?\s?(?P<quote>[\"'])\s?(?P<said>[^\"'\n]{1,120}?)\s?(?P=quote)\s?(?:と(?:書|表示|記載|あり)[^\s\d]{0,12}|(?:이?라고\s|라고\s)?[가-힣\s]{0,14}|zu\slesen|geschrieben|yazıyor|yazmaktadır|लिखा\s(?:हुआ\s)?है|نوشته\sشده(?:\sاست)?|لکھا\s(?:ہوا\s)?ہے|লেখা\sআছে|olvasható|szerepel)?",
    )
)
_ASIDE = re.compile(
    r"\s?\([^()]{1,80}\)\Z|,\s(?:位于|坐落|又称|也称|由).*|,\s(?:seen|standing|also|known|located|conhecid[oa]|conocid[oa]|which|who|that|an?|the|followed|with|standing|sitting|стоящ\w+|лежащ\w+|dessen|das|die|der|que|qui|una?|une|el|la|le|seguid[oa]|suivie?|gefolgt|за|i\.e\.)\s.*"
    r"|\s(?-i:[a-zà-ü]{2,12}(?:ando|iendo|endo))(?:\s.*)?\Z|\s(?:in|at|on|near|standing|seen|located|im|dans|nel|nella|em|на|в|у|под|рядом|возле|في|en|junto|sobre|sur|contre|apoyad[oa]|appuyée?|an|auf|neben|vor|mit|unter|na|w|przy|obok|dựng|đứng|nằm|đang|bên|cạnh|trên|ở"
    r"|di|yang|på|op|naast|tegen|oparty|oparta|against|beside|next|under|with|by|for|from|sitting|lying|parked|leaning)\s.*",
    re.IGNORECASE,
)
"""What follows the thing itself: "the Eiffel Tower in Paris, seen from below"."""
_EITHER = re.compile(
    r"\b(?:or|and|und|oder|y|et|ou|e|и|или|if|whether|unlike|than|may(?=\s(?:be|have)\s))\s|[和或]|と(?!書|表示|記載|あり|思|考|見)|,\s\w+,\s\w+|\?",
    re.IGNORECASE,
)
_O_IS_OR: Final = ("es", "it", "")
_NOT_BUT = re.compile(r"not\s(?:an?\s|the\s)?[^,.;]{1,60}?,?\sbut\s(?P<said>[^,.;]{1,80})[.!]?", re.IGNORECASE)
_ARTICLE = re.compile(
    r"\A(?:l'(?=[^\W\d_]{2})|a\s(?:pair\sof|bright|vivid)\s(?=[^\W\d_]{2})|(?:(?:to|on|at|in)\s)?the\s(?=(?:left|right|top|bottom|middle|cent(?:er|re))\Z)|(?:an?|eine?|einen|einem|un|una|une|uno|um|uma|een|ett?|en|egy|ένας?|μια|μία|sebuah|seekor|seorang|một\s(?:chiếc|con|cái|quả|cây|bức|tòa|ngôi|ngọn)|एक)\s(?=[^\W\d_]{2})"
    r"|the\s(?=[^\W\d_]+\s)|(?:el|la|le|les|der|die|das|il|lo|o|de|het)\s(?=[^\W\d_]+(?:\s|\Z)))",
    re.IGNORECASE,
)
_HYPHEN = re.compile(r"(?<=[^\W\d_]{2})-(?=[^\W\d_]{2})")
_ITEM_NAMES = re.compile(
    r'\{\s*(?:"[^"{}]{1,40}"\s*:\s*"(?P<said>[^"{}]{1,200})"|"(?:object|item|name|label)"\s*:\s*"(?P<first>[^"{}]{1,200})"'
    r'(?:\s*,\s*"(?!object|item|name|label)[^"{}]{1,40}"\s*:\s*(?:"[^"{}]{0,200}"|[0-9.]{1,20}|\[[^"\[\]{}]{0,80}\])){1,8})\s*\}'
)


def _either(text: str) -> bool:
    """Tell whether a sentence names several things, or leaves one open; "o" is "or" in some languages only."""
    return _EITHER.search(text) is not None or (
        re.search(r"(?<!\A)\b[oO]\s", text) is not None and written_in(text) in _O_IS_OR
    )


def _readings(prediction: str, listed: bool) -> Iterator[str]:
    """Yield what a prediction says: itself, and what a sentence says that holds nothing else."""
    yield prediction
    prediction = _BASIS.sub("", prediction)
    held = _ITEM_NAMES.fullmatch(prediction.strip()) or _NOT_BUT.fullmatch(prediction)
    if held is not None:
        yield held["said"] or held["first"]
    elif DOUBT.search(prediction) is None:
        if not listed and _either(prediction):
            prediction = concluded(prediction)
            prediction = "" if _either(prediction) else prediction
        first, *others = _SENTENCES.split(prediction.strip())
        sentences = [first, *(one for one in others if _REMARKS.match(one) is None)]
        stating = [said for said in map(statements, sentences) if said]
        yield from stating[-1] if len(stating) == 1 or (stating and _on_its_own(sentences)) else ()


_BASIS = re.compile(
    r"\A(?:based\son|judging\s(?:by|from)|given)\s[^.!?;:]{1,200},\s(?=(?:the|this|that|it)\s)", re.IGNORECASE
)
"""What an answer rests on, in front of it: "Based on its tail, coat and head, the dog is …"."""


def _on_its_own(sentences: Sequence[str]) -> bool:
    """Tell whether the last of some sentences speaks of what no other does, and so concludes: "The airline is KLM"."""
    subjects = [_LINK.split(one, maxsplit=1)[0].strip().casefold() for one in sentences]
    return (
        len(sentences) < 5 and bool(statements(sentences[-1])) and subjects[-1] not in ("", *subjects[:-1], *PRONOUNS)
    )


_SENTENCES = re.compile(
    r"(?<=[^\W_]{2}[.!])(?<!\b[DMSJ][rst]\.)(?<!\bMrs\.)(?<!\bProf\.)(?<!\bvs\.)(?<!\b[Aa]v\.)(?<!\b[Uu]l\.)\s+(?=[^\Wa-z])|(?<=です\.)\s?|(?<=ます\.)\s?"
)

_SURE = re.compile(
    r"\A(?:definitely|certainly|clearly|obviously|surely)\s(?:(?:it's|it\sis)\s)?|\b(?:most\s|very\s)?likely\s",
    re.IGNORECASE,
)
_REMARKS = re.compile(
    r"(?:it|he|she|they|these)\s(?:is|are|was|were|has|have|can|appears?)\s(?:\w+ing|in|on|at|near|next|very|also|located|visible|parked|seen|known|a\s\w+\s\w+)\b",
    re.IGNORECASE,
)
"""A sentence that says more of what was named: "It is lying on a couch"."""
_SETTING = re.compile(
    r"(?:according|based|below|above|under|beneath|next|beside|behind|near|inside|unter|über|neben|por|pel[ao]|debido|durch|wegen|per|по|из|судя|from|in|on|at|judging|looking|as|given|so|thus|therefore|hence|auf|im|laut|dans|sur|selon|d'après|en|según|no|na|em|nel|sul|на|в|trong|trên|op|på|w|v|di|pada)"
    r"\b[^,]{0,80},[^,]*\Z",
    re.IGNORECASE,
)
"""A sentence that begins with where or when: "In the picture, the car is red"."""


def statements(sentence: str) -> list[str]:
    """Return what a sentence may state, without and with what stands beside it."""
    plain = _SURE.sub("", sentence.strip().removesuffix(".").removesuffix("!"))
    found: list[str] = []
    for part in filter(None, (plain, concluded(plain))):
        found += [match["said"] for match in (form.fullmatch(part) for form in _STATED) if match is not None]
        for link in _LINK.finditer(part):
            if "," in part[: link.start()] and _SETTING.match(part[: link.start()]) is None:
                continue  # "Tokyo Tower, whose model is the Eiffel Tower"
            rest = part[link.end() :]
            found += [rest, rest[_FURTHER.match(rest).end() :]]  # type: ignore[union-attr]
    found = [said.strip(' "') for said in dict.fromkeys(found) if 0 < len(said) <= 120]
    return [
        *found,
        *(_ASIDE.sub("", said, count=1) for said in found),
        *(said[:-1] for said in found if said[-1] == "的"),
    ]


def without_article(text: str) -> str:
    """Return `text` as it is compared, without a leading article."""
    return _ARTICLE.sub("", bare(text), count=1)


_MARKS = re.compile("[\u0300-\u0302\u0304-\u036f]")
_STREET: Final = {"street": "st", "avenue": "ave", "road": "rd", "boulevard": "blvd", "drive": "dr", "lane": "ln"}


def _written_alike(said: str, gold: str) -> bool:
    """Tell whether two names differ by accents that capitals or a gold text lack, or by the short form of "Street"."""
    first, second = bare(said), bare(gold)
    named = gold.istitle() and said[:1].isupper() and len(gold) > 5
    if any(text.isascii() and (unwrapped(clean(text)).isupper() or (named and text == gold)) for text in (said, gold)):
        plain = [unicodedata.normalize("NFD", text) for text in (first, second)]
        if sum(len(_MARKS.findall(text)) for text in plain) < 3 and _MARKS.sub("", plain[0]) == _MARKS.sub(
            "", plain[1]
        ):
            return True
    (name, _, end), (other, _, gold_end) = (text.rpartition(" ") for text in (first, second))
    return name == other != "" and _STREET.get(end, end) == _STREET.get(gold_end, gold_end)


def _of_one_kind(said: str, gold: str, question: str) -> bool:
    """Tell whether two single words are singular and plural of one, where only the kind of thing is asked for."""
    short, long = sorted((without_article(said), without_article(gold)), key=len)
    if long[:-1] == short and UNSPACED.match(long[-1]) and long[-1] in question and len(short) > 1:
        return True  # 甘肃省 where a 省 is asked for
    if _LATIN_ENDS.sub("a", short) == _LATIN_ENDS.sub("a", long) and len(short) > 7 and short.isalpha():
        return True
    return _ASKS_KIND.search(question) is not None and len(short) > 3 and long in (f"{short}s", f"{short}es")


_LATIN_ENDS = re.compile("(?:on|um|a)\\Z")
_ASKS_KIND = re.compile(
    r"\b(?:(?:kind|type|sort|species)s?\sof|(?:what|which)\s(?:animal|fruit|vegetable|bird|insect|flower|tree|vehicle)s?\b)",
    re.I,
)


def _same(said: str, gold: str) -> bool:
    """Tell whether both are the same text, apart from a leading article, hyphens, and the form of a date."""
    if same_text(said, gold) or _written_alike(said, gold):
        return True
    if same_code(said, gold) or same_in_greek_capitals(said, gold):
        return True
    first, second = (_HYPHEN.sub(" ", without_article(text)) for text in (said, gold))
    if "," in second and _LIST.search(first) and (items := _LIST.split(first)) == _LIST.split(second):
        return len(items) > 1
    day = date_of(first)
    ranges = [_RANGE.sub("-", one) for one in (first, second)]
    if first == second != "" or ranges[0] == ranges[1] != second or (day is not None and day == date_of(second)):
        return True
    if second[:1].isdigit() and _measures(target := quantity(gold)) and _measures(answer := quantity(said)):
        return answer is not None and target is not None and same_quantity(answer, target)
    one, two = with_digits(first), with_digits(second)
    return one == two and one.isdigit() and (first.isdigit() or second.isdigit())


VERB_LAST: Final = re.compile(
    r"\s?(?:です|である|だ|でした|となります|と(?:思われ|考えられ|見られ|思い|考え)ます|に見えます|と思う|(?:으로|로)\s(?:보입니다|보인다|판단됩니다)"
    r"|인\s것\s?같습니다|이?라고\s(?:생각합니다|볼\s수\s있습니다)|입니다|이다|이에요|예요|है|हैं|হয়|ہے|ہیں|است|'?[dt][iıuü]r)[.!\s]*\Z"
)
"""The verb that ends a sentence, in languages where it comes last."""
_ONE_TIME = re.compile(
    r"(?<![\d:.,])(?P<hour>[0-2]?[0-9])\s?(?:[:hH]|時|点|點|시)\s?(?P<minute>[0-5][0-9])(?![\d:.])(?P<half>\s?[ap]\.?m)?"
)
_OFF_TIME = re.compile(
    r"\b(?:before|after|past|until|till|almost|nearly|from|minutes|vor|nach|bis|avant|après|antes|después|depois)\b",
    re.I,
)


def _tells(prediction: str, gold: str) -> bool:
    """Tell whether a sentence names the gold time of day and no other, or ends in the gold text before a last verb."""
    if DOUBT.search(prediction) or _either(prediction) or len(_SENTENCES.split(prediction.strip())) > 1:
        return False
    times = list(_ONE_TIME.finditer(prediction))
    if len(times) == 1 and _OFF_TIME.search(prediction) is None:
        return same_time(f"{times[0]['hour']}:{times[0]['minute']}{times[0]['half'] or ''}", gold)
    said, words = bare(VERB_LAST.sub("", prediction.strip())), bare(gold)
    return (
        said != words
        and not said.isascii()
        and len(words) > 1
        and said.endswith(f" {words}")
        and said != bare(prediction)
    )


_BEHIND = re.compile(
    r"\s?\((?!(?:[IVX]+|(?:and|or|und|et|y|e|и)\b[^()]*)\))[^()]{2,80}\)\.?\Z"
    r"|(?P<measure>(?:,\s?|\s(?=(?:at|with)\s))(?:(?:at|with|à|avec|con|mit|med|com|met|с|z|for|about|售价|售價|约|共|占|高达|单价|价格|每\w)\s?){0,2}[$€£¥]?"
    r"[0-9][^,;]{0,30}\Z)"
    r"|(?:,\s(?:cioè|ossia|that\sis|i\.e\.|c'est-à-dire|es\sdecir|das\sheißt|d\.\s?h\.|ou\sseja|то\sесть|czyli|avec|con|mit|med|com|met"
    r"|with(?!\sa\squestion)|by|from|come|comme|como|wie|как|jak|zoals|conforme|selon|laut|según|secondo|segundo|согласно|поруч|рядом|daneben|accanto|darunter|dahinter|below|underneath|where|whose|which|who|vilket|hvilket|ce\squi|ce\sque|lo\sque|il\sche|quod|wat|as|since|because|dont|où|donde|onde|wobei|wo"
    r"|который|которая|która|który|które|specifically|namely|judging|according|the\s\w+(?:\s\w+)?\s(?:of|in|that|which|for))\s"
    r"|(?P<kind>,\san?\s)|(?<=[^\W\d_]{3}):\s|,\s?(?:也就是|即|位于|由|意为)).*",
    re.IGNORECASE,
)
"""A remark behind an answer: in brackets, a measure, or what explains it."""


def _without_remarks(prediction: str, gold: str) -> Iterator[str]:
    """Yield a prediction, and what remains of it without the remarks that end it, if they leave nothing open."""
    yield prediction
    other = _NOT_THE_OTHER.search(prediction)
    if other is not None and not denies(prediction[: other.start()]) and folded(gold) not in folded(other[0]):
        prediction = prediction[: other.start()]
        yield prediction
    if DOUBT.search(prediction) or turns(prediction):
        return
    if (short := _SHORT_FORM.fullmatch(prediction)) is not None and _stands_for(short["short"], short["long"]):
        yield short["long"]
    second = _SECOND.search(prediction)
    if second is not None and not re.search("[0-9]", gold) and second["subject"].casefold() not in PRONOUNS:
        prediction = prediction[: second.start()]
        yield prediction
    for _ in range(3):
        behind = _BEHIND.search(prediction)
        if (
            behind is None
            or (behind["measure"] and re.search("[0-9]", gold))
            or (behind["kind"] and not (gold[0].isupper() and prediction[0].isupper()))
        ):
            return
        prediction = prediction[: behind.start()]
        yield prediction.removesuffix("で")


_SECOND = re.compile(
    r",\s(?:and|und|och|et|y|e|en|og|i|и|a|ve)\s(?P<subject>[^,.;:\d]{2,60}?)\s(?:is|ist|är|est|es|è|é|er|jest|-)\s[0-9]{1,9}\.?\Z",
    re.IGNORECASE,
)
"""A second clause that gives the number of another thing: "and the house number is 12"."""
_NOT_THE_OTHER = re.compile(
    r";\s(?:it|this|that|he|she)\s(?:is\snot|isn't)\s(?:an?\s)?[^,.;:?!]{1,40}[.!]?\Z|,\s(?:and\s)?(?:not|nicht|pas|não|не|niet|nie|inte|ikke|non|no)\s(?:(?i:an?|the|eine?n?|der|die|das|une?|la|le|el|um|uma|il)\s|(?=[A-ZÀ-ÞЀ-Я0-9\"']))"
    r"[^,.;:?!]{1,40}[.!]?\Z|,?\s?(?:而不是|而非)[^,.;:?!]{1,30}[.!]?\Z"
)
"""Another thing, named behind an answer only to be denied: "a kite, not a balloon"."""
_SHORT_FORM = re.compile(r"(?:.*\s)?(?P<short>[A-Z]{1,5}[0-9]?)\s\((?P<long>[^()]{2,60})\)\.?")


def _stands_for(short: str, long: str) -> bool:
    """Tell whether the letters of `short` are in `long` in their order, the first at its beginning."""
    rest = iter(long.casefold())
    letters = short.casefold().rstrip("0123456789")
    return long[:1].casefold() == letters[:1] and all(letter in rest for letter in letters)


def _filled_in(prediction: str, gold: str, question: str) -> bool:
    """Tell whether the last sentence, or the first, restates the question with the gold text, and no other does."""
    parts = sentences(prediction) if len(prediction) <= LONGEST_CANDIDATE else []
    if not 0 < len(parts) <= _MOST_SENTENCES:
        return False
    if len(parts) > 1 and _same(parts[-1], gold):
        return all(len(one.split()) > 3 and not DOUBT.search(one) and not turns(one) for one in parts[:-1])
    last = list(_without_remarks(parts[-1], gold))
    if len(last) > 1 or DOUBT.search(last[0]) is None:
        named = [found for found in map(_NAMES.fullmatch, last) if found is not None]
        if any(
            _knows(found["lead"], question) and not denies(found[0]) and _same(found["said"], gold) for found in named
        ):
            return True
        if any(completes(one, gold, question) for one in last):
            return True
    for place in {len(parts) - 1, 0}:
        ends = filter(None, (parts[place], concluded(f". {parts[place]}")))
        forms = (form for end in ends for form in _without_remarks(end, gold))
        said = next((form for form in forms if fills_in(form, gold, question)), None)
        others = parts[:place] + parts[place + 1 :]
        topic = topic_of(said or "", question)
        if said is not None and not any(topic <= topic_of(one, question) and not DOUBT.search(one) for one in others):
            return place == len(parts) - 1 or not any(map(turns, others))
    return False


_MOST_SENTENCES: Final = 40
_NAMES = re.compile(
    r"(?:.*[,;:]\s?)?(?P<lead>[^,;:]{0,40}?)(?:名为|名為|名叫|叫做?|称为|稱為|属于|屬於|写着|写的是|显示为|是|为|為|は)"
    r"\"?(?:[\u3400-\u9fff]{0,8}(?:书法家|畫家|画家|作家|学家|作曲家|诗人|作者|歌手|演员|导演|总统|品牌))?(?P<said>[^,;:.!?\"]{1,60}?)\"?"
    r"(?:[一二三四五六七八九十两]个?大?字|字样)?"
)
"""The last clause of a sentence that names a thing in Chinese or Japanese, with the profession before a name."""


def _knows(lead: str, question: str) -> bool:
    """Tell whether a clause begins with nothing, or with words of the question."""
    return not lead or any(lead[place : place + 2] in question for place in range(len(lead) - 1))


_MASK: Final = "Zq"


def _compare(prediction: str, golds: tuple[str, ...], question: str) -> Verdict:
    for gold in golds:
        if len(gold) > 5 and gold != prediction and gold in prediction and DOUBT.search(gold):  # a sign: "No Entry"
            masked = _compare(prediction.replace(gold, _MASK), (_MASK,), question)
            if masked.accepted:
                return right(masked.reason, prediction)
        if names_date(prediction, gold, question) or _same(asked_in_json(prediction, question), gold):
            return right("same text", prediction)
        for said in _without_remarks(prediction, gold):
            if _tells(said, gold) or any(
                _same(one, gold) or _of_one_kind(one, gold, question) for one in _readings(said, "," in gold)
            ):
                return right("same text", prediction)
        if _filled_in(prediction, gold, question):
            return right("restates the question with this text", prediction)
    return wrong("another text", prediction)


TEXT = TextGrader()
