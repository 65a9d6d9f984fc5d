"""Find the option on which a short sentence settles: "It is C", "not A, it is C", "es handelt sich um einen Vogel".

Five readers are asked in turn, and the first that finds an option decides: the sentence says yes or no, as an option
does; it denies others and names one ("not A but B"); it rules others out ("which leaves B"); it names one by letter or
text, or states one at its end, and denies nothing; it says of one what is asked. A sentence that hedges, or names
several, settles on none.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from saccade.grading.extract import concluded
from saccade.grading.languages import (
    BECAUSE,
    DENIAL,
    DOUBT,
    INSTEAD,
    NOT_THE_OTHER,
    ONLY,
    common_words,
    without_seeming,
    written_in,
)
from saccade.grading.options import AnswerOptions
from saccade.grading.restated import denies, fills_in, sentences
from saccade.grading.text import VERB_LAST, bare, statements
from saccade.grading.yes_no import asserts

LONGEST: Final = 400
"""Signs of a sentence beyond which it is not read."""
_DENIED = re.compile(
    DOUBT.pattern
    + r"|\bor\b|\bfrom\s[a-z]\sto\b|\b(?:(?:all|any(?:one|body|thing)?|every(?:one|body|thing)|each|either)"
    r"\s(?:of\sthem\s)?but|other than|rather than|excluding|opposite"
    r"|rul(?:ed?|es|ing) out|eliminated?|excluded?|rejected?|trap|tempting|distractor)\b",
    re.IGNORECASE,
)
THEN_NOT = re.compile(
    rf"(?:,\s?(?:(?:and|but|und|et|y|e|а|a|en|och|og)\s)?|\s(?:and|und|et|y|e|и|а|en|och|og)\s)(?:{NOT_THE_OTHER})[^,;.]{{1,60}}(?=\W*$|,\s)"
    r"|,?\s(?:rather\sthan|instead\sof|as\sopposed\sto|and\snot)\s[^;.]{1,120}\W*$",
    re.IGNORECASE,
)
_CHOSEN_LETTER = re.compile(
    r"(?:^(?:[=-]>|→|⇒|∴)?|'s\b|\b(?:is|be|like|final|result|conclusion|so|thus|hence|therefore|choose|chose|pick|select|say|with|for|option|choice|answer|letter|but|to|case|doubt)\b)"
    r"[,:\s]*(?:option\s|choice\s|letter\s|answer\s)?(?:[(\[\"']?(?-i:([A-Z]))[)\]\"']?|\(([a-z])\))"
    r"(?=\s*(?:[.,;:!]|$|\s(?:because|since|as|which)\b))",
    re.IGNORECASE,
)
_LETTER_FIRST = re.compile(
    r"^(?:so|thus|hence|therefore)?[,\s]*(?:only\s)?(?:option\s)?([A-Z])\s(?:fits|matches|works|remains"
    r"|(?:is|must\sbe|has\sto\sbe|seems|looks)\s(?:to\sbe\s)?(?:the\s)?(?:(?:correct|right|best)\s?)?(?:answer|option|choice|one)?)\W*$",
    re.IGNORECASE,
)
_FURTHER = re.compile(r"\s*[,/&+]\s*(?:and\s|or\s)?[(\[]?([A-Z])(?![\w'])")
_BECAUSE = re.compile(r"[,.]?\s(?:because|since)\s", re.IGNORECASE)
_TO_ME = re.compile(r"\sto\sme(?=\W*\Z)")


def in_sentence(prediction: str, options: AnswerOptions) -> int | None:
    """Return the single option that a short sentence settles on, by marked letter or by text, or None."""
    if len(prediction) > LONGEST:
        return None
    prediction = without_seeming(_TO_ME.sub("", prediction))
    readers = (_yes_or_no, _not_but, _remaining, _named, _filling)
    return next((index for read in readers if (index := read(prediction, options)) is not None), None)


def _yes_or_no(prediction: str, options: AnswerOptions) -> int | None:
    """Return the option that says yes or no as the sentence does, if it names no other: "Yes, both are equal"."""
    words = _polar(options.words)
    meant = asserts(prediction) if {True, False} <= {*words} else None
    if meant is None:
        return None
    index = words.index(meant)
    named = options.mentioned(prediction) | (_chosen_letters(prediction, options) or set())
    return index if named <= options.doubles(index) else None


@lru_cache
def _polar(words: tuple[str, ...]) -> tuple[bool | None, ...]:
    return tuple(map(asserts, words))


def _not_but(prediction: str, options: AnswerOptions) -> int | None:
    """Return the option that a sentence names last, behind others that it denies: "neither A nor B, but C"."""
    if denies(options.question):
        return None
    for spot in reversed(list(_BUT.finditer(prediction))):
        head, tail = prediction[: spot.start()], VERB_LAST.sub("", prediction[spot.end() :].strip(" ."))
        said, _, rest = re.sub(r"(?<=[^\s,;:(])(?=\s?[,;:(]|\s(?:because|since|as)\s)", "\0", tail, count=1).partition(
            "\0"
        )
        others = options.mentioned_by_text(head, alone=False)
        others |= {index for name in _LONE.findall(head) if (index := options.index(name)) is not None}
        alone = _LONE.fullmatch(said.strip("()"))
        index = options.index(alone[0]) if alone else options.named(_without_small_words(said))
        if index is None or not others or others & options.doubles(index):
            continue
        denied = denies(head if spot["but"] else prediction[: spot.end()])
        open_ = DOUBT.search(options.without_texts(rest)) or options.mentioned_by_text(rest) - {index}
        return None if not denied or _NOT_ONLY.search(head) or _HEDGES.search(head) or open_ else index
    return None


def _without_small_words(said: str) -> str:
    """Drop what may lead to a text: "it is the horse" is "horse", "du basalte" is "basalte"."""
    words = re.sub(r"\Ad'|\Ait's\s", "", said, flags=re.IGNORECASE).split(" ")
    while len(words) > 1 and words[0].casefold() in common_words():
        words.pop(0)
    return " ".join(words)


_BUT = re.compile(
    rf"(?P<but>,?\s?(?:{INSTEAD}),?\s?|,\s(?:it's|it\sis)\s)|(?:では|でも|じゃ)なく(?:て)?,?\s?|[이가도]?\s?아니(?:라|고),?\s|(?<!\w)değil(?:dir)?,?\s",
    re.IGNORECASE,
)
_NOT_ONLY = re.compile(rf"(?<!\w)(?:only|just|merely|{ONLY})(?!\w)|[只仅僅]|だけ|のみ|만\s?아니", re.IGNORECASE)
_HEDGES = re.compile(r"\b(?:sure|certain|clear|know|if|may|would|seems?|appears\sto|looks)\b", re.IGNORECASE)
_LONE = re.compile(r"(?<![^\W_])[A-Z](?![^\W_])")


def _remaining(prediction: str, options: AnswerOptions) -> int | None:
    """Return the option that is left when others are ruled out: "A and C are wrong, which leaves B"."""
    found = None if DENIAL.search(prediction) else _REMAINS.search(prediction)
    if found is None:
        return None
    return options.index(found["label"]) if found["label"] else options.named(found["said"])


_REMAINS = re.compile(
    r"\b(?:(?:only\s(?:one\s)?(?:option|choice|answer|one)\s(?:that\s)?(?:remains|remaining|left)(?:\sis)?|leav(?:es|ing)(?:\sonly)?)"
    r"\s?:?\s(?:option\s)?[(]?(?P<label>(?-i:[A-Z]))[)]?|(?:that|this|which)\s(?:only\s)?leaves\s(?P<said>[^.,;:!?()\n]{2,80}))\W*$",
    re.IGNORECASE,
)


def _named(prediction: str, options: AnswerOptions) -> int | None:
    """Return the one option whose letter or text a sentence names, if it denies nothing: "So it must be B"."""
    prediction = THEN_NOT.sub("", prediction)
    lettered = _chosen_letters(prediction, options)
    one = lettered is not None and len(lettered) == 1
    found = options.mentioned(_BECAUSE.split(prediction)[0] if one else prediction) | (lettered or set())
    if one and TAKEN_BACK.search(prediction) is None:
        prediction = _BECAUSE.split(prediction)[0]  # a reason may deny the others
    rest = options.without_texts(prediction)
    if _DENIED.search(rest) is not None or speaks_of_less(rest, options):
        return None
    touched = found | options.mentioned_by_text(prediction, alone=False)
    if found and len({options.words[index] or str(index) for index in touched}) == 1:
        return min(found)
    return _stated(prediction, options)


def _filling(prediction: str, options: AnswerOptions) -> int | None:
    """Return the option of which the last sentence says what is asked: "Das Pferd steht dem Zaun am nächsten"."""
    *before, last = sentences(prediction) or [""]
    found = [index for index, text in enumerate(options.texts) if fills_in(last, text, options.question)]
    named = options.mentioned_by_text(last, alone=False)
    return found[0] if len(found) == 1 and named <= {found[0]} and not any(map(_HEDGES.search, before)) else None


def _stated(prediction: str, options: AnswerOptions) -> int | None:
    """Return the one option that a sentence states, whole or at its end: "es handelt sich um einen Vogel (B)"."""
    said = _BECAUSE_THERE.split(prediction.strip(), maxsplit=1)[0]
    stated = [part for one in statements(said) for part in (one, re.split(r"[,;(]\s", one)[0])]
    meant = {index for one in stated if (index := options.named(one)) is not None}
    if not meant:
        verbless = bare(VERB_LAST.sub("", said))
        meant = {index for index in range(len(options.texts)) if options.ends(verbless, index)}
    in_brackets = [options.index(spot[1]) for spot in IN_BRACKETS.finditer(prediction)]
    alone = not written_in(prediction)  # "la vache est plus proche que le cheval" names both
    others = options.mentioned(prediction) | options.mentioned_by_text(_BECAUSE_THERE.split(prediction)[0], alone)
    others |= _chosen_letters(prediction, options) or set()
    others |= {index for index in in_brackets if index is not None}
    if len({options.words[index] for index in meant}) != 1:
        return None
    index = min(meant)
    return None if others - options.doubles(index) else index


_BECAUSE_THERE = re.compile(rf"(?:,\s?|\s?(?=[^\x00-\x7f]))(?:{BECAUSE})|,?\s(?:because|since)\s", re.IGNORECASE)
IN_BRACKETS = re.compile(r"[(\[]\s?(?:[^\W\d_]+\s)?([A-Z])\s?[)\]]")


def _chosen_letters(prediction: str, options: AnswerOptions) -> set[int] | None:
    """Return the options whose letters occur where a sentence settles on one."""
    text = prediction.strip()
    spots = [*_CHOSEN_LETTER.finditer(text), *filter(None, (_LETTER_FIRST.match(text), _closing_letter(text)))]
    spots += [other for spot in spots if (other := _FURTHER.match(text, spot.end())) is not None]
    found = {options.index(next(filter(None, spot.groups()))) for spot in spots}
    return {index for index in found if index is not None} or None


def _closing_letter(text: str) -> re.Match[str] | None:
    """Return the only letter of a conclusion, at its end: "Следовательно, ближе точка B", "it falls: B"."""
    found = _AT_END.search(text)
    if found is None or len(_LONE.findall(text)) > 1 or _NOT_MEANT.search(text):
        return None
    return found if found[0][0] in ":>→" or concluded(f". {text}") else None


_AT_END = re.compile(r"(?:[:>→]\s?|[\s(])[(\[]?([A-Z])[)\]]?\W*\Z")
_NOT_MEANT = re.compile(r"\b(?:trap|tempting|distractor|worst|least|odd|opposite)\b", re.IGNORECASE)
_OPPOSITE = re.compile(
    r"\b(?:below|under|less|fewer|smaller|lower|outside|(?:dar)?unter|weniger|kleiner|menos|menor|debajo|moins|sous|meno|sotto|меньше|ниже|под|other)"
    r"|[低小少下]",
    re.IGNORECASE,
)


def speaks_of_less(text: str, options: AnswerOptions) -> bool:
    """Tell whether a text speaks of what is less, lower or other, and the question does not."""
    return _OPPOSITE.search(text) is not None and _OPPOSITE.search(options.question) is None


TAKEN_BACK = re.compile(
    r"^[\s,;.:-]*(?:(?:is|was|are|isn't|can|can't|cannot|has|have|had|seems?|looks?|must|would|could|should|might|may)\b"
    r"[^.;,\n]{0,30}\b(?:wrong|incorrect|false|not|ruled|out|unlikely|worst|least|im(?:possible|plausible|probable)|doubtful|dubious|absurd"
    r"|questionable|mistaken?|excluded|eliminated)\b|(?:isn't|can't|cannot)\b)"
    r"|\b(?:no,|no wait|wait\b|actually,|sorry|scratch that|on second thought|i mean|correction|my mistake"
    r"|not (?:sure|certain|confident)|unsure|uncertain)"
    r"|^[\s,;.:-]*(?:actually|maybe|perhaps|possibly|probably|might"
    r"|but (?:maybe|perhaps|it (?:could|might)|i could))\b|\?\s*$",
    re.IGNORECASE,
)
REJECTS = re.compile(
    DOUBT.pattern
    + r"|\b(?:too|less|rather|unlike|while|whereas|other|others|only|fails?|lacks?|eliminated?|rules?d? out|"
    r"distractors?|contradicts?|opposite|excluded?|does|larger|smaller|more|greater|worse|would|compared?|than)\b",
    re.IGNORECASE,
)
COMPARES = re.compile(
    r"(?:more|less|fewer|greater|higher|lower|larger|smaller|faster|slower|rather|other)\sthan\b", re.IGNORECASE
)
SETTLES = re.compile(
    r"(?<![^\W_])(?:answer|so|therefore|thus|hence|but|wait|actually|no|correct\w*|right|best|better|final\w*|choose|pick|should|must|instead"
    r"|also|daher|richtig\w*|doch|aber|donc|mais|bonne|correct[ea]s?|entonces|pero|correct[oa]|quindi|corrett[oa]|значит|ответ|верн\w+|но)(?![^\W_])"
    r"|[所以故選选應应對对但]|正|答|しかし|따라서|정답",
    re.IGNORECASE,
)
"""What leads to an answer, or turns one round, behind what was said of an option."""
