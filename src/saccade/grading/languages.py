r"""Say in English what announces, denies or corrects an answer in other languages, by one table (`languages.toml`).

`in_english` writes a foreign lead as the English one, so that all behind it is read by the same rules: "Die richtige
Antwort lautet B" becomes "the answer is B", `故选B` too. Phrases are regular expressions, in the spelling that `clean`
gives a text; a space in them is any white space. Denials are not translated: graders search for them (`DENIES`).
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from itertools import pairwise, product
from pathlib import Path
from typing import Final

from saccade.grading.remembered import remembered

_LETTERS: Final = "A-ZА-ЕΑ-Εأابتثجحدههـوक-ङক-ঙก-ง가나다라마甲乙丙丁戊アイウエオㄱㄴㄷㄹㅁ"
LETTER: Final = (
    rf"[*\"']{{0,3}}(?:[(\[]\s?(?<![A-Za-zА-я])[{_LETTERS}a-z]\s?[)\]]"
    rf"|(?<![A-Za-zА-я])(?-i:[{_LETTERS}])(?![A-Za-zА-я\u0600-\u0dff]))[*\"']{{0,3}}"
)
"""A letter that may name an option, in the scripts that number options so."""
CONTRAST: Final = (
    r"\s(?:while|whereas|unlike|während|mentre|mientras|tandis\sque|alors\sque|contrairement|podczas|terwijl|trong\skhi|sedangkan"
    r"|بينما|जबकि|ενώ)(?![^\W_])|[,،]\s?(?:(?:but|however|aber|hingegen|im\sgegensatz|anders|invece|ma|a\sdifferenza|pero|a\sdiferencia"
    r"|mais|mas|enquanto|ao\scontrário|тогда|в\sотличие|но|а|natomiast|ale|a|maar|medan|men|mens|kun|míg|iar|dar|ama|fakat|còn|nhưng"
    r"|tetapi|لكن|लेकिन|αλλά)(?![^\W_])|[而但]|一方)|しかし|반면"
)
"""What begins a clause about the other options."""
AND: Final = (
    r"(?:\s?[,、/&]\s?|\s?[和与與及跟와과と]\s?"
    r"|,?\s(?:and|&|y|e|et|und|en|i|и|та|ve|và|dan|och|og|ja|és|și|και|و|और|এবং|اور)\s)"
)
"""What joins the letters of a set."""
_INDIC: Final = "[\u0900-\u0dff]"  # vowel signs are no letters to `re`
_BEFORE: Final = rf"(?<![^\W\d_])(?<!{_INDIC})"
_AFTER: Final = rf"(?![^\W\d_])(?!{_INDIC})"


@dataclass(frozen=True)
class Language:
    """How answers are announced in one language; each field holds alternatives of a regular expression."""

    stems: str
    """One of these words, lower-case, is in every text that the row applies to."""
    lead: str
    """What names the answer: "the correct answer"."""
    verb: str
    """Links the lead and the answer: "is"."""
    option: str
    """What may stand between the link and a letter: "option"."""
    choose: str
    """What leads to a letter at once: "I choose"."""
    right: str
    """What makes the letter before it the answer: "is correct"."""
    yes: str
    no: str
    because: str
    deny: str
    """What takes an assertion back or leaves it open."""
    wait: str
    """What announces a correction: "no, wait"."""
    nothing: str
    """A sentence that counts nothing, as a whole; `#` is what is not there."""
    instead: str = ""
    """What leads to the answer behind what is denied: "not A, but B"."""
    bound: str = ""
    """What makes the number behind it a bound: "more than"."""
    again: str = ""
    """What announces a second look, which corrects what was said before: "on closer inspection"."""
    but: str = ""
    seems: str = ""
    """What says of an answer that it only looks like one, until "but"."""
    glue: str = ""
    """Further words that say nothing of their own, or only name the picture."""
    words: str = ""
    """Its most common words, by which a text is known to be written in it."""
    numbers: str = ""
    """The words for 0 to 12 or 19, forms of one divided by `/`; `_` where another word is the same, `~` for a blank."""
    tens: str = ""
    """The words for 20, 30, … 100, written like `numbers`."""
    joined: str = ""
    """How a ten and a unit are joined, in forms divided by `|`: `{ten} y {unit}`; `{stem}` is a ten without its last
    letter, and `=1` at the end gives the unit where the form names it."""
    odd: str = ""
    """Numbers that follow no rule, with their values: `veintiuno/veintiún=21`."""
    both: str = ""
    """What says of two letters that both hold; `#` is a letter, perhaps with an article and the word for an option."""
    opposites: str = ""
    """Predicates that deny each other, or their beginnings, in pairs: `offen=geschlossen`."""
    untrue: str = ""
    """Words, or their beginnings, that say of a statement that it is false, with their opposites: `falsch=richtig`."""
    tail: str = ""
    """What ends a sentence behind its answer, where the verb comes last."""
    ratio: str = ""
    """What a question calls a ratio."""
    shown: str = ""
    """What is only read off: a chart, map or table, a population or price."""
    spaced: bool = True
    """Whether words are divided by spaces."""
    comma: bool = True
    """Whether decimals are written with a comma."""

    @cached_property
    def rules(self) -> tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]:
        """The substitutions that write an answer of this language in English, in their order."""
        before, after = (_BEFORE, _AFTER) if self.spaced else ("", "")
        option = rf"(?:(?:{self.option})\s?:?\s?(?={LETTER}))?"
        link = rf"[*_\"]{{0,3}}\s?(?:(?:{self.verb}){after}\s?(?P<late>:)?|(?P<colon>[:=]))[*_]{{0,3}}\s?{option}"
        lead = rf"{before}(?:{self.lead})"
        end = r"(?=\s*(?:[.!,;\n]|$))"
        said = r"(?P<said>(?:[^\n.!?;,]|[.,](?=[0-9])){1,120}?)"
        found: list[tuple[str, Callable[[re.Match[str]], str]]] = [
            (
                rf"{before}(?:{self.option})?\s?(?P<said>{LETTER}(?:{AND}(?:{self.option})?{LETTER}){{0,8}})\s?"
                rf"(?:\([^()\n]{{1,60}}\)\s)?(?:{self.right}){after}(?:(?P<more>,)\s?(?={LETTER})|{end})",
                lambda match: _after_all(match) + ("; " if match["more"] else ""),
            )
        ]
        if self.tail:
            found.append((rf"{lead}(?:{link}|\s?{option}){said}\s?(?:{self.tail}){end}", _after_all))
        found.append((rf"{lead}\s?{option}(?P<said>{LETTER}){end}", _after_all))
        found.append((lead + link, lambda match: _marked(match, "")))
        letters = rf"(?P<said>{LETTER}|(?-i:[A-H]{{2,8}})(?![A-Za-z]))(?:\s?(?:{self.tail or '(?!)'}))?"
        found.append((rf"{before}(?:{self.choose})\s?:?\s?(?:{self.option})?\s?{letters}", _after_all))
        found.append((rf"(?P<said>(?:the answer is|Answer:)\s?{LETTER})\s?,?\s?(?:{self.because}){after}", _explained))
        return tuple((_compiled(pattern), make) for pattern, make in found)


def _explained(match: re.Match[str]) -> str:
    return f"{match['said']} because "


def _after_all(match: re.Match[str]) -> str:
    return _marked(match, match["said"].strip())


def _marked(match: re.Match[str], said: str) -> str:
    """Return the English lead, with a colon where the foreign one has one."""
    groups = match.groupdict()
    colon = groups.get("colon") or groups.get("late")
    line = match.string[max(0, match.start() - 80) : match.start()].rpartition("\n")[2].strip(" *_#>")
    space = " " if line else ""
    return f"{space}Answer: {said}" if colon else f"{space}the answer is {said}"


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(_spelt(pattern), re.IGNORECASE)


def _spelt(pattern: str) -> str:
    """Spell a pattern of the table as in cleaned text: composed, without joiners, any white space for a blank."""
    plain = unicodedata.normalize("NFKC", pattern).replace("\u200c", "")
    return plain.replace(" ?", r"\s?").replace(" ", r"\s+")


_TABLE: Final = tomllib.loads(Path(__file__).with_name("languages.toml").read_text(encoding="utf-8"))
LANGUAGES: Final = {code: Language(**row) for code, row in _TABLE.items()}
"""By code; the table is `languages.toml`."""

_ALSO_ENGLISH: Final = frozenset(("o", "ou", "ni", "no"))
"""Denials that English texts hold too, as denials, names or letters."""


def _of_all(field: str) -> str:
    """Return the alternatives of a field in all languages, words of spaced ones within their bounds.

    English texts are long and hold none of them, so what begins with a Latin letter is tried at beginnings of words
    only, by that letter, and the others at signs beyond ASCII.
    """
    spaced: list[str] = []
    unspaced: list[str] = []
    for language in LANGUAGES.values():
        words = alternatives(_spelt(getattr(language, field)))
        (spaced if language.spaced else unspaced).extend(word for word in words if word and word not in _ALSO_ENGLISH)
    by_letter: dict[str, list[str]] = {}
    for word in dict.fromkeys(spaced):
        by_letter.setdefault(word[0] if "a" <= word[0] <= "z" else "", []).append(word)
    others = "|".join(by_letter.pop("", ()))
    latin = "|".join(
        f"(?-i:[{letter}{letter.upper()}])(?:{'|'.join(word[1:] for word in words)})"
        for letter, words in by_letter.items()
    )
    beyond = r"(?=[^\x00-\x7f])"
    return rf"{_BEFORE}(?=[A-Za-z])(?:{latin}){_AFTER}|{beyond}(?:{_BEFORE}(?:{others}){_AFTER}|{'|'.join(unspaced)})"


@cache
def alternatives(phrases: str) -> tuple[str, ...]:
    """Split a pattern of the table at its outermost bars."""
    parts, depth = [""], 0
    for sign in phrases:
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return tuple(parts)


DENIES: Final = _of_all("deny")
"""A pattern of what takes an assertion back or leaves it open, in all languages but English."""
_SURE: Final = r"(?:reason\sto\s|room\sfor\s)?(?:an?\s|any\s)?(?:reasonable\s|shadow\sof\sa\s)?(?:doubts?|question)\b"
_IN_THE: Final = (
    "recibo|gráfico|mapa|texto|documento|eixo|ano|mês|dia|diagrama|canto|centro|topo|meio|quadro|cartaz|relógio|rótulo|painel"
    "|visor|título|lado|fundo|céu|chão|cardápio|menu|total"
)
"""Nouns behind the Portuguese "no", which means "in the"."""
DENIAL: Final = re.compile(
    rf"\b(?:not|never|neither|nor|no(?!\s(?:{_SURE}|{_IN_THE}))|none|nothing|cannot|without(?!\s{_SURE})|unless|except|wrong|incorrect|"
    r"false|maybe|perhaps|possibly|probably|might|could|unsure|unclear|unknown|either|instead)\b|n't\b|\?\s*$|[❌✗✘❎❓❔🚫⛔]|"
    + DENIES,
    re.IGNORECASE,
)
"""Words that deny or leave open."""
_TO_SAY: Final = (
    r"\s(?:for\s[a-z]+\s)?to\s(?:say|call|claim|choose|pick|select|answer|assert|conclude|argue|defend|justify|accept|believe"
    r"|agree|confirm|give|imagine|assume|think|state|suggest|see\s(?:how|why))\b"
)
DOUBT: Final = re.compile(
    DENIAL.pattern
    + r"|(?:\b(?:nobody|unlikely|implausible|improbable|doubtful|dubious|questionable|absurd|anything\sbut|far\sfrom"
    r"|impossible(?!\sto\s(?:miss|overlook|mistake))|(?:hardly|scarcely|barely)(?!\s(?:visible|legible|readable|noticeable))"
    r"|refus(?:es?|ed)|den(?:y|ies|ied)|disput(?:es?|ed)|disagree[sd]?|hesitate[sd]?|(?:i|we|must|to)\s(?:decline|reject)"
    r"|few\s(?:people\s)?would|(?:is|be)\sa\s(?:mistake|myth|lie)|be\slying\sif|fail(?:s|ed)?\sto\s(?:see|find|count|spot)"
    rf"|(?:hard|difficult|tough|unreasonable|foolish|premature|a\smistake|sense|unable|reluctant|unwilling|loath){_TO_SAY})\b"
    r"|\b(?<!no\s)(?<!without\s)(?<!beyond\s)(?<!little\s)(?<!\sa\s)(?<!\sany\s)(?<!reasonable\s)(?<!no\sreason\sto\s)(?<!for\s)"
    r"doubt(?:s|ed)?\b)(?![^.;:!?\n]{0,80}[,;]\s(?:but|however|yet|still)\b(?!\spossibl))",
    re.IGNORECASE,
)
"""Words that take an assertion back, or leave it open, by a verb, adjective or subject too ("nobody would say 7")."""
BECAUSE: Final = _of_all("because")


def any_of(field: str, english: str) -> re.Pattern[str]:
    """Return the form of what a field names, in all languages and in English."""
    words = [_spelt(getattr(row, field)) for row in LANGUAGES.values()]
    return re.compile("|".join([*filter(None, words), english]), re.IGNORECASE)


TRUE: Final = "|".join(
    {
        (r"\b" if row.spaced else "") + pair.partition("=")[2]: None
        for row in LANGUAGES.values()
        for pair in filter(None, alternatives(row.untrue))
    }
)
"""A pattern of what says of a statement that it is true, in all languages but English."""
BOUND: Final = _of_all("bound")
"""A pattern of what makes the number behind it a bound, in all languages but English."""
VERBS: Final = _of_all("verb")
_NO_ROW: Final = "variant opcija možnosť odgovor odgovorom отговор отговорът верен вариантът atsakymas vastus atbilde"
OPTION: Final = "|".join(
    dict.fromkeys(
        word
        for said in (*(row.option for row in LANGUAGES.values()), _NO_ROW)
        for word in re.findall(r"[^\W\d_]{4,}|şık|选项|選項", said)
    )
)
"""Words for an option that may stand before its letter, in all languages but English: "alternativ", "вариант"."""
NOT_THE_OTHER: Final = (
    r"(?:not|nicht|pas|não|не|niet|nie|inte|ikke|ne|nu|nem|không|bukan|tidak)\s|no\s(?=(?:el|la|los|las|es|de|una?|por)\b)"
    r"|non\s(?=[a-z']{2})|而不是|而非|不是"
)
"""What denies another option behind the answer: "A, nicht B"."""
INSTEAD: Final = rf"\b(?:but|rather|instead)\b|{_of_all('instead')}"
"""A pattern of what leads to the answer behind what is denied, in all languages."""
WAIT: Final = _of_all("wait")
"""A pattern of what announces a correction, in all languages but English."""

AGAIN: Final = "|".join(
    rf"{_BEFORE}(?:(?:{but}){_AFTER},?\s*)?(?:{again}){_AFTER}" if spaced else rf"(?:(?:{but}),?\s?)?(?:{again})"
    for but, again, spaced in ((_spelt(row.but), _spelt(row.again), row.spaced) for row in LANGUAGES.values())
    if again
)
"""A pattern of what announces a second look, in all languages but English."""
_NAMED: Final = r"(?-i:(?<![A-Za-z])[(\[]?(?:[A-Z]|[0-9]{1,6})[)\]]?(?![A-Za-z0-9]))"


_ENGLISH_ROW: Final = Language(
    *("",) * 12,
    but="but|however|really|actually",
    seems="looks? like|looked like|seem(?:s|ed)?|appear(?:s|ed)?|at first",
)
_SEEMING_ROWS: Final = [
    (_spelt(row.but), _spelt(row.seems), row.spaced) for row in (_ENGLISH_ROW, *LANGUAGES.values()) if row.but
]


@cache
def _seems() -> re.Pattern[str]:
    """Return the form of what is in every lower-case text that `_seeming` changes, and found sooner."""
    return re.compile("|".join(seems for _, seems, _ in _SEEMING_ROWS))


@cache
def _seeming() -> re.Pattern[str]:
    """Return the form of what only seems to be the answer ("it looks like B, but"), before another one."""
    ways = []
    inner = r"(?-i:[^.!?;:\n0-9A-Z])"
    for but, seems, spaced in _SEEMING_ROWS:
        before, after = (rf"[,\s]\s?(?:{inner}{{2,12}}\s)?", rf"{_AFTER},?\s") if spaced else ("", ",?")
        said = rf"(?:{_BEFORE if spaced else ''}(?:{seems}){inner}{{0,25}}?{_NAMED}|{_NAMED}\s?(?:{seems}))"
        ways.append(rf"{said}{inner}{{0,25}}?(?:{before}(?:{but}){after}){{1,2}}")
    return re.compile(rf"(?:{'|'.join(ways)})\s?(?:(?:{AGAIN})[,\s]*)?(?={inner}{{0,40}}{_NAMED})", re.IGNORECASE)


@cache
def _seeming_clause() -> re.Pattern[str]:
    ways = []
    for but, seems, spaced in _SEEMING_ROWS:
        before, after = (_BEFORE, _AFTER) if spaced else ("", "")
        ways.append(rf"{before}(?:{seems})[^.!?;\n]{{2,80}}?{before}(?:{but}){after}")
    return re.compile(rf"\A[^.!?;\n]{{0,60}}?(?:{'|'.join(ways)}),?\s?(?:(?:{AGAIN})[,\s]*)?(?=\S)", re.IGNORECASE)


def without_seeming(sentence: str) -> str:
    """Drop the clause of a sentence that says what something only looks like, before a "but"."""
    return _seeming_clause().sub("", sentence)


_ANSWERED = re.compile(r"(?:the answer is|Answer:) [*_$(\[]{0,3}-?[0-9]+,[0-9]{1,2}(?![0-9,])")
_TRANSLATED: Final = 6_000

_NOT_THIS_LETTER = re.compile(
    r"(?:不是|并非|並非)\s?[A-Z]\s?,?\s?(?=而?是)|(?<![A-Za-z])[A-Z]\s?(?:번)?[가이]?\s?아니라\s|(?<![A-Za-z])[A-Z]\s?ではなく,?\s?"
    r"|\b(?:(?i:es\sist\s)?(?i:nicht)\s[A-Z],?\ssondern|(?i:no\s(?:es\s)?(?:la\s)?)[A-Z],?\ssino|(?i:ce\sn'est\s)?(?i:pas\s(?:la\s)?)[A-Z],?\smais"
    r"|(?i:não\s(?:é\s)?(?:a\s)?)[A-Z],?\smas(?:\ssim)?|(?i:non\s(?:è\s)?(?:la\s)?)[A-Z],?\sma|(?i:niet)\s[A-Z],?\smaar|(?i:nie)\s[A-Z],?\s(?:tylko|lecz))\s"
    r"|\b(?i:не)\s[A-ZА-Я],?\sа\s"
)
"""What is named only to be denied, before the answer itself: "nicht B, sondern A"."""


def in_english(text: str) -> str:
    """Write what announces an answer in other languages as English does, at the end (6,000 signs) of a cleaned text."""
    head, text = text[:-_TRANSLATED], _NOT_THIS_LETTER.sub("", text[-_TRANSLATED:])
    lower = text.lower()
    if _seems().search(lower):
        text = _seeming().sub("", text)
        lower = text.lower()
    for code, language in LANGUAGES.items():
        if not any(stem in lower for stem in _stems(code)):
            continue
        before = text
        for number, (pattern, make) in enumerate(language.rules):
            if number or len({found["said"] for found in pattern.finditer(text)}) < 2:  # each letter is judged
                text = pattern.sub(make, text)
        if language.comma and text != before:
            text = _ANSWERED.sub(lambda match: match[0].replace(",", "."), text)
    return head + text


_UNTRUE: Final = "incorrect=correct|inaccurate=accurate|untrue=true|false=correct|wrong=correct|invalid=valid"
_NOT: Final = r"\b(?:not|nicht|no|non|pas|não|не|nie|niet|inte|ikke|nu)\s(?:es\s|è\s|é\s|este\s)?"


@cache
def _opposites(code: str) -> tuple[re.Pattern[str], dict[str, str]]:
    """Return the form of what says that a statement is false, in English and one language, and its opposites."""
    pairs = dict(pair.split("=") for pair in f"{_UNTRUE}|{LANGUAGES[code].untrue if code else ''}".split("|") if pair)
    words, rights = ("|".join(map(re.escape, sorted(some, key=len, reverse=True))) for some in (pairs, pairs.values()))
    before = "" if code and not LANGUAGES[code].spaced else _BEFORE
    return re.compile(rf"{before}(?P<word>{words})|{_NOT}(?={rights})", re.IGNORECASE), pairs


@remembered
def _untrue_in(question: str) -> str | None:
    """Return the code of the language in which a question asks for what is false, empty for English; else None."""
    known = language_of(question)
    others = (
        () if known or (question.isascii() and is_english(question)) else LANGUAGES
    )  # "sai" is "false" in Vietnamese alone
    return next((code for code in (known, "", *others) if _opposites(code)[0].search(question)), None)


def asks_what_is_false(question: str, options: Sequence[str]) -> bool:
    """Tell whether a question asks for the false one of its options, of which none speaks of false things itself."""
    code = _untrue_in(question)
    return code is not None and not any(map(_opposites(code)[0].search, options))


def in_what_is_asked(answer: str, question: str, options: Sequence[str]) -> str:
    """Return "the false one is B" as "the right one is B" where the question asks for what is false.

    Sentences that say so of several things, or name no letter, stay.
    """
    if not asks_what_is_false(question, options):
        return answer
    form, pairs = _opposites(_untrue_in(question) or "")

    def turned(match: re.Match[str]) -> str:
        said = match[0]
        if len(form.findall(said)) != 1 or not re.search(r"(?<![A-Za-z])[A-Z](?![A-Za-z])", said):
            return said
        return form.sub(lambda found: pairs.get((found["word"] or "").casefold(), ""), said)

    return re.sub(r"[^\n.!?;。]+", turned, answer)


@cache
def _stems(code: str) -> tuple[str, ...]:
    return tuple(unicodedata.normalize("NFKC", LANGUAGES[code].stems).split())


def assertion_in_english(text: str) -> str:
    """Write a yes or no at the start of a folded text, and the "because" after it, in English; else the text itself."""
    for code in LANGUAGES:
        first, because = _assertion(code)
        said = first.match(text)
        if said is not None:
            rest = because.sub(r"\1 because ", text[said.end() :], count=1)
            rest = f",{rest}" if rest[:1].isspace() and rest.strip() else rest
            if _opposite(code, said["yes"] is None).search(rest):
                rest += ". no." if said["yes"] else ". yes."
            return ("yes" if said["yes"] else "no") + rest
    return text


@cache
def _assertion(code: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    language = LANGUAGES[code]
    because = rf"({'' if not language.spaced else '(?<=[^^])'}[,.;]?)\s?(?:{language.because})" + (
        _AFTER if language.spaced else ""
    )
    follows = rf"(?=\s*(?:[.,;:!\n-]|$|\(|\s(?:{language.because}))" + (
        ")" if language.spaced else rf"|\s|\s*(?:{language.because}))"
    )
    tail = rf"(?:{language.tail})?" if language.tail else ""
    yes, no = (_longest_first(words) for words in (language.yes, language.no))
    first = rf"(?:(?P<yes>{yes})|(?P<no>{no})){tail}{follows}"
    return _compiled(first), _compiled(because)


@cache
def _opposite(code: str, yes: bool) -> re.Pattern[str]:
    """Return the form of an answer that ends in a bare yes, or no, in a language."""
    return _compiled(rf"[,.;:!?…-]\s*(?:{LANGUAGES[code].yes if yes else LANGUAGES[code].no})[.!\s]*\Z")


def _longest_first(words: str) -> str:
    return "|".join(sorted(words.split("|"), key=len, reverse=True))


_NO_COUNT: Final = _spelt(
    "答案|信息|資訊|资讯|足够|足夠|办法|辦法|关系|數據|数据|選項|选项|答え|情報|選択肢|답|정보|선택지|respuesta|información|datos|suficiente|opci|"
    "duda|idea|réponse|information|donn|assez|choix|option|doute|antwort|angabe|daten|zweifel|ahnung|resposta|"
    "informa|dados|opç|dúvida|risposta|informazion|dati|opzion|dubbi|ответ|данн|информаци|вариант|сомнен|"
    "возможност|відповід|даних|odpowied|danych|informacj|opcji|antwoord|informatie|gegevens|cevap|bilgi|"
    "seçenek|đáp án|thông tin|dữ liệu|câu trả lời|jawaban|informasi|data|pilihan|คำตอบ|ข้อมูล|إجابة|جواب|"
    "معلومات|بيانات|پاسخ|اطلاعات|उत्तर|जानकारी|উত্তর|তথ্য|más|menos|plus|moins|mehr|weniger|mais|più|meno|"
    "больше|меньше"
)
"""Words after which a denial counts nothing: "there is no answer"."""
_WHAT: Final = rf"(?P<what>(?:(?!{_NO_COUNT})[^\d,.;:!?\n]){{1,40}}?)"


@cache
def _nothing() -> re.Pattern[str]:
    parts = [language.nothing.replace("?P<what>", "") for language in LANGUAGES.values()]
    plain = _WHAT.replace("?P<what>", "?:")
    every = "|".join([*(_spelt(part) for part in parts), _NONE_ALONE]).replace("#", plain)
    return re.compile(rf"(?:{every})\s*[.!]?", re.IGNORECASE)


_NONE_ALONE: Final = _spelt(
    "(?:一[个個只隻条條张張辆輛]?[也都])?(?:没有|沒有)|一つもありません|ありません|いません|なし"
    "|(?:하나도 )?(?:없습니다|없음|없어요)|kein[es]?|keine[nrs]?|aucune?|ning[uú]n[oa]?|nessun[oa]|nenhuma?"
    "|ни одно(?:й|го)|geen(?: enkele)?|żad(?:en|na|ne)|yok|hiç|không có|tidak ada|ไม่มี(?:เลย)?|لا يوجد|لا شيء|هیچ"
    "|कोई नहीं|কোনোটিই না|hakuna|inga|ingen|žádn[ýáé]|κανέν?α[ςν]?"
)


def counts_nothing(text: str) -> bool:
    """Tell whether a text says in another language than English that there is none of something."""
    return _nothing().fullmatch(text) is not None


# Number words are read in the language that a text is written in; runs of them become digits, as English ones do.

SCALES_ABROAD: Final = {
    word: 10**power
    for power, words in {
        3: "mil mille mila mii mie tausend duizend tusen tusind tisíc tisíce ezer tuhat tuhatta tysiąc tysiące"
        " tysięcy тысяча тысячи тысяч тысячу тис тыс тисяча тисячі тисяч хиляди хиляда bin ribu nghìn ngàn พัน"
        " ألف آلاف الف هزار ہزار हजार हज़ार हजारों হাজার ஆயிரம் వేలు వేల હજાર ਹਜ਼ਾਰ elfu χίλια χίλιοι χίλιες"
        " χιλιάδες אלף אלפים thousands libo libong",
        4: "หมื่น",
        5: "แสน लाख লাখ லட்சம் లక్ష લાખ ਲੱਖ lakhs لاکھ",
        6: "millón millones millions million millionen milione milioni milhão milhões miljoen miljoner miljon milion"
        " miliony milionów milionů milionu millió miljoonaa miljoona миллион миллиона миллионов млн мільйон мільйона"
        " мільйонів милион милиона milyon milyong juta triệu ล้าน مليون ملايين میلیون ملین milioane εκατομμύρια"
        " εκατομμύριο מיליון millioner मिलियन মিলিয়ন",
        7: "करोड़ কোটি crores",
        12: "billón billones billionen biljoen bilion bilionów",
        9: "milliard milliards milliarde milliarden miliardo miliardi miljard miljarder miliard miliardy"
        " miliardów milliárd миллиард миллиарда миллиардов млрд мільярд мільярда мільярдів milyar miliar tỷ tỉ"
        " مليار ملايير میلیارد bilhão bilhões miliarde δισεκατομμύρια δισεκατομμύριο מיליארד billions",
    }.items()
    for word in words.split()
}
_ENGLISH: Final = frozenset(
    "the is are was of there in and this that it to a an on for with answer shows see i we has have total so".split()  # noqa: SIM905
)
_ENGLISH_NUMBERS: Final = frozenset("one two three four five seven eight nine hundred thousand twenty thirty".split())  # noqa: SIM905
_UNSURE: Final = frozenset(
    """
    on altı yüz bin năm ba tư không sei neuf cent cents dix six to ti ni sex sto dos once hat sem
    nove nu elf acht tri cinco
    """.split()  # noqa: SIM905
)
"""Words that are another one elsewhere; alone they count only in a text of their own language, without digits."""
_NO_ARTICLES: Final = frozenset(("ru", "uk", "pl", "cs", "fi", "ar", "he"))
"""Languages without an article, so that their word for one counts."""
_GLUING: Final = frozenset(("de", "nl", "sv", "da", "it", "hu", "fi"))
"""Languages that write the parts of a number as one word."""
_JOINS: Final = frozenset("e et und og och en és na și ja و και".split())  # noqa: SIM905
_TOKEN: Final = re.compile(r"[^\s\d.,;:!?()\"'/=+*$%<>\[\]{}|\\-]+")
_GAP: Final = re.compile(r"[\s'-]{1,2}")
_LARGE: Final = re.compile(
    "hundert|tausend|einhalb|honderd|duizend|hundra|tusen|hundrede?|tusind|cento|mila|mille|száz|ezer|millió|sata|tuhat"
)
_KNOWN_THINGS: Final = re.compile(
    r"(?<![^\W\d_])(?:der|die|den|dieser|l[ao]s|les|des|ces|[oa]s|d[oa]s|gli|i|le|delle|dei|degli|de|deze|эти[хм]?|обо?их|summ?[ae]n?(?:\sav)?|tổng|jumlah|مجموع|مجموعه)"
    r"\s\Z",
    re.IGNORECASE,
)
"""What names things that are known: a number word behind it counts none anew."""
ONLY: Final = (
    r"nur|bloß|solo|sólo|solamente|apenas|só|somente|seul(?:ement)?|seule|только|лишь|тільки|лише|jen|pouze|vain|bara|endast|kun"
    r"|bare|tylko|alleen|slechts|maar|doar|numai|csak|sadece|yalnızca|μόνο|chỉ|có|hanya|فقط|केवल|सिर्फ|শুধু|genau|exactement|exactamente"
)
"""Words for "only", in all languages but English."""
_JUST: Final = re.compile(rf"(?:{ONLY})\W*\Z", re.IGNORECASE)


def _said(word: str) -> tuple[str, ...]:
    """Return a number word as it is looked up: composed, in lower case, in its parts."""
    plain = unicodedata.normalize("NFKC", word).replace("\u200c", "").casefold()
    return tuple(_TOKEN.findall(plain.replace("~", " ")))


def _forms(words: str) -> list[list[str]]:
    return [[form for form in item.split("/") if form != "_"] for item in words.split()]


def _numbers_of(language: Language) -> Iterator[tuple[str, Fraction]]:
    """Yield every number word of a language that its row gives, alone and joined."""
    units, tens = _forms(language.numbers), _forms(language.tens)
    yield from ((form, Fraction(value)) for value, forms in enumerate(units) for form in forms)
    for row, forms in enumerate(tens):
        yield from ((form, Fraction(10 * row + 20)) for form in forms)
        teens = row < len(tens) - 2 and not tens[row + 1]  # soixante-douze
        for template in language.joined.split("|") if language.joined and row < 8 else ():
            form, _, fixed = template.partition("=")
            for unit in [int(fixed)] if fixed else range(1, 20 if teens else 10):
                for ten, said in product(forms, units[unit]):
                    yield form.format(ten=ten, unit=said, stem=ten[:-1]), Fraction(10 * row + 20 + unit)
    for item in language.odd.split():
        words, _, value = item.partition("=")
        yield from ((form, Fraction(value)) for form in words.split("/"))


@cache
def _numbers(code: str) -> dict[tuple[str, ...], Fraction]:
    numbers = {_said(word): value for word, value in _numbers_of(LANGUAGES[code])}
    return {**{_said(word): Fraction(value) for word, value in SCALES_ABROAD.items()}, **numbers}


@cache
def _codes_by_word() -> dict[str, frozenset[str]]:
    """Map the first part of a number word to the languages that have it."""
    found: dict[str, set[str]] = {}
    for code, language in LANGUAGES.items():
        if language.spaced:
            for word, _ in _numbers_of(language):
                found.setdefault(_said(word)[0], set()).add(code)
    every = frozenset(code for code, language in LANGUAGES.items() if language.spaced and language.numbers)
    return {word: frozenset(codes) for word, codes in found.items()} | {
        word: every for word in map(str.casefold, SCALES_ABROAD) if word not in found
    }


def _sum_of(values: Sequence[Fraction]) -> Fraction | None:
    """Return what number words in a row come to: 3 100 5 is 305, 3 1000 1000000 is 3 billion; None if that is none."""
    total = current = Fraction(0)
    lowest: Fraction | None = None
    for value in values:
        if value >= 1000:
            if not current and total:
                total *= value
            elif lowest is not None and value >= lowest:
                return None
            else:
                total += (current or 1) * value
            lowest, current = value, Fraction(0)
        elif value == 100 and 0 < current < 100:
            current *= 100
        elif current % 100 or (current and value >= 100) or (value == 0 and len(values) > 1):
            return None
        else:
            current += value
    return total + current


@lru_cache(maxsize=1024)
def _glued(word: str, code: str) -> Fraction | None:
    """Return the value of a number that is written as one word: `zweitausenddreihundert`, `zweieinhalb`."""
    if code == "de" and word.endswith("einhalb"):
        whole = _numbers(code).get((word.removesuffix("einhalb") or "ein",))
        return None if whole is None else whole + Fraction(1, 2) if word != "einhalb" else None
    parts = _atoms(word, code, 0)
    return None if parts is None else _sum_of(parts)


def _atoms(word: str, code: str, depth: int) -> list[Fraction] | None:
    for end in range(len(word), 0, -1):
        value = _numbers(code).get((word[:end],))
        rest = word[end:].removeprefix("und") if code == "de" else word[end:]
        if value is None or depth > 8:
            continue
        further = _atoms(rest, code, depth + 1) if rest else []
        if further is not None and _sum_of([value, *further]) is not None:
            return [value, *further]
    return None


@cache
def common_words() -> frozenset[str]:
    """Return the most common words of all languages, which tell nothing of what a text is about."""
    return _ENGLISH.union(*_common().values())


def is_english(text: str) -> bool:
    """Tell whether a text holds common words of English and is written in no other language."""
    words = {found[0].casefold() for found in _TOKEN.finditer(text)}
    return not written_in(text) and not _ENGLISH.isdisjoint(words)


@remembered
def written_in(text: str) -> str:
    """Return the code of the language whose most common words a text holds; empty for English and without such."""
    words = frozenset(found[0].casefold() for found in _TOKEN.finditer(text))
    counts = {code: len(words & common) for code, common in _common().items()}
    best = max(counts, key=lambda code: counts[code])
    return best if counts[best] > len(words & _ENGLISH) else ""


@cache
def _common() -> dict[str, frozenset[str]]:
    """Return the most common words of each language."""
    return {code: frozenset(row.words.split()) for code, row in LANGUAGES.items()}


_SCRIPTS: Final = {"ja": "\u3040-\u30ff", "ko": "\uac00-\ud7a3", "th": "\u0e00-\u0e7f", "zh": "\u3400-\u9fff"}


def language_of(text: str) -> str:
    """Return the code of the language of a text by its script, or else by its words; empty for English and unknown."""
    return next((code for code, signs in _SCRIPTS.items() if re.search(f"[{signs}]", text)), "") or written_in(text)


@remembered
def number_words_as_digits(text: str) -> str:
    """Return `text` with the number words of the language that it is written in as digits."""
    if _thai().search(text):
        return _thai().sub(lambda found: str(_numbers("th")[(found[0],)]), text)
    known = _codes_by_word()
    tokens = [(found.start(), found.end(), found[0].casefold()) for found in _TOKEN.finditer(text)]
    words = frozenset(word for _, _, word in tokens)
    codes = {code for word in words for code in known.get(word, ())}
    if any(_LARGE.search(word) for word in words):
        codes |= _GLUING
    if not codes or words & _ENGLISH_NUMBERS:
        return text
    english = len(words & _ENGLISH)
    ways: dict[str, tuple[int, int]] = {}
    for code in codes:
        common = len(words & _common()[code])
        if common >= english:
            said, length = _in_digits(text, tokens, code, common > 0)
            if length:
                ways[said] = max(ways.get(said, (0, 0)), (common, length))
    best = max(ways.values(), default=None)
    said_best = [said for said, rank in ways.items() if rank == best]
    return said_best[0] if len(said_best) == 1 else text


@cache
def _thai() -> re.Pattern[str]:
    """Return the form of number words in Thai, which parts no words, alone or before a counter."""
    words = "|".join(sorted((word for word, _ in _numbers_of(LANGUAGES["th"])), key=len, reverse=True))
    counters = (
        "ครึ่ง|ชั่วโมง|วัน|เดือน|แผ่น|ห้อง|กล่อง|กิโล|ลิตร|เซนติ|ล้อ|สี|มุม|ด้าน|ลูก|ตัว|คน|คัน|อัน|ใบ"
        "|ดอก|ต้น|เล่ม|แก้ว|จาน|ชิ้น|เม็ด|หลัง|ครั้ง|ปี|ผล|ขวด|บาท|เมตร|องศา|นาที|พัน|หมื่น|แสน|ล้าน"
    )
    return re.compile(rf"(?:{words})(?=\s*(?:[.!?]|\Z)|\s?(?:{counters}))")


def _in_digits(text: str, tokens: list[tuple[int, int, str]], code: str, sure: bool) -> tuple[str, int]:
    """Return `text` with the number words of one language as digits, and how many signs these took."""
    numbers, place, end_before, kept, length = _numbers(code), 0, 0, [], 0
    digits = re.search(r"[0-9]", text) is not None
    while place < len(tokens):
        values, after = _run(text, tokens, place, code, numbers)
        value = _sum_of(values) if values else None
        if value is None:
            place += 1
            continue
        start, end = tokens[place][0], tokens[after - 1][1]
        one_word, place = tokens[place][2] if after - place == 1 else "", after
        rest = text[end:].strip(" .!")
        if one_word and value == 1 and (rest or start) and code not in _NO_ARTICLES and not _JUST.search(text[:start]):
            continue  # "un perro" is a dog
        if digits and (min(values) >= 1000 or _KNOWN_THINGS.search(text[:start])):
            continue  # "3 mil millones", "the sum of the two numbers"
        if one_word and (value >= 1000 or one_word in _UNSURE) and (digits or (rest and not sure)):
            continue  # "2 mil", and words of two languages
        if one_word in _UNSURE and len(tokens) > 1 and not sure:
            continue
        kept += [text[end_before:start], str(value) if value.denominator == 1 else str(float(value))]
        end_before, length = end, length + end - start
    return "".join([*kept, text[end_before:]]), length


def _run(
    text: str, tokens: list[tuple[int, int, str]], place: int, code: str, numbers: dict[tuple[str, ...], Fraction]
) -> tuple[list[Fraction], int]:
    """Return the values of the number words from `place` on that make one number, and where they end."""
    values: list[Fraction] = []
    after = place
    while after < len(tokens):
        begin = after
        if values:
            if not _GAP.fullmatch(text, tokens[after - 1][1], tokens[after][0]):
                break
            if tokens[after][2] in _JOINS and after + 1 < len(tokens) and sum(values) >= 100:
                begin = after + 1
        found = None
        for count in range(min(4, len(tokens) - begin), 0, -1):
            part = tokens[begin : begin + count]
            close = all(_GAP.fullmatch(text, a[1], b[0]) for a, b in pairwise(part))
            word = tuple(word for _, _, word in part)
            if close and count == 1 and values and word[0].startswith("و"):
                word = word if word in numbers else (word[0][1:],)
            value = numbers.get(word) if close else None
            if value is None and count == 1 and code in _GLUING and _LARGE.search(word[0]):
                value = _glued(word[0], code)
            if value is not None and _sum_of([*values, value]) is not None:
                found = value, begin + count
                break
        if found is None:
            break
        values, after = [*values, found[0]], found[1]
    return values, after
