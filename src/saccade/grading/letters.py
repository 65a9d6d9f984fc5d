"""The letters of options in other scripts, and sets of letters as answers of questions with several right options."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

from saccade.grading.clean import clean
from saccade.grading.languages import BECAUSE, LANGUAGES, TRUE
from saccade.grading.number_words import literal_list

_ALPHABETS: Final = (
    *map(
        tuple,
        """
        АБВГДЕЖЗИК АБВГҐДЕЄЖЗ أبجدهوزحطي ابجدهوزحطي
        কখগঘঙচছজঝঞ कखगघङचछजझञ अबसदइफ 가나다라마바사아자차
        ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊ アイウエオカキクケコ あいうえおかきくけこ イロハニホヘトチリヌ
        甲乙丙丁戊己庚辛壬癸 กขคงจฉชซฌญ ΑΒΓΔΕΖΗΘΙΚ אבגדהוזחטי
        ①②③④⑤⑥⑦⑧⑨⑩ ⒶⒷⒸⒹⒺⒻⒼⒽⒾⒿ
        """.split(),  # noqa: SIM905
    ),
    ("الف", "ب", "پ", "ت", "ث", "ج", "چ", "ح"),
    tuple(map(str, range(1, 27))),
    ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X"),
    ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x"),
)
_CIRCLED: Final = "①②③④⑤⑥⑦⑧⑨⑩ⒶⒷⒸⒹⒺⒻⒼⒽⒾⒿ"


def own_labels(texts: Sequence[str], question: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels in other letters than ours that a question's options have, cleaned, and their texts without.

    The labels stand before the texts themselves ("Б) кот"), or before these in the question. Without such: none.
    """
    for alphabet in _ALPHABETS:
        if not 2 <= len(texts) <= len(alphabet):
            continue
        marks = [_mark(one) for one in alphabet[: len(texts)]]
        labels = tuple(clean(one) for one in alphabet[: len(texts)])
        found = [mark.match(text) for mark, text in zip(marks, texts, strict=True)]
        if all(found):
            rest = tuple(text[one.end() :] for one, text in zip(found, texts, strict=True) if one)
            # "1. figure", "2. figure": the number is what the options say.
            return labels, rest if len(set(rest)) == len(set(texts)) else tuple(texts)
        if question and all(
            any(question.startswith(text, spot.end()) for spot in mark.finditer(question))
            for mark, text in zip(marks, texts, strict=True)
        ):
            return labels, tuple(texts)
    return (), tuple(texts)


@cache
def _mark(label: str) -> re.Pattern[str]:
    """Return a label before its text: `(Б)`, `Б)`, `Б.`; "1.5" begins with none."""
    plain = re.escape(label)
    stop = "" if label in _CIRCLED else r"(?:\s?[)）、．]|[.:](?![0-9]))"
    return re.compile(rf"\s*(?:[(（\[]\s?{plain}\s?[)）\]]|(?<!\w){plain}{stop})\s*(?=\S)")


def may_label(sign: str, index: int) -> bool:
    """Tell whether a letter of another script is the label of option `index` in some alphabet, or looks like ours."""
    known = any(len(alphabet) > index and alphabet[index].casefold() == sign.casefold() for alphabet in _ALPHABETS)
    return known or "АВСD"[index : index + 1] == sign


def label_abroad(sign: str, texts: Sequence[str]) -> int | None:
    """Return the option that a letter of these options' script labels in every alphabet that has it, or None.

    A letter that looks like ours may also be ours: the Cyrillic one after "Б" is none.
    """
    if len(sign) != 1 or sign.isascii() or not sign.isalpha():
        return None
    script = unicodedata.name(sign).split()[0]
    if not any(unicodedata.name(one, "").startswith(script) for one in "".join(texts)):
        return None
    ways = (*(tuple(map(clean, way[: len(texts)])) for way in _ALPHABETS), "АВСDЕ", "ΑΒCDΕ")
    found = {way.index(sign.upper()) for way in ways if sign.upper() in way}
    return found.pop() if len(found) == 1 and max(found) < len(texts) else None


def in_our_letters(text: str, labels: Sequence[str], name: Callable[[int], str]) -> str:
    """Write the options' own labels as ours where they stand as labels: in brackets, at the start, or alone."""
    for index, own in sorted(enumerate(labels), key=lambda pair: -len(pair[1])):
        whole = rf"\A[\s(\[\"'*]{{0,3}}{re.escape(own)}(?=[.):](?!\d)|\W{{0,3}}\Z)|[(\[]\s?{re.escape(own)}\s?[)\]]"
        text = re.sub(whole, f"({name(index)})", text)
    return text


# Sets: `A, C`, `AC`, `(A)(C)`, "A and C", "options A and C are correct", `["A", "C"]`, or the options' texts.

_AND: Final = (
    r"(?:\s?(?:[,;/&+|\n]|-(?=\s))\s?(?:(?:and|&|y|e|et|und|en|i|и|та|ve|và|dan|och|og|ja|és|și|και|و|และ|और)\s|و|ו-?)?"
    r"|\s(?:and|y|e|et|und|en|i|и|та|ve|và|dan|a|och|og|ja|és|și|και|و|और|এবং|اور)\s(?:(?:la|las|os?|a|le|les|die|der)\s)?|\s?(?:和|与|與|及|跟|と|와|과|랑|และ|กับ)\s?|\s(?:و|ו-?)|\s)"
)
_ONE: Final = r"(?:[(\[\"']?\s?[A-Z]\s?[)\]\"'.:]?|[(\[][a-z][)\]])"
_RUN: Final = rf"{_ONE}(?:(?:{_AND})?{_ONE})*"
_ALONE = re.compile(
    rf"(?:(?i:the\s)?(?i:options?|choices?|letters?|answers?|both)\s?:?\s)?[\[(]?(?P<run>{_RUN})[\])]?"
    r"(?:\s(?i:are|is)\s(?i:(?:all|both)\s)?(?i:(?:the\s)?(?:correct|right|true)(?:\s(?:answers?|options?|choices?))?)|\s(?i:apply|hold|fit|match))?\W*"
)
_LOWER = re.compile(r"[a-z](?:\s?,\s?[a-z]|\s(?:and|&)\s[a-z])+\W*")
_IN_SENTENCE = re.compile(
    rf"(?i:\b(?:options?|choices?|answers?|statements?|letters?|both|are|is|think|choose|select|pick|therefore|thus|so|hence)\b)"
    rf"[\s,:]{{1,3}}(?P<run>{_RUN})"
    r"(?=\s(?i:are|is)\s(?:(?i:all|both)\s)?(?:(?i:the)\s)?(?i:correct|right|true|answers?)|\s?[.!]?\s*\Z)"
)
_TRUE = re.compile(rf"\b(?:true|correct|right|apply|hold|accurate|valid)|{TRUE}", re.IGNORECASE)
"""What says in many languages that options are right."""
_SET = re.compile(
    rf"(?<![^\W_])(?:(?:la|las|el|os?|as?|le|les|die|der)\s)?(?P<run>{_ONE}(?:{_AND}(?:(?:la|las|os?|as?|le|les|die|der|i)\s)?{_ONE})+)(?![^\W_])"
)
_RIGHT_THERE = re.compile(
    r"\s?(?:正确|正確|正しい|正解|选项|選項|选择|選擇|選択肢|说法|說法|答案|答え|项|項|皆|都|均|是|为|為|的|包括|有|选|選|故|のは|もの|が|は|です|である|のみ|정답|옳은|맞는|것은|선택지|보기|입니다|모두|은|는|이|가|만)+\s?:?"
)
"""What says in Chinese, Japanese or Korean that letters are right."""
_LONE = re.compile(r"(?<![^\W_])[A-Z](?![^\W_])")
_NOT_THESE = re.compile(
    r"\b(?:between|from|except|besides|beside|excl\w+|elimin\w+|reject\w*|discard\w*|out|torn|zwischen|entre|tra|fra|между|mellan|mellem"
    r"|tussen|między|außer|ausgeschl\w+|ausschl\w+|descart\w+|écart\w+|escl\w+|scart\w+|исключ\w+|points?|vertices|angles?|sides?|line"
    r"|segment|lacks?|without|ohne|sans|sin|sem|senza|без)\b|[除间間排]"
)
"""What makes letters at the end of a sentence others than the right ones, or no options."""
_PARTS = re.compile(rf"\s*\n\s*|\s?;\s?|,\s(?:and\s)?|{_AND}")
_WORD_BETWEEN = re.compile(r"\s*[,;\n]\s*(?:(?:and|&|y|e|et|und|en|i|и)\s)?|\s(?:and|&|y|e|et|und|en|i|и)\s")
_LONGEST: Final = 400


SAID_WRONG = re.compile(
    r"\b(?:wrong|incorrect|false|not|neither|falsch|nicht|no|ni|incorrect[oa]s?|fals[oa]s?|faux|fausses?|pas|errad[oa]s?|não|non"
    r"|sbagliat[eio]|fout|onjuist|felaktig\w*|yanlış|salah|bukan|sai|не|неверн\w+)\b|[错錯不]|誤|ない|아니|틀|خطأ|गलत",
    re.IGNORECASE,
)
"""What says in many languages that options are wrong."""


_A_LETTER: Final = r"(?:[^\W\d_]{1,12} ){0,2}[(]?(?-i:(?<![A-Za-z])[A-Z](?![A-Za-z]))[)]?"
_BOTH: Final = re.compile(
    "|".join(filter(None, ("both # (?:and|&) #", *(row.both for row in LANGUAGES.values()))))
    .replace("#", _A_LETTER)
    .replace(" ?", r"\s?")
    .replace(" ", r"\s"),
    re.IGNORECASE,
)


def both_of(text: str) -> frozenset[str]:
    """Return the two letters of which a text says last that both hold, if it names no other behind them."""
    found = list(_BOTH.finditer(text))
    if not found or _LONE.search(text, found[-1].end()):
        return frozenset()
    return frozenset(_LONE.findall(found[-1][0]))


def labels_said(text: str) -> tuple[str, ...] | None:
    """Return the letters that a text names as a set, each once; None if it names none, or one twice in a row."""
    if len(text) > _LONGEST:
        return None
    text = re.sub(rf",?\s(?:because|since)\s.*|(?:,\s?|\s-\s)(?:{BECAUSE})\s.*|(?<=[A-Z])입니다\W*\Z", "", text)
    text = text if text.isascii() else _RIGHT_THERE.sub(" ", text).strip()
    whole = _ALONE.fullmatch(text) or _LOWER.fullmatch(text)
    if whole is None:
        spots = list(_IN_SENTENCE.finditer(text))
        whole = spots[0] if len(spots) == 1 else _in_sentence(text)
    if whole is None:
        return None
    groups = whole.groupdict()
    run = groups.get("run") or whole[0]
    small = r"\b[a-z]\b" if whole.re is _LOWER else r"(?<=[(\[])[a-z](?=[)\]])"
    letters = re.findall(rf"[A-Z]|{small}", run)
    names = tuple(letter.upper() for letter in letters)
    return names if len(set(names)) == len(names) else None


def _in_sentence(text: str) -> re.Match[str] | None:
    """Return the only letters of a sentence that says of them that they are right, or ends in them."""
    clauses = re.split(r";\s|\.\s|\s-\s", text)
    if len(clauses) > 1:
        found = [one for one in map(_in_sentence, clauses) if one is not None]
        return found[0] if len(found) == 1 else None
    runs = list(_SET.finditer(text))
    if len(runs) != 1:
        return None
    rest = f"{text[: runs[0].start()]} {text[runs[0].end() :]}"
    other = _LONE.search(rest) or SAID_WRONG.search(rest) or _NOT_THESE.search(rest.lower())
    fits = _TRUE.search(rest) or not text[runs[0].end() :].strip(" .!)*")
    return runs[0] if fits and not other else None


def parts_said(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the ways in which a text may be a list of options: as an array, by lines, by commas, or by "and" too."""
    array = literal_list(text)
    if array is not None:
        return (tuple(str(item) for item in array),)
    if len(text) > 2_000:
        return ()
    lines = [re.sub(r"\A[-*•]\s", "", line.strip()) for line in text.split("\n") if line.strip()]
    if len(lines) > 2 and lines[0].endswith(":"):
        lines = lines[1:]
    text = "\n".join(lines)
    ways = (re.split(r"\s*\n\s*|\s?;\s?", text), _WORD_BETWEEN.split(text), _PARTS.split(text))
    return tuple(tuple(part for part in way if part) for way in ways if len([part for part in way if part]) > 1)
