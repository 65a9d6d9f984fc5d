"""Find the option on which a short sentence settles: "It is C", "not A, it is C", "es handelt sich um einen Vogel".

Sentences that deny or hedge, or name several options, settle on none. Of several clauses the one counts that says again
what the question asks.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from saccade.grading.languages import (
    AND,
    BECAUSE,
    CONTRAST,
    DENIAL,
    DOUBT,
    INSTEAD,
    NOT_THE_OTHER,
    is_english,
    without_seeming,
    written_in,
)
from saccade.grading.letters import SAID_WRONG
from saccade.grading.options import UNSPACED, AnswerOptions
from saccade.grading.restated import denies, fills_in, sentences, topic_of
from saccade.grading.text import VERB_LAST, bare, statements
from saccade.grading.yes_no import asserts

_TO_ME = re.compile(r"\sto\sme(?=\W*\Z)")

LONGEST: Final = 400
"""Signs of a sentence beyond which it is not read."""
_DENIED = re.compile(
    DOUBT.pattern
    + r"|\bor\b|\bfrom\s[a-z]\sto\b|\b(?:(?:all|any(?:one|body|thing)?|every(?:one|body|thing)|each|either)"
    r"\s(?:of\sthem\s)?but|other than|rather than|excluding|opposite"
    r"|rul(?:ed?|es|ing) out|eliminated?|excluded?|rejected?|trap|tempting|distractor)\b",
    re.IGNORECASE,
)
_FIRST_NOT = re.compile(
    r"^(?:(?:it|that|this)(?:'s|\sis)\s)?not\s+(?:option\s|choice\s)?(?P<denied>[^,;.]{1,60}?)\s*[,;.]?\s*"
    r"(?=(?:but|it\sis|it's|so|rather|instead)\b)",
    re.IGNORECASE,
)
THEN_NOT = re.compile(
    rf"(?:,\s?(?:(?:and|but|und|et|y|e|а|a|en|och|og)\s)?|\s(?:and|und|et|y|e|и|а|en|och|og)\s)(?:{NOT_THE_OTHER})[^,;.]{{1,60}}(?=\W*$|,\s)"
    r"|,?\s(?:rather\sthan|instead\sof|as\sopposed\sto|and\snot)\s[^;.]{1,120}\W*$",
    re.IGNORECASE,
)
_FORMERLY = re.compile(
    r"^[^.;]*?\b(?:used\sto\sbe|was\s(?:once|formerly))\b[^;,.]*[;,]\s(?=(?:but\s|and\s)?(?:it\sis\snow|now))", re.I
)
_RULED_OUT = re.compile(
    r"^(?:it\s(?:can't|cannot|can\snot)\sbe\s(?:option\s)?[^,;.]{1,60}(?=[,;])|(?:since|as|because)\s(?:options?\s)?"
    r"(?-i:[A-Z])(?:(?:,\s|,?\sand\s|,?\sor\s)(?-i:[A-Z]))*\s(?:is|are)\s(?:all\s|both\s)?"
    r"(?:wrong|incorrect|false|ruled\sout|eliminated|impossible))[,;]?\s(?=\S)",
    re.IGNORECASE,
)
_REMAINS = re.compile(
    r"\b(?:only\s(?:one\s)?(?:option|choice|answer|one)\s(?:that\s)?(?:remains|remaining|left)(?:\sis)?|(?:leaves|leaving)(?:\sonly)?"
    r"|(?P<firm>(?:(?:that|this|which)\s(?:only\s)?leaves|[,;]\s(?:thus\s)?leaving)(?:\sus)?(?:\swith)?(?:\s(?:only|just))?"
    r"|(?:bleibt|bleiben|quedan?|restent?|rimane|rimangono|resta|оста[её]тся|blijft|pozostaje|zostaje|còn\slại|tersisa)(?:\s(?:nur|só|sólo|solo|apenas|que|solamente|только|alleen|tylko))?(?:\s(?:die|la|le|a|o|option|opción))*))"
    r"\s?:?\s(?:option\s)?(?:[(]?(?-i:(?P<label>[A-Z]))[)]?|(?(firm)(?P<said>[^.,;:!?()\n]{2,80}?)|(?!)))\W*$",
    re.IGNORECASE,
)
_CHOSEN_LETTER = re.compile(
    r"(?:^(?:[=-]>|→|⇒|∴)?|'s\b|\b(?:is|be|like|final|result|conclusion|so|thus|hence|therefore|choose|chose|pick|select|say|with|for|option|choice|answer|letter|but|to|case|doubt)\b)"
    r"[,:\s]*(?:option\s|choice\s|letter\s|answer\s)?(?:[(\[\"']?(?-i:(?P<label>[A-Z]))[)\]\"']?|\((?P<small>[a-z])\))"
    r"(?=\s*(?:[.,;:!]|$|\s(?:because|since|as|which)\b))",
    re.IGNORECASE,
)
_ENDS_IN_LETTER = re.compile(
    r"(?!.*\b(?:trap|tempting|distractor|worst|least|odd|opposite)\b)(?:\A(?:so|therefore|thus|hence|следовательно|значит|поэтому|итак|таким\sобразом|donc|also|somit|folglich|por\s(?:lo\s)?tanto|portanto|logo|quindi|dunque"
    r"|zatem|więc|dus|jadi|vậy|maka|tehát|altså|alltså|takže|deci|άρα|לכן|إذن|لذلك|بنابراین)\b(?:(?!(?-i:[A-Z])(?![^\W\d_])).)*[\s(]|\A(?:(?!(?-i:[A-Z])(?![^\W\d_])).)*(?::|->|→)\s?[(\[]?)"
    r"(?-i:(?P<label>[A-Z]))[)\]]?\W*",
    re.IGNORECASE | re.DOTALL,
)
"""A conclusion that ends in a letter: "Следовательно, ближе точка B", "so the current falls: B"."""
_FURTHER = re.compile(r"\s*[,/&+]\s*(?:and\s|or\s)?[(\[]?(?P<label>[A-Z])(?![\w'])")
_BECAUSE = re.compile(r"[,.]?\s(?:because|since)\s", re.IGNORECASE)
_REASON = re.compile(r"[,.]?\s(?:because|since)\s|(?<=[A-Za-z][)]):\s", re.IGNORECASE)
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
    """Return the single option that a short sentence settles on, by marked letter or by text, or None."""
    if len(prediction) > LONGEST:
        return None
    with_letter = None if COMPARES.match(prediction) else _WITH_LETTER.fullmatch(prediction.strip())
    if with_letter is not None:
        index = options.index(with_letter["label"])
        if index is not None and (
            options.exact(with_letter["text"]) == index or options.by_value(with_letter["text"]) == index
        ):
            return index
    if (polar := _polar(options.words)) is not None:
        return _yes_or_no(prediction, options, polar)
    prediction = without_seeming(_TO_ME.sub("", prediction))
    prediction = _without_ruled_out(prediction, options)
    said = _either(prediction, options)
    for read in (_undecided, _not_but, _left_out):
        said = read(prediction, options) if said is None else said
    if said is not None:
        return said
    remains = _REMAINS.search(prediction)
    if remains is not None and DENIAL.search(prediction) is None:
        left = options.index(remains["label"]) if remains["label"] else options.named(remains["said"])
        if left is not None or remains["label"]:
            return left
    denied = _FIRST_NOT.match(prediction) or _RULED_OUT.match(prediction) or _FORMERLY.match(prediction)
    if denied is not None:
        prediction = prediction[denied.end() :]
    prediction = THEN_NOT.sub("", prediction)
    lettered = _chosen_letters(prediction, options)
    mentioned = options.mentioned(_BECAUSE.split(prediction)[0] if lettered and len(lettered) == 1 else prediction)
    found = mentioned | (lettered or set())
    if lettered and len(lettered) == 1 and TAKEN_BACK.search(prediction) is None:
        prediction = _REASON.split(prediction)[0]  # a reason may deny the others
    rest = options.without_texts(prediction)
    touched = found | options.mentioned_by_text(prediction, alone=False)
    if _DENIED.search(rest) is not None:
        return None
    if found and len({options.words[index] or str(index) for index in touched}) == 1:
        return min(found)
    stated = _stated(prediction, options)
    restated = options_restated(prediction, options) if stated is None else None
    alone = restated is not None and len(restated) == 1 and touched <= options.doubles(min(restated))
    if restated and alone:
        return min(restated)
    if stated is None:
        stated = _of_what_is_asked(prediction, options)
    return _last_letter(prediction, options) if stated is None else stated


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
        index = options.index(alone[0]) if alone else options.named(_LEADS.sub("", said))
        if index is None or not others or others & options.doubles(index):
            continue
        denied = _NOT_FIRST.search(head if spot["but"] else prediction[: spot.end()])
        open_ = DOUBT.search(options.without_texts(rest)) or options.mentioned_by_text(rest) - {index}
        return None if denied is None or _ONLY.search(head) or _HEDGES.search(head) or open_ else index
    return None


_BUT = re.compile(
    rf"(?P<but>,?\s?(?:{INSTEAD}),?\s?)|(?:では|でも|じゃ)なく(?:て)?,?\s?|[이가도]?\s?아니(?:라|고),?\s|(?<!\w)değil(?:dir)?,?\s",
    re.IGNORECASE,
)
_NOT_FIRST = re.compile(
    r"(?<!\w)(?:(?:is|was|are)?n't|not|neither|nor|nicht|keine?[nmrs]?|weder|ni|pas|no|non|né|não|nem|не|ни|не\sє|ні|nie|ani|niet|geen|noch|inte|varken|ej"
    r"|ikke|hverken|ei|eikä|nem|sem|není|ne|nu|nici|δεν|ούτε|όχι|לא|không|bukan|tidak|si|hindi|değil(?:dir)?|ليس|ليست|لا|نه|نیست|نہیں|नहीं|নয়|না)(?!\w)"
    r"|不是|并非|並非|なく|아니|ไม่ใช่",
    re.IGNORECASE,
)
_ONLY = re.compile(
    r"(?<!\w)(?:only|just|merely|nur|bloß|lediglich|solo|sólo|solamente|únicamente|seulement|uniquement|apenas|somente|soltanto|solamente|только|лишь"
    r"|тільки|лише|tylko|jedynie|alleen|slechts|bara|endast|kun|csak|vain|ainoastaan|jen|pouze|doar|numai|μόνο|רק|sadece|yalnızca|chỉ|hanya|فقط"
    r"|केवल|सिर्फ|শুধু)(?!\w)|[只仅僅]|だけ|のみ|만\s?아니",
    re.IGNORECASE,
)
_HEDGES = re.compile(
    r"\b(?:sure|certain|clear|know|if|may|would|seems?|appears\sto|looks|scheint|parece|semble|sembra|кажется|sicher|seguro|sûr|certo|уверен)\b|确定|清楚",
    re.IGNORECASE,
)
_LEADS = re.compile(
    r"\A(?:it's|it\sis|is|actually|es\sist|es|ist|um|c'est|plutôt|d'|des?|du|de\sla|è|é|di|это|є|jest|to|het\sis|een|det\sär|är|det\ser|er|on|egy|az?|je|este|είναι"
    r"|the|of|from|in|im|em|en|na|no|dem|den|der|einem?r?n?)\s(?=\S)|\Ad'",
    re.IGNORECASE,
)
_LONE = re.compile(r"(?<![^\W_])[A-Z](?![^\W_])")


def _left_out(prediction: str, options: AnswerOptions) -> int | None:
    """Return the option of which a sentence denies what the question does: "Blue does not appear".

    Other sentences may say it of the others, but of none what would turn that round.
    """
    if not denies(options.question):
        return None
    parts = sentences(prediction)
    denying = [part for part in parts if denies(part)]
    if len(denying) != 1:
        return None
    named = options.mentioned_by_text(denying[0], alone=False)
    others = options.mentioned_by_text(" ".join(part for part in parts if part not in denying), alone=False)
    behind = THEN_NOT.search(denying[0]) or _BUT_NOT.search(denying[0])
    if behind is not None and not denies(denying[0][: behind.start()]):
        last = options.mentioned_by_text(behind[0], alone=False)
        goes_through = len(named) == len(options.texts) and topic_of(denying[0], options.question)
        return min(last) if goes_through and len(last) == len(parts) == 1 else None
    if any(SETTLES.search(part) or _HEDGES.search(part) for part in parts):
        return None
    filled = [index for index, text in enumerate(options.texts) if fills_in(denying[0], text, options.question)]
    return filled[0] if len(filled) == 1 and named == {filled[0]} and not others & named else None


_BUT_NOT = re.compile(rf"(?:,\s?|\s)(?:{INSTEAD})\s(?:{NOT_THE_OTHER})[^,;.]{{1,60}}\W*$", re.IGNORECASE)


def _of_what_is_asked(prediction: str, options: AnswerOptions) -> int | None:
    """Return the option of the clause that repeats all of the question that the others do, and more of it.

    "The x-axis shows A and the y-axis shows B", "Oslo lies farthest north. Bergen lies farther south".
    """
    question = _SIGNED.sub(r"\1\1\1 ", options.question)
    clauses = [part for one in _CLAUSES.split(prediction) for part in _AND_THE.split(one)]
    concludes = any(found[0].casefold() not in question.casefold() for found in SETTLES.finditer(prediction))
    if not 1 < len(clauses) <= 6 or concludes or _HEDGES.search(prediction) or denies(question):
        return None
    told: list[tuple[set[int], frozenset[str], bool]] = []
    for clause in clauses:
        named = options.mentioned_by_text(clause, alone=False) | options.mentioned(clause)
        topic = topic_of(_SIGNED.sub(r"\1\1\1 ", options.without_texts(clause)), question)
        told += [(named, topic, speaks_of_less(clause, options))] if named else []
    best = max((topic for _, topic, _ in told), key=len, default=frozenset[str]())
    said = [named for named, topic, _ in told if topic == best]
    others = [one for one in told if one[1] != best]
    asked = topic_of(question, question)
    if not others or len(said) != 1 or len(said[0]) != 1 or 2 * len(best) < len(asked) or len(best) < 2:
        return None
    if any(named & said[0] or not (less or topic) or not topic < best for named, topic, less in others):
        return None
    return min(said[0])


_AND_THE = re.compile(
    r",?\s(?:and|und|et|y|e|en|och|og|i|и)\s(?=(?:the|der|die|das|den|le|la|les|el|los|las|il|lo|gli|o|a|os|as|de|het|im|in|auf|en|à|на|в|på|w|na)\s|l')",
    re.IGNORECASE,
)
_SIGNED = re.compile(r"(?<![^\W_])([xyz])-(?=[^\W\d_])", re.IGNORECASE)


def _without_ruled_out(text: str, options: AnswerOptions) -> str:
    """Drop what rules other options out at the end of a sentence that has settled: "是齐白石,可以排除B"."""
    found = _RULES_OUT.fullmatch(text)
    if found is None or re.search(r"[^\W\d_]{2,}", options.without_texts(found["others"])):
        return text
    named = re.findall(r"(?<![A-Za-z])[A-Z](?![A-Za-z])", found["others"])
    others = {index for name in named if (index := options.index(name)) is not None}
    others |= options.mentioned_by_text(found["others"], alone=False)
    for spot in reversed(list(re.finditer(r"[,;.]", found["head"]))):
        head = found["head"][: spot.start()]
        meant = options.mentioned_by_text(head, alone=False) | options.mentioned(head)
        if meant and others and not meant & others:
            return text if REJECTS.search(options.without_texts(head)) else head
    return text


_RULES_OUT = re.compile(
    r"(?P<head>.+)(?:排除|\b(?:rul(?:es?|ing)\sout|eliminat(?:es?|ing)|exclud(?:es?|ing)|descarta|exclut?|исключа\w+))"
    r"\s?(?:选项|options?\s)?(?P<others>[^;.]{1,60})\W*",
    re.IGNORECASE,
)


def _last_letter(prediction: str, options: AnswerOptions) -> int | None:
    """Return the option whose letter, the only one, ends a short sentence of another language: "Sin duda, la B"."""
    found = _LAST_LETTER.fullmatch(prediction.strip())
    if found is None or len(found["lead"].split()) > 8 or is_english(found["lead"]) or SAID_WRONG.search(found["lead"]):
        return None
    lone = re.compile(r"(?<![^\W_])[A-Z](?![^\W_])")
    known = any(lone.search(text) for text in (found["lead"], options.question, *options.plains))
    index = options.index(found["label"])
    others = options.mentioned_by_text(prediction, alone=False) - ({index} if index is not None else set())
    return None if known or others or DOUBT.search(prediction) else index


_LAST_LETTER = re.compile(r"(?P<lead>[^.;!?]{2,80}\s)[(]?(?P<label>[A-Z])[)]?\W*")


def _stated(prediction: str, options: AnswerOptions) -> int | None:
    """Return the one option that a sentence states, whole or at its end: "es handelt sich um einen Vogel (B)"."""
    said = _BECAUSE_THERE.split(prediction.strip(), maxsplit=1)[0]
    fits = _FITS.fullmatch(said)
    stated = [part for one in statements(said) for part in (one, re.split(r"[,;(]\s", one)[0])]
    found = [options.named(one) for one in (*stated, *([fits["said"]] if fits else ()))]
    meant = {index for index in found if index is not None}
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


_FITS = re.compile(
    r"(?P<said>[^,;:]{1,80}?)\s(?:(?:best\s)?(?:matches|fits|completes|illustrates)|corresponds|is\s(?:the\s)?(?:correct|right|best))\b[^,;:]*",
    re.I,
)
_BECAUSE_THERE = re.compile(rf"(?:,\s?|\s?(?=[^\x00-\x7f]))(?:{BECAUSE})|,?\s(?:because|since)\s", re.IGNORECASE)
IN_BRACKETS = re.compile(r"[(\[]\s?(?:[^\W\d_]+\s)?([A-Z])\s?[)\]]")


@lru_cache
def _polar(words: tuple[str, ...]) -> dict[bool, int] | None:
    """Return where yes (true) and no stand among two options that are nothing else, in any language."""
    said = [asserts(word) for word in words]
    return {bool(one): said.index(one) for one in said} if sorted(map(str, said)) == ["False", "True"] else None


def _yes_or_no(prediction: str, options: AnswerOptions, polar: dict[bool, int]) -> int | None:
    """Return the asserted option, unless the sentence settles on the other one's letter."""
    meant = asserts(prediction)
    spoken = None if meant is None else polar[meant]
    lettered = _chosen_letters(prediction, options) or options.mentioned(prediction)
    if spoken is None:
        doubtful = DOUBT.search(options.without_texts(prediction)) is not None
        return None if doubtful else lettered.pop() if len(lettered) == 1 else _stated(prediction, options)
    chosen = _chosen_letters(prediction, options)
    return spoken if chosen is None or chosen == {spoken} else None


def _either(prediction: str, options: AnswerOptions) -> int | None:
    """Return an asserted yes or no among further options, if no other option is named."""
    meant = asserts(prediction)
    word = "yes" if meant else "no"
    if meant is None or not {"yes", "no"} <= set(options.words):
        return None
    index = options.words.index(word)
    return index if options.mentioned(prediction) <= options.doubles(index) else None


def _undecided(prediction: str, options: AnswerOptions) -> int | None:
    """Return the option that says itself that there is no answer ("Cannot be determined"), if a sentence begins so."""
    for index, words in enumerate(options.words):
        begins = re.match(
            rf"(?:it|this|that|the answer)\s(?:is\s)?{re.escape(words)}\b(?P<rest>[^.;]*)[.]?$", bare(prediction)
        )
        if (
            begins
            and " " in words
            and DENIAL.search(words)
            and not re.search(r"\b(?:but|however|so)\b", begins["rest"])
        ):
            return None if _chosen_letters(prediction, options) else index
    return None


def _chosen_letters(prediction: str, options: AnswerOptions) -> set[int] | None:
    """Return the options whose letters occur where a sentence settles on one."""
    spots = list(_CHOSEN_LETTER.finditer(prediction))
    found = {options.index(spot["label"] or spot["small"]) for spot in spots}
    further = [_FURTHER.match(prediction, spot.end()) for spot in spots]
    found |= {options.index(other["label"]) for other in further if other is not None}
    is_it = _IS_IT.match(prediction.strip())
    found |= {options.index(is_it["label"])} if is_it else set()
    at_end = _ENDS_IN_LETTER.fullmatch(prediction.strip())
    found |= {options.index(at_end["label"])} if at_end else set()
    known = {index for index in found if index is not None}
    return known or None


_CLAUSES = re.compile(rf"[.;!?]\s+|\n+|(?={CONTRAST}|(?:,\s?|\s)(?:{NOT_THE_OTHER}))", re.IGNORECASE)
_OPPOSITE = re.compile(
    r"\b(?:below|under|less|fewer|smaller|lower|outside|unter|weniger|kleiner|menos|menor|debajo|moins|sous|meno|sotto|меньше|ниже|под|other)"
    r"|[低小少下]",
    re.IGNORECASE,
)
_RUN_IN_BRACKETS = re.compile(rf"[(\[]\s?([A-Z](?:{AND}[A-Z]){{0,8}})\s?[)\]]")


def options_restated(plain: str, options: AnswerOptions) -> frozenset[int] | None:
    """Return the options that the clause names in brackets or by their texts which says again what the question asks.

    The other clauses are on other options, and repeat less of the question; a clause that denies, or speaks of less
    where the question does not, says nothing.
    """
    if len(plain) > 2_000:
        return None
    asked = stems(options.without_texts(options.question))
    told: dict[int, list[frozenset[int]]] = {}
    for clause in _CLAUSES.split(plain):
        lettered = {
            options.index(name) for run in _RUN_IN_BRACKETS.findall(clause) for name in re.findall("[A-Z]", run)
        }
        named = frozenset(index for index in lettered if index is not None) or frozenset(
            options.mentioned_by_text(clause, alone=not written_in(clause) and clause.isascii())
        )
        rest = options.without_texts(clause)
        if named and not (DOUBT.search(rest) or SAID_WRONG.search(rest) or speaks_of_less(rest, options)):
            told.setdefault(len(asked & stems(rest)), []).append(named)
    best = max(told, default=0)
    if best < min(2, len(asked)) or best < 1 or len(told[best]) != 1:
        return None
    others = frozenset[int]().union(*(named for score in told if score < best for named in told[score]))
    single = len(told[best][0]) == 1
    if others & told[best][0] or (single and (others or 5 * best < 3 * len(asked))):
        return None
    return told[best][0]


def speaks_of_less(text: str, options: AnswerOptions) -> bool:
    """Tell whether a text speaks of what is less, lower or other, and the question does not."""
    return _OPPOSITE.search(text) is not None and _OPPOSITE.search(options.question) is None


def stems(text: str) -> frozenset[str]:
    """Return the beginnings of the words of a text, and the pairs of signs where none are divided."""
    words = [word for word in re.findall(r"[^\W\d_]+", text.casefold()) if len(word) > 3]
    pairs = [run[at : at + 2] for run in re.findall(rf"{UNSPACED.pattern}+", text) for at in range(len(run) - 1)]
    return frozenset([*(word[:5] for word in words), *pairs]) - _ASKS


_ASKS: Final = frozenset(
    "which these what welch welk qual quel quale cuál quels quell cuále какие котор state corre aussa".split()  # noqa: SIM905
)
"""Beginnings of words that ask for options without saying anything of them."""


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
