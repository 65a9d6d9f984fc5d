"""The one option that a sentence settles on: "It is C", "not A, it is C", "the dog is on the left".

Sentences that deny, hedge, or name several options settle on none.
"""

from __future__ import annotations

import re

from saccade.grading.options import AnswerOptions
from saccade.grading.quantities import DOUBT
from saccade.grading.yes_no import asserts

_LONGEST = 400
_DENIED = re.compile(
    DOUBT.pattern
    + r"|\bor\b|\b(?:(?:all|any|anything|everything) but|other than|rather than|excluding|opposite|ruled? out|rules out"
    r"|eliminated?|excluded?|rejected?)\b",
    re.IGNORECASE,
)
_FIRST_NOT = re.compile(
    r"^(?:it(?:'s|\sis)\s)?not\s+(?:option\s|choice\s)?(?P<denied>[^,;.]{1,60}?)\s*[,;.]?\s*"
    r"(?=(?:but|it\sis|it's|so|rather|instead)\b)",
    re.IGNORECASE,
)
_THEN_NOT = re.compile(r"(?:,\s(?:and\s|but\s)?|\sand\s)not\s[^,;.]{1,60}\W*$", re.IGNORECASE)
_RULED_OUT = re.compile(
    r"^(?:it\s(?:can't|cannot|can\snot)\sbe\s(?:option\s)?[^,;.]{1,60}(?=[,;])|(?:since|as|because)\s(?:options?\s)?"
    r"(?-i:[A-Z])(?:(?:,\s|,?\sand\s|,?\sor\s)(?-i:[A-Z]))*\s(?:is|are)\s(?:all\s|both\s)?"
    r"(?:wrong|incorrect|false|ruled\sout|eliminated|impossible))[,;]?\s(?=\S)",
    re.IGNORECASE,
)
_CHOSEN_LETTER = re.compile(
    r"(?:^(?:[=-]>|→|⇒|∴)?|'s\b|\b(?:is|be|like|final|result|conclusion|so|thus|hence|therefore|choose|chose|pick|select|say|with|for|option|choice|answer|letter|but|to|case)\b)"
    r"[,:\s]*(?:option\s|choice\s|letter\s|answer\s)?(?:[(\[\"']?(?-i:(?P<label>[A-Z]))[)\]\"']?|\((?P<small>[a-z])\))"
    r"(?=\s*(?:[.,;:!]|$|\s(?:because|since|as|which)\b))",
    re.IGNORECASE,
)
_FURTHER = re.compile(r"\s*[,/&+]\s*(?:and\s|or\s)?[(\[]?(?P<label>[A-Z])(?![\w'])")
_BECAUSE = re.compile(r"[,.]?\s(?:because|since)\s", re.IGNORECASE)
_IS_IT = re.compile(
    r"^(?:so|thus|hence|therefore)?[,\s]*(?:only\s)?(?:option\s)?(?P<label>[A-Z])\s(?:fits|matches|works|remains"
    r"|(?:is|must\sbe|has\sto\sbe|seems|looks)\s(?:to\sbe\s)?(?:the\s)?(?:(?:correct|right|best)\s?)?(?:answer|option|choice|one)?)\W*$",
    re.IGNORECASE,
)
_WITH_LETTER = re.compile(
    r"(?P<text>.+?)[\s,\"'.:-]*(?:(?:which|this|that)\s(?:is|corresponds\sto|matches)\s|i\.e\.,?\s|so\s)?"
    r"(?:the\s)?(?:answer\s)?(?:option|choice|answer|letter)?\s*[(\[]?(?P<label>[A-Z])[)\]]?[\s.]*",
    re.DOTALL,
)


def in_sentence(prediction: str, options: AnswerOptions) -> int | None:
    """The option that a short sentence settles on by marked letter or by its text; None if on none, or on several."""
    if len(prediction) > _LONGEST:
        return None
    with_letter = _WITH_LETTER.fullmatch(prediction.strip())
    if with_letter is not None:
        index = options.index(with_letter["label"])
        if index is not None and (
            options.exact(with_letter["text"]) == index or options.by_value(with_letter["text"]) == index
        ):
            return index
    if set(options.words) == {"yes", "no"}:
        return _yes_or_no(prediction, options)
    said = _either(prediction, options)
    if said is not None:
        return said
    denied = _FIRST_NOT.match(prediction) or _RULED_OUT.match(prediction)
    if denied is not None:
        prediction = prediction[denied.end() :]
    prediction = _THEN_NOT.sub("", prediction)
    lettered = _chosen_letters(prediction, options)
    if lettered and len(lettered) == 1:
        prediction = _BECAUSE.split(prediction)[0]  # a reason may deny the others
    found = options.mentioned(prediction) | (lettered or set())
    rest = options.without_texts(prediction)
    touched = found | options.mentioned_by_text(prediction, alone=False)
    if not found or len({options.words[index] or str(index) for index in touched}) != 1 or _DENIED.search(rest):
        return None
    return min(found)


def _yes_or_no(prediction: str, options: AnswerOptions) -> int | None:
    """What a sentence asserts, unless it settles on the letter of the other option."""
    meant = asserts(prediction)
    spoken = None if meant is None else options.words.index("yes" if meant else "no")
    lettered = _chosen_letters(prediction, options) or options.mentioned(prediction)
    if spoken is None:
        return (
            lettered.pop() if len(lettered) == 1 and DOUBT.search(options.without_texts(prediction)) is None else None
        )
    chosen = _chosen_letters(prediction, options)
    return spoken if chosen is None or chosen == {spoken} else None


def _either(prediction: str, options: AnswerOptions) -> int | None:
    """Yes or no beside further options, if one of them is asserted and no other option is named."""
    meant = asserts(prediction)
    word = "yes" if meant else "no"
    if meant is None or not {"yes", "no"} <= set(options.words):
        return None
    index = options.words.index(word)
    return index if options.mentioned(prediction) <= options.doubles(index) else None


def _chosen_letters(prediction: str, options: AnswerOptions) -> set[int] | None:
    """The options whose letters stand where a sentence settles on one."""
    spots = list(_CHOSEN_LETTER.finditer(prediction))
    found = {options.index(spot["label"] or spot["small"]) for spot in spots}
    further = [_FURTHER.match(prediction, spot.end()) for spot in spots]
    found |= {options.index(other["label"]) for other in further if other is not None}
    is_it = _IS_IT.match(prediction.strip())
    found |= {options.index(is_it["label"])} if is_it else set()
    known = {index for index in found if index is not None}
    return known or None
