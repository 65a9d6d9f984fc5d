"""Grade multiple choice by letter, text or value, or by several that agree; also where several options are right.

Letters follow the task's order of choices, from `A`; beyond 26 choices they are numbers from 1. A letter counts if it
is the whole answer, is marked ("(B)", "B.", "b)", "option B"), or follows "the answer is" or "it is"; never inside a
word, and never as the article "a". A bare letter means its option, even if another option's text is that letter. An
answer that names several options, takes one back, or gives a letter with another option's text is wrong. Where several
options are right, an answer is the set of those that it names. Letters of other scripts count if the options have them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from saccade.grading.base import Verdict, gold_of, judged, right, unread, unreadable, wrong
from saccade.grading.clean import LONGEST_ANSWER, clean
from saccade.grading.extract import in_final_part, without_question
from saccade.grading.languages import (
    AND,
    BECAUSE,
    CONTRAST,
    DENIAL,
    DENIES,
    DOUBT,
    NOT_THE_OTHER,
    asks_what_is_false,
    in_what_is_asked,
    is_english,
    without_seeming,
    written_in,
)
from saccade.grading.letters import (
    SAID_WRONG,
    label_abroad,
    labels_said,
    may_label,
    parts_said,
)
from saccade.grading.options import UNSPACED, AnswerOptions, label, options_of
from saccade.grading.text import (
    VERB_LAST,
    bare,
    statements,
    without_article,
)
from saccade.grading.yes_no import asserts
from saccade.record.task import Task

_TO_ME = re.compile(r"\sto\sme(?=\W*\Z)")


# Sentences settle on one option: "It is C", "not A, it is C"; those that deny, hedge, or name several on none.

_LONGEST = 400
_LONGEST_SET = 2_000
_DENIED = re.compile(
    DOUBT.pattern
    + r"|\bor\b|\bfrom\s[a-z]\sto\b|\b(?:(?:all|any|anything|everything) but|other than|rather than|excluding|opposite"
    r"|rul(?:ed?|es|ing) out|eliminated?|excluded?|rejected?|trap|tempting|distractor)\b",
    re.IGNORECASE,
)
_FIRST_NOT = re.compile(
    r"^(?:(?:it|that|this)(?:'s|\sis)\s)?not\s+(?:option\s|choice\s)?(?P<denied>[^,;.]{1,60}?)\s*[,;.]?\s*"
    r"(?=(?:but|it\sis|it's|so|rather|instead)\b)",
    re.IGNORECASE,
)
_THEN_NOT = re.compile(
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
# "A and C are correct; B and D are not", "All of the above are correct: A, B, C and D", "only B"
_OTHERS_DENIED = re.compile(
    r"[,;.]\s(?:and\s|but\s|while\s|whereas\s)?(?:options?\s|choices?\s)?(?-i:[A-Z](?:(?:,\s|,?\s(?:and|&)\s)[A-Z])*)"
    r"\s(?:is|are)\s(?:both\s|all\s)?(?:incorrect|wrong|false|not(?:\s(?:correct|right|true))?)\W*$",
    re.IGNORECASE,
)
_ALL_SAID = re.compile(
    r"^only\s|^all\s(?:of\s)?(?:the\s(?:above|options|choices)|these|them)(?:\sare\s(?:correct|right|true))?:\s",
    re.IGNORECASE,
)
_REMAINS = re.compile(
    r"\b(?:only\s(?:one\s)?(?:option|choice|answer|one)\s(?:that\s)?(?:remains|remaining|left)(?:\sis)?|(?:leaves|leaving)(?:\sonly)?"
    r"|(?:bleibt|queda|reste|rimane|resta|оста[её]тся|blijft|pozostaje|zostaje|còn\slại|tersisa)(?:\s(?:nur|só|sólo|solo|apenas|que|solamente|только|alleen|tylko))?(?:\s(?:die|la|le|a|o|option|opción))*)"
    r"\s?:?\s(?:option\s)?[(]?(?-i:(?P<label>[A-Z]))[)]?\W*$",
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
    if len(prediction) > _LONGEST:
        return None
    with_letter = None if _COMPARES.match(prediction) else _WITH_LETTER.fullmatch(prediction.strip())
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
    if said is None:
        said = _undecided(prediction, options)
    if said is not None:
        return said
    remains = _REMAINS.search(prediction)
    if remains is not None and DENIAL.search(prediction) is None:
        return options.index(remains["label"])
    denied = _FIRST_NOT.match(prediction) or _RULED_OUT.match(prediction) or _FORMERLY.match(prediction)
    if denied is not None:
        prediction = prediction[denied.end() :]
    prediction = _THEN_NOT.sub("", prediction)
    lettered = _chosen_letters(prediction, options)
    mentioned = options.mentioned(_BECAUSE.split(prediction)[0] if lettered and len(lettered) == 1 else prediction)
    found = mentioned | (lettered or set())
    if lettered and len(lettered) == 1 and _TAKEN_BACK.search(prediction) is None:
        prediction = _REASON.split(prediction)[0]  # a reason may deny the others
    rest = options.without_texts(prediction)
    touched = found | options.mentioned_by_text(prediction, alone=False)
    if _DENIED.search(rest) is not None:
        return None
    if found and len({options.words[index] or str(index) for index in touched}) == 1:
        return min(found)
    stated = _stated(prediction, options)
    restated = _restated(prediction, options) if stated is None else None
    alone = restated is not None and len(restated) == 1 and touched <= options.doubles(min(restated))
    return min(restated) if restated and alone else _last_letter(prediction, options) if stated is None else stated


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
            return text if _REJECTS.search(options.without_texts(head)) else head
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
    in_brackets = [options.index(spot[1]) for spot in _IN_BRACKETS.finditer(prediction)]
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
_IN_BRACKETS = re.compile(r"[(\[]\s?(?:[^\W\d_]+\s)?([A-Z])\s?[)\]]")


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


_LABEL = r"(?P<{0}>[A-Za-z]|[0-9]{{1,3}})"
_MARKED = re.compile(
    r"(?:the\s)?(?:(?:option|choice|answer|letter|statement)\s*:?\s*)?(?:"
    rf"[(\[<{{]\s?{_LABEL.format('bracketed')}\s?[)\]>}}]|{_LABEL.format('stopped')}\s?(?:[.):]|-\s|\n))"
    r"\s*(?:[:.)]|-(?=\s))?\s*(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_NAMED = re.compile(
    rf"(?:the\s)?(?:option|choice|letter|figure|image|picture|diagram|graph|panel)\s+{_LABEL.format('label')}(?P<rest>(?:[\s,.;:].*)?)",
    re.I | re.S,
)
_CAPITAL = re.compile(r"(?P<label>[A-Z])(?P<rest>(?:[,;?/&の]|\s?\(|\s).*)", re.DOTALL)
_EXPLAINS = re.compile(
    r"[,;]\s|[\s-]*(?:\(|and\snot\b"
    r"|(?:rather|instead)\s(?:than|of)\b|because|since|as\b|for\b|due to|is\b|which|where|with\b|-)",
    re.IGNORECASE,
)
_JOINED = re.compile(
    r"[\s,;.)]*(?:(?:or|and(?!\s(?:not|neither)\b)|and/or|to|as well as|nor)\b|[/&?+]|[(\[]\s?or\b)"
    r"|[\s,;.]*(?:(?:か|または|もしくは|或者?|还是|還是|또는|혹은|oder|ou|o|или|або|чи|lub|albo|czy|eller|tai|vagy|veya|atau|hay|hoặc|of|nebo"
    r"|sau|ή|או|أو|या)\s?)?[(\[]?(?-i:[A-Z])[)\]]?(?![\w'^_*/(=+-])",
    re.IGNORECASE,
)
# "A" and "I" are words too; these follow them as letters.
_IS_SUBJECT = re.compile(r"(?!(?:is|was|fits|works|matches|as)\b)[a-z]{2,}s\s(?=\S)")  # "(B) confuses the two"
_AFTER_A_LETTER = re.compile(r"\s(?:(?:is|was|would|could|-)\s|\(|because|since|or\b|and\b)")
_TAKEN_BACK = re.compile(
    r"^[\s,;.:-]*(?:(?:is|was|are|isn't|can|can't|cannot|has|have|had|seems?|looks?|must|would|could|should|might|may)\b"
    r"[^.;,\n]{0,30}\b(?:wrong|incorrect|false|not|ruled|out|unlikely|worst|least|im(?:possible|plausible|probable)|doubtful|dubious|absurd"
    r"|questionable|mistaken?|excluded|eliminated)\b|(?:isn't|can't|cannot)\b)"
    r"|\b(?:no,|no wait|wait\b|actually,|sorry|scratch that|on second thought|i mean|correction|my mistake"
    r"|not (?:sure|certain|confident)|unsure|uncertain)"
    r"|^[\s,;.:-]*(?:actually|maybe|perhaps|possibly|probably|might"
    r"|but (?:maybe|perhaps|it (?:could|might)|i could))\b|\?\s*$",
    re.IGNORECASE,
)
_DENIED_AT_ONCE = re.compile(rf"\s?(?!{BECAUSE})(?:[^\s.,;:]{{1,8}}\s?)?(?:{DENIES})", re.IGNORECASE)  # "B ist falsch"
_OWN_AGAIN = re.compile(r"[\s,;.]*[(\[]?(?P<label>[A-Z])[)\]]?(?![\w'])")  # "B. B"
_NO_ANSWER = "taken back"
_REJECTS = re.compile(
    DOUBT.pattern
    + r"|\b(?:too|less|rather|unlike|while|whereas|other|others|only|fails?|lacks?|eliminated?|rules?d? out|"
    r"distractors?|contradicts?|opposite|excluded?|does|larger|smaller|more|greater|worse|would|compared?|than)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[.;\n]\s*|,\s+(?=but\b|while\b|whereas\b|and\b)")


@dataclass(frozen=True, slots=True)
class ChoiceGrader:
    """Multiple choice, by the letters or texts of the task's choices."""

    partial: Literal["none", "share", "jaccard"] = "none"
    """What an answer earns that misses some of several right options. `share`: the share that it names, nothing if it
    names a wrong one. `jaccard`: those it shares with the gold answer, by all that either names."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Return the verdict; see `Grader.grade`."""
        gold_of(task)
        golds = task.right_choices
        if not golds:
            raise unreadable(task, "choice of it")
        options = options_of(task.choices, task.question)
        answer = None if answer is None else _circled_as_letters(answer, task)
        if answer is not None and len(answer) <= LONGEST_ANSWER and asks_what_is_false(task.question, task.choices):
            ticked = _ticked(clean(answer), options)
            answer = in_what_is_asked(answer, task.question, task.choices) if ticked is None else answer
        if len(golds) > 1:
            return self._grade_set(answer, task, frozenset(map(task.choices.index, golds)), options)
        gold = golds[0]
        whole = None if answer is None else in_final_part(without_question(answer, task.question))
        if whole is not None and len(_ITEM_NUMBER.findall(whole)) > 1:
            answer = whole = _ITEM_NUMBER.sub("", whole)
        if whole is not None and (rest := _without_remarks(whole, options)) != whole:
            answer = whole = rest
        if whole is not None and _CROSSED_OUT.search(whole) and _LABEL_OF.search(rest := _CROSSED_OUT.sub("", whole)):
            answer = whole = rest.strip()
        if whole is not None and (rest := _without_list(whole, options)) != whole:
            answer = whole = rest
        ticked = None if whole is None else _ticked(whole, options)
        if ticked is not None and len(ticked) == 1:
            return _compare_choice(ticked[0], gold, options)
        return judged(
            answer,
            task,
            lambda prediction: _compare_choice(prediction, gold, options),
            lambda prediction: _said(prediction, options),
            prose=True,
        )

    def _grade_set(self, answer: str | None, task: Task, gold: frozenset[int], options: AnswerOptions) -> Verdict:
        def compare(prediction: str) -> Verdict:
            chosen = _read_set(prediction, options)
            if chosen is None:
                return unread("names no set of options", prediction)
            names = ", ".join(label(index, len(options.texts)) for index in sorted(chosen))
            credit = self._credit(chosen, gold)
            return Verdict(credit, f"options {names}", prediction)

        whole = None if answer is None else in_final_part(without_question(answer, task.question))
        *working, last = ("" if whole is None else whole).strip().split("\n")
        said = "\n".join(working).rstrip()
        concludes = _LETTERS_SAID.search(last) and _SAYS_MORE.search(last) and not _ITEM.match(last)
        closing = last if said and concludes and _ticked(whole or "", options) is None else None
        for part in (closing, whole):
            if part is not None and _read_set(part, options) is not None:
                return compare(part)
        if whole and _WRONG_LEAD.search(whole) and not SAID_WRONG.search(task.question):
            return unread("names options that are wrong", whole)
        if said.endswith((".", "!", "。")) and _LETTERS_ALONE.fullmatch(last) and not _LETTERS_SAID.search(said):
            return compare(last.strip(" *."))
        return judged(answer, task, compare, lambda prediction: _read_set(prediction, options), prose=True)

    def _credit(self, chosen: frozenset[int], gold: frozenset[int]) -> float:
        if self.partial == "none" or (self.partial == "share" and not chosen <= gold):
            return float(chosen == gold)
        return len(chosen & gold) / len(chosen | gold)


def _circled_as_letters(answer: str, task: Task) -> str:
    """Write ① as (A) and so on, as tests in Korean number options, unless the task has such numbers itself."""
    names = [f"({label(index, len(task.choices))})" for index in range(len(task.choices))]
    if any(map(_CIRCLED.search, (task.question, *task.choices))):
        return answer
    return answer.translate({ord("①") + index: name for index, name in enumerate(names[:10])})


_CIRCLED = re.compile("[①-⑩]")


def _without_list(text: str, options: AnswerOptions) -> str:
    """Drop the lines that go through all options in their order, if one follows that is none of them."""
    lines = [line for line in text.split("\n") if line.strip()]
    places = [options.index(found["label"]) if (found := _ITEM.match(line)) else None for line in lines]
    listed = [place for place in places if place is not None]
    goes_through = listed == list(range(len(options.texts))) and len(listed) > 2 and places[-1] is None
    return "\n".join(line for line, place in zip(lines, places, strict=True) if place is None) if goes_through else text


_ITEM = re.compile(r"[\s>*-]{0,6}[(\[]?(?P<label>[A-Z])(?:[)\]]|\*{0,2}[.:])[*\s]")
_LETTERS_ALONE = re.compile(r"[\s*]{0,4}[A-Z]{2,8}[\s*.]{0,4}")
_WRONG_LEAD = re.compile(
    rf"^(?-i:[^\nA-Z.,;!?]){{0,30}}(?:{SAID_WRONG.pattern})(?-i:[^\nA-Z.,;!?]){{0,15}}:?\s*\n\W{{0,9}}(?-i:[A-Z]{{1,8}})\W*\Z",
    re.I | re.M,
)
_LETTERS_SAID = re.compile(r"(?<![A-Za-z])[A-Z]{1,8}(?![A-Za-z])")
_SAYS_MORE = re.compile(r"[^\W\d_A-Z]{2}")


def _read_set(prediction: str, options: AnswerOptions) -> frozenset[int] | None:
    """Return the options that a prediction names as a set, or None."""
    ticked = _ticked(prediction, options)
    if ticked is not None:
        return frozenset(index for index in map(options.index, ticked) if index is not None) or None
    if len(prediction) > _LONGEST_SET:
        return None
    plain = _without_wrong(options.plain(_IN_NOTES.sub("", _ITEM_NUMBER.sub("", prediction))))
    told = _restated(plain, options)
    if told is not None and len(told) > 1:
        return told
    plain = _THEN_NOT.sub("", plain)
    but = _ALL_BUT.fullmatch(plain)
    if but is not None:
        left_out = {options.index(name) for name in labels_said(but["run"]) or ()}
        rest = frozenset(range(len(options.texts))) - left_out
        if left_out and None not in left_out and rest:
            return rest
    if options.own:
        parts = re.split(r"\s?[,;/&]\s?|\s(?:and|и|و)\s", plain)
        plain = ", ".join(options.plain(part) for part in parts)
    plain = _without_others(_with_labels_only(_ALL_SAID.sub("", _OTHERS_DENIED.sub("", plain)), options), options)
    named = labels_said(plain) if DOUBT.search(options.without_texts(plain)) is None else None
    if named is not None:
        found = [options.index(name) for name in named]
        return None if None in found else frozenset(index for index in found if index is not None)
    for way in () if _opposite(options.without_texts(plain), options) else parts_said(plain):
        chosen = [_read(part, options) for part in way[: len(options.texts) + 1]]
        if chosen and None not in chosen and len(set(chosen)) == len(chosen):
            return frozenset(index for index in chosen if index is not None)
    single = _read(prediction, options)
    return None if single is None else frozenset({single})


_IN_NOTES = re.compile(
    r"(?<=(?<![A-Za-z])[A-H])\s?\((?=[^()]*[^\W\d_]{2})[^()]{2,80}\)(?=\s?(?:,|;|\.|und\b|and\b|et\b|y\b|e\b|и\b|i\b|和|$))"
)
"""What a letter names, in brackets behind it: "A (12 June), B (Salle Molière)"."""
_CLAUSES = re.compile(rf"[.;!?]\s+|\n+|(?={CONTRAST}|(?:,\s?|\s)(?:{NOT_THE_OTHER}))", re.IGNORECASE)
_OPPOSITE = re.compile(
    r"\b(?:below|under|less|fewer|smaller|lower|outside|unter|weniger|kleiner|menos|menor|debajo|moins|sous|meno|sotto|меньше|ниже|под|other)"
    r"|[低小少下]",
    re.IGNORECASE,
)
_RUN_IN_BRACKETS = re.compile(rf"[(\[]\s?([A-Z](?:{AND}[A-Z]){{0,8}})\s?[)\]]")


def _restated(plain: str, options: AnswerOptions) -> frozenset[int] | None:
    """Return the options that the clause names in brackets or by their texts which says again what the question asks.

    The other clauses are on other options, and repeat less of the question; a clause that denies, or speaks of less
    where the question does not, says nothing.
    """
    if len(plain) > 2_000:
        return None
    asked = _stems(options.without_texts(options.question))
    told: dict[int, list[frozenset[int]]] = {}
    for clause in _CLAUSES.split(plain):
        lettered = {
            options.index(name) for run in _RUN_IN_BRACKETS.findall(clause) for name in re.findall("[A-Z]", run)
        }
        named = frozenset(index for index in lettered if index is not None) or frozenset(
            options.mentioned_by_text(clause, alone=not written_in(clause) and clause.isascii())
        )
        rest = options.without_texts(clause)
        if named and not (DOUBT.search(rest) or SAID_WRONG.search(rest) or _opposite(rest, options)):
            told.setdefault(len(asked & _stems(rest)), []).append(named)
    best = max(told, default=0)
    if best < min(2, len(asked)) or best < 1 or len(told[best]) != 1:
        return None
    others = frozenset[int]().union(*(named for score in told if score < best for named in told[score]))
    single = len(told[best][0]) == 1
    if others & told[best][0] or (single and (others or 5 * best < 3 * len(asked))):
        return None
    return told[best][0]


def _opposite(text: str, options: AnswerOptions) -> bool:
    return _OPPOSITE.search(text) is not None and _OPPOSITE.search(options.question) is None


def _stems(text: str) -> frozenset[str]:
    """Return the beginnings of the words of a text, and the pairs of signs where none are divided."""
    words = [word for word in re.findall(r"[^\W\d_]+", text.casefold()) if len(word) > 3]
    pairs = [run[at : at + 2] for run in re.findall(rf"{UNSPACED.pattern}+", text) for at in range(len(run) - 1)]
    return frozenset([*(word[:5] for word in words), *pairs]) - _ASKS


_ASKS: Final = frozenset(
    "which these what welch welk qual quel quale cuál quels quell cuále какие котор state corre aussa".split()  # noqa: SIM905
)
"""Beginnings of words that ask for options without saying anything of them."""


_SIGN_OF = re.compile(
    r"(?P<no>[✗✘❌✕☒×]|\[\s?\]|(?<=[:|?-])\s?\*{0,2}(?:no|not|false|incorrect|wrong|doesn't|does\snot)\b(?!\?)"
    r"|错|錯|不(?:正确|正確|对|對|符)|誤|正しくな|適切でな|틀|옳지|맞지|\bневерн|\bнеправильн|\bложн|\b(?:falsch|incorrect[ao]|fals[oa]|fausse|faux|inexacte?|errad[oa]|errat[oa]|sbagliat[oa]|yanlış|sai|salah|fout|onjuist"
    r"|błędn[aey]|nieprawdziw[aey])\b|خاطئ|خطأ|गलत|ভুল|ผิด|δεν\s|λάθος)"
    r"|(?P<yes>[✓✔✅☑]|\[x\]|(?<=[:|?-])\s?\*{0,2}(?:yes|true|correct|right|matches|fits)\b(?!\?)"
    r"|正确|正確|(?<![不面相绝絕])[对對](?![于於应應称稱])|正しい|適切|옳|맞|\bверн|\bправильн|\b(?:richtig|korrekt|correct[ao]|vraie?|exacte?|juste|ver[oa]|cert[oa]|giust[oa]|doğru|đúng|benar|juist|prawdziw[aey]|poprawn[aey])\b"
    r"|صحيح|सही|সঠিক|ถูก|σωστ)",
    re.IGNORECASE,
)
_LABEL_OF = re.compile(r"(?<![A-Za-z0-9_'])[(*]{0,3}(?P<label>[A-Z])[)*.:]{0,4}(?![A-Za-z0-9_'])")
_CROSSED_OUT = re.compile(
    r"[❌✗✘][ ]?[(*]{0,3}[A-Z](?![A-Za-z])[^\n❌✗✘→✅]{0,80}?(?:[,;]\s(?=[❌✗✘])|\n|\s?(?:→|->|=>)\s?)"
)
_ITEM_NUMBER = re.compile(r"^\s*[0-9]{1,2}[.)]\s+(?=[(]?[A-Z]\b)", re.MULTILINE)
_ALL_BUT = re.compile(
    r"(?:all|everything|every\s(?:option|statement|choice))(?:\sof\s(?:them|these))?\s(?:except|but|apart\sfrom|other\sthan)(?:\sfor)?\s(?P<run>[^.]{1,40})\W*(?:(?:are\s)?(?:correct|right|true|apply))?\W*",
    re.IGNORECASE,
)
_SHOWN = re.compile(
    r"\A(?:the|it|this|that|i)\b[^,;:.]{0,40}?\s(?:shows?|sees?|has|have|contains?|depicts?|indicates?)\s(?:both\s)?",
    re.I,
)
_IN_TAIL = re.compile(r"\s?\((?=[^()]*[^\W\d_]{3})(?:[^()A-Z]|[A-Z](?=[a-z])){1,80}\)\W*\Z")


def _ticked(text: str, options: AnswerOptions) -> tuple[str, ...] | None:
    """Return the labels that a list ticks, where it marks each one as right or wrong; None for another text."""
    labels = [found for found in _LABEL_OF.finditer(text) if options.index(found["label"]) is not None]
    signs = list(_SIGN_OF.finditer(text))
    if len(labels) < 2 or len(signs) < len(labels) or len({found["label"] for found in labels}) < len(labels):
        return None
    false = asks_what_is_false(options.question, options.texts)
    if false and any(sign[0][0] in "✗✘❌✕☒×[✓✔✅☑" for sign in signs):
        return None  # a tick may say that it is true, or that it is an answer
    first = text.rfind("\n", 0, labels[0].start()) + 1
    before = any(sign.start() < labels[0].start() and sign.start() >= first for sign in signs)
    starts = [first if before else labels[0].start()]
    starts += [one.end() for one in labels[:-1]] if before else [one.start() for one in labels[1:]]
    ends = [one.start() for one in labels] if before else [*starts[1:], len(text)]
    ticked: list[str] = []
    for found, start, end in zip(labels, starts, ends, strict=True):
        kinds = {sign["yes"] is not None for sign in signs if start <= sign.start() < end}
        if len(kinds) != 1:
            return None
        ticked += [found["label"]] if kinds == {not false} else []
    return tuple(ticked)


def _with_labels_only(plain: str, options: AnswerOptions) -> str:
    """Return `plain` without the texts behind their labels, its lead and a remark in brackets at its end."""
    plain = _IN_TAIL.sub("", _SHOWN.sub("", options.paired(plain)))
    head, colon, rest = plain.rpartition(": ")
    named = labels_said(rest) if colon and len(head) < 120 and "\n" not in head else None
    return rest if named and len(named) > 1 else plain


def _without_wrong(plain: str) -> str:
    """Drop what only says of letters that they are wrong ("B、C错误", "Incorrect: B, C"), if others are left."""
    rest = _WRONG_ONES.sub("", plain).strip(" ,;") if len(plain) <= 600 else plain
    return rest if re.search(r"(?<![^\W_])[A-Z]{1,8}(?![A-Za-z])", rest) else plain


_ARTICLE = r"(?-i:(?:l[aeo]s?|die|el|[oa]s?)\s)?"
_LETTERS_WITH_ARTICLES = rf"{_ARTICLE}(?-i:[A-Z])(?:{AND}{_ARTICLE}(?-i:[A-Z])){{0,8}}(?![A-Za-z])"
_WRONG_ONES = re.compile(
    rf"(?:^|(?<!(?-i:[^A-Za-z][A-Z])),|[;.\n])\s?(?:(?:options?|statements?)\s)?{_LETTERS_WITH_ARTICLES}(?-i:[^A-Z.;,]){{0,12}}?,?\s?(?:{SAID_WRONG.pattern})"
    rf"(?-i:[^A-Z,;.]){{0,30}}(?=[,;.\n]|\W*$)"
    rf"|(?:^|[.;\n])\s?(?:{SAID_WRONG.pattern})[^,;.:]{{0,20}}:\s?{_LETTERS_WITH_ARTICLES}\W*?(?=[.;\n]|$)",
    re.IGNORECASE,
)


def _without_others(plain: str, options: AnswerOptions) -> str:
    """Drop what follows a set of letters to say that the others are wrong."""
    denied = DOUBT.search(plain)
    if denied is None or options.exact(plain) is not None:
        return plain
    spots = list(re.finditer(r"[,;.](?:\s|(?=[A-Z]))|\s-\s", plain[: denied.start()]))
    heads = (plain[: spot.start()] for spot in reversed(spots))
    head, named = next(((one, said) for one in heads if len(said := labels_said(one) or ()) > 1), ("", ()))
    others = re.findall(r"(?<![A-Za-z])[A-Z](?![A-Za-z])", plain[len(head) :])
    sure = SAID_WRONG.search(plain, len(head)) is not None
    return head if sure and head and not set(named) & set(others) else plain


def _compare_choice(prediction: str, gold: str, options: AnswerOptions) -> Verdict:
    chosen = _read(prediction, options)
    if chosen is None:
        return unread("names no single option", prediction)
    name = label(chosen, len(options.texts))
    if options.same(chosen, options.texts.index(gold)):
        return right(f"option {name}", prediction)
    return wrong(f"option {name} is not the gold one", prediction)


def _said(prediction: str, options: AnswerOptions) -> object:
    """Return what a candidate says: an option with its doubles, `_NO_ANSWER` if it takes one back, or None."""
    chosen = _read(prediction, options)
    if chosen is not None:
        return options.doubles(chosen)
    plain = options.plain(prediction)
    return _NO_ANSWER if _TAKEN_BACK.search(plain) and options.starts_with_label(plain) else None


def _read(prediction: str, options: AnswerOptions) -> int | None:
    """Return the index of the single option that a prediction names, or None."""
    plain = _without_remarks(_without_wrong(options.plain(prediction)), options)
    alone = options.index(_ONLY_LEADS.sub("", plain).strip(" .,;:*_()[]<>{}\"'\n"))
    numbered = len(options.texts) > 26
    if alone is not None and not (numbered and options.exact(plain) is not None):
        return alone
    exact = options.exact(plain)
    exact = options.exact(without_article(plain)) if exact is None and len(plain) > 2 else exact
    if exact is not None:
        return exact
    glued = options.glued(plain)
    if glued is not None:
        return glued
    plain = options.paired(plain)
    placed = _by_place(plain, options)
    if placed is not None:
        return placed
    labelled = _labelled(plain, options)
    if labelled is not None:
        return labelled[0]
    by_value = None if _COMPARES.match(plain) else options.by_value(plain)
    if by_value is not None:
        return by_value
    would = re.fullmatch(r"(?:the|it|this|that)\b[^.,;]{0,40}\s(?:would|will)\s(?P<said>[^.,;]+)", plain, re.IGNORECASE)
    if would is not None and DOUBT.search(plain) is None and (index := options.exact(would["said"])) is not None:
        return index
    turned = _TURNED.search(plain)
    if turned is not None and not options.mentioned(plain[: turned.start()]) and DOUBT.search(turned[0]) is None:
        ways = (options.exact(f"{turned['then']} {link} {turned['if']}") for link in ("as", "when", "if"))
        if (index := next((one for one in ways if one is not None), None)) is not None:
            return index
    sign = None if options.own else label_abroad(plain.strip(" .()[]"), options.texts)
    if sign is not None:
        return sign
    foreign = re.fullmatch(r"[(\[]?(?P<label>[^\W\d_A-Za-z])(?:[)\].:]|\s?(?=\())\s*(?P<rest>.+)", plain)
    if foreign is not None:
        index = _read(foreign["rest"].strip("()"), options)
        return index if index is not None and may_label(foreign["label"], index) else None
    return in_sentence(plain, options)


_TURNED = re.compile(
    r"(?:\A|[.;:]\s)(?:(?:thus|so|hence|therefore),?\s)?(?:as|when|if)\s(?P<if>[^,.;:]{1,60}),\s(?P<then>[^,.;:]{1,60})\W*\Z",
    re.IGNORECASE,
)
"""An option said the other way round: "as x rises, y falls" for "y falls as x rises"."""


def _without_remarks(text: str, options: AnswerOptions) -> str:
    """Drop sentences at the end that only say something of other options, by text and letter, behind one that settles.

    "So B (horse). The goat (D) is farther back."
    """
    sentences = re.split(r"(?<=[^\W_][.!?])\s+|(?<=\)[.!?])\s+|(?<=\*\*[.!?])\s+|\n+", text)
    if not 1 < len(sentences) <= 12 or len(text) > _LONGEST * 3:
        return text
    kept = len(sentences)
    while kept > 1 and _is_remark(sentences[kept - 1], options):
        kept -= 1
    if kept == len(sentences):
        return text
    others = {options.index(spot[1]) for one in sentences[kept:] for spot in _IN_BRACKETS.finditer(one)}
    settled = _read(sentences[kept - 1], options)
    denied = all(DOUBT.search(one) or _WOULD.search(one) for one in sentences[kept:])
    sure = denied or re.search(r"(?<![^\W_])[A-Z](?![^\W_])", sentences[kept - 1])
    fits = settled is not None and sure and settled not in others
    return sentences[kept - 1] if fits else text


def _is_remark(sentence: str, options: AnswerOptions) -> bool:
    rest = options.without_texts(sentence)
    asked = _stems(options.without_texts(options.question))
    return bool(
        _IN_BRACKETS.search(sentence)
        and not _NO_FIRST.match(sentence)
        and (len(re.findall(r"[^\W\d_]{2,}", sentence)) > 1 or UNSPACED.search(rest))
        and not _SETTLES.search(rest)
        and len(asked & _stems(rest)) < max(1, len(asked) / 2)
    )


_WOULD = re.compile(r"\bwould\b")
_NO_FIRST = re.compile(
    r"(?:no|nein|non|нет|ні|não|nee|nej|nei|nie|ne|hayır|không|bukan|nem|ei|όχι|لا|नहीं|いや|いいえ|아니요?|아뇨|不对?)\s?[,.!:]",
    re.IGNORECASE,
)
_SETTLES = re.compile(
    r"(?<![^\W_])(?:answer|so|therefore|thus|hence|but|wait|actually|no|correct\w*|right|best|better|final\w*|choose|pick|should|must|instead"
    r"|also|daher|richtig\w*|doch|aber|donc|mais|bonne|correct[ea]s?|entonces|pero|correct[oa]|quindi|corrett[oa]|значит|ответ|верн\w+|но)(?![^\W_])"
    r"|[所以故選选應应對对但]|正|答|しかし|따라서|정답",
    re.IGNORECASE,
)
_ONLY_LEADS = re.compile(
    r"^(?:(?:only|definitely|certainly|clearly|surely|so|then|hmm|yes|sorry|actually|correction|scratch\sthat|by\selimination|i\smeant|selected|solution|assistant|it's|es|la|el|opción|letra|respuesta|c'est|le|réponse|option"
    r"|lettre|il\ss'agit\sde|ist|das|die|der|antwort|lösung|also|somit|buchstabe|é|(?-i:a)|alternativa|opção|resposta|è|risposta|opzione|lettera|это|ответ|вариант|це|відповідь|варіант|to|jest|poprawna|odpowiedź|opcja|litera|het"
    r"|is|antwoord|optie|đáp\sán|câu|jawaban|pilihan|opsi|det|är|er|svar|svaret|alternativ|je|odpověď|možnost|se|on|vastaus|vaihtoehto|válasz|az|este|varianta|cevap|yanıt|şık|είναι|το|η|απάντηση)[,:]?\s)+(?=[(]?(?-i:[A-Z])\W*$)"
    r"|^(?:是|正确的是|正確的是|应该是|應該是)?(?=(?-i:[A-Z]))|(?<=^[A-Z])(?:です|だ|だと思います|입니다|이다|项|項|번|\sit\sis)(?=\W*$)",
    re.IGNORECASE,
)
"""Words that only lead to a letter, or follow it: "Es la B", "B it is"."""
_BY_PLACE = re.compile(
    r"(?:the\s)?(?:(?:option|choice|answer)\s(?:number\s|no\.?\s|#)?(?P<number>[1-9])|(?P<nth>first|second|third|fourth|fifth|last|1st|2nd|3rd|4th|5th)\s(?P<noun>[a-z]+))",
    re.IGNORECASE,
)
_NTH: Final = ("first", "second", "third", "fourth", "fifth")


_COMPARES = re.compile(
    r"(?:more|less|fewer|greater|higher|lower|larger|smaller|faster|slower|rather|other)\sthan\b", re.IGNORECASE
)


def _by_place(plain: str, options: AnswerOptions) -> int | None:
    """Return the option that "option 2" or "the second one" names."""
    found = _BY_PLACE.fullmatch(plain.strip(" .!"))
    if found is None:
        return None
    if found["noun"] and found["noun"].casefold() not in (
        "option",
        "choice",
        "one",
        "answer",
        options.words[0].split(" ")[0],
    ):
        return None
    nth = (found["nth"] or "").casefold()
    place = int(found["number"]) if found["number"] else len(options.texts) if nth == "last" else 0
    place = place or (int(nth[0]) if nth[0].isdigit() else _NTH.index(nth) + 1)
    return place - 1 if place <= len(options.texts) else None


def _labelled(plain: str, options: AnswerOptions) -> tuple[int | None] | None:
    """Return the option whose letter comes first, (None,) if the rest takes it back, None without such a letter."""
    for form in (_MARKED, _NAMED, _CAPITAL):
        match = form.fullmatch(plain)
        groups = match.groupdict() if match else {}
        index = options.index(next((groups[name] for name in groups if name != "rest" and groups[name]), ""))
        if index is None:
            continue
        rest = groups["rest"] or ""
        if groups.get("bracketed") and _IS_SUBJECT.match(rest) and not options.begins(rest, index):
            return (None,)
        if form is _NAMED and re.match(r"\s(?!is\b)\w", rest) and not (_EXPLAINS.match(rest) or _JOINED.match(rest)):
            continue  # "option A falls short, so it is B"
        if form is _CAPITAL and not (_EXPLAINS.match(rest) or _JOINED.match(rest) or options.begins(rest, index)):
            continue  # "A train passes", "I think"
        word = form is _CAPITAL and groups["label"] in "AI" and rest[:1].isspace() and not options.begins(rest, index)
        if word and _AFTER_A_LETTER.match(rest) is None:
            continue
        denied = not groups.get("stopped") and not options.begins(rest, index) and _DENIED_AT_ONCE.match(rest)
        return (index if _agrees(rest, index, options) and not denied else None,)
    return None


def _agrees(rest: str, index: int, options: AnswerOptions) -> bool:
    """Tell whether the text after a letter is its option's or an explanation, not another option or a retraction."""
    tail = options.without(rest, index)
    if options.index(rest.strip(" .,*()[]\n")) == index or not tail.strip(" .,*_):]}\n"):
        return True
    other = tail == rest and options.begins_with_other(rest, index)
    while (own := _OWN_AGAIN.match(tail)) is not None and options.index(own["label"]) == index:
        tail = tail[own.end() :]
    further = _JOINED.match(tail)
    taken_back = _TAKEN_BACK.search(tail)
    meant = options.doubles(index)
    if other or further or taken_back:
        return False
    if options.mentioned(tail) <= meant:
        return True
    clauses = _CLAUSE.split(tail, maxsplit=_LONGEST)
    return len(clauses) <= _LONGEST and all(options.mentioned(one) <= meant or _REJECTS.search(one) for one in clauses)


CHOICE = ChoiceGrader()
