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
from itertools import islice
from typing import Final, Literal

from saccade.grading.base import Verdict, gold_of, judged, right, unread, unreadable, wrong
from saccade.grading.clean import LONGEST_ANSWER, clean
from saccade.grading.extract import in_final_part, without_question
from saccade.grading.languages import (
    AND,
    BECAUSE,
    DENIES,
    DOUBT,
    asks_what_is_false,
    in_what_is_asked,
)
from saccade.grading.letters import (
    SAID_WRONG,
    both_of,
    label_abroad,
    labels_said,
    may_label,
    parts_said,
)
from saccade.grading.options import UNSPACED, AnswerOptions, label, options_of
from saccade.grading.restated import fills_in, topic_of
from saccade.grading.settled import (
    COMPARES,
    IN_BRACKETS,
    LONGEST,
    REJECTS,
    SETTLES,
    TAKEN_BACK,
    THEN_NOT,
    in_sentence,
    speaks_of_less,
)
from saccade.grading.text import (
    without_article,
)
from saccade.record.task import Task

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
_LONGEST_SET = 2_000

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
_DENIED_AT_ONCE = re.compile(rf"\s?(?!{BECAUSE})(?:[^\s.,;:]{{1,8}}\s?)?(?:{DENIES})", re.IGNORECASE)  # "B ist falsch"
_OWN_AGAIN = re.compile(r"[\s,;.]*[(\[]?(?P<label>[A-Z])[)\]]?(?![\w'])")  # "B. B"
_NO_ANSWER = "taken back"
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
    plain = options.spread(_without_wrong(options.plain(_IN_NOTES.sub("", _ITEM_NUMBER.sub("", prediction)))))
    plain = THEN_NOT.sub("", plain)
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
    for way in () if speaks_of_less(options.without_texts(plain), options) else parts_said(plain):
        chosen = [
            index if (index := _read(part, options)) is not None else options.named_in_plural(part)
            for part in way[: len(options.texts) + 1]
        ]
        if chosen and None not in chosen and len(set(chosen)) == len(chosen):
            return frozenset(index for index in chosen if index is not None)
    single = _read(prediction, options)
    return None if single is None else frozenset({single})


_IN_NOTES = re.compile(
    r"(?<=(?<![A-Za-z])[A-H])\s?\((?=[^()]*[^\W\d_]{2})[^()]{2,80}\)(?=\s?(?:,|;|\.|und\b|and\b|et\b|y\b|e\b|и\b|i\b|和|$))"
)
"""What a letter names, in brackets behind it: "A (12 June), B (Salle Molière)"."""
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
    r"\A(?:(?:the|it|this|that|i)\b[^,;:.]{0,40}?\s(?:shows?|sees?|has|have|contains?|depicts?|indicates?)|there\sare)\s(?:both\s)?",
    re.I,
)
_IN_TAIL = re.compile(r"\s?\((?=[^()]*[^\W\d_]{3})(?:[^()A-Z]|[A-Z](?=[a-z])){1,80}\)\W*\Z")


def _ticked(text: str, options: AnswerOptions) -> tuple[str, ...] | None:
    """Return the labels that a list ticks, where it marks each one as right or wrong; None for another text.

    Lines in front of the list or behind it may name the same ones again.
    """
    lines = text.split("\n")
    items = [line for line in lines if _ITEM.match(f"{line} ")]
    known = frozenset(items)
    rest = "\n".join(line for line in lines if line not in known)
    if len(items) > 1 and (again := _LABEL_OF.findall(rest)):
        listed = _ticked("\n".join(items), options)
        return listed if listed and set(again) == set(listed) and not SAID_WRONG.search(rest) else None
    known_labels = (found for found in _LABEL_OF.finditer(text) if options.index(found["label"]) is not None)
    labels = list(islice(known_labels, len(options.texts) + 1))
    if len(labels) < 2 or len({found["label"] for found in labels}) < len(labels):
        return None
    signs = list(_SIGN_OF.finditer(text))
    if len(signs) < len(labels):
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
    return _NO_ANSWER if TAKEN_BACK.search(plain) and options.starts_with_label(plain) else None


def _read(prediction: str, options: AnswerOptions) -> int | None:
    """Return the index of the single option that a prediction names, or None, as where two are said to hold."""
    index = _read_one(prediction, options)
    return None if index is not None and label(index, len(options.texts)) in both_of(prediction) else index


def _read_one(prediction: str, options: AnswerOptions) -> int | None:
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
    if len(numbers := options.numbers_in(plain)) > 1:
        return _number_asked_for(plain, numbers, options)
    by_value = None if COMPARES.match(plain) else options.by_value(plain)
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
    sign = None if options.own else label_abroad(_ARTICLE_OF_SIGN.sub("", plain.strip(" .()[]")), options.texts)
    if sign is not None:
        return sign
    foreign = re.fullmatch(r"[(\[]?(?P<label>[^\W\d_A-Za-z])(?:[)\].:]|\s?(?=\())\s*(?P<rest>.+)", plain)
    if foreign is not None:
        index = _read(foreign["rest"].strip("()"), options)
        return index if index is not None and may_label(foreign["label"], index) else None
    return in_sentence(plain, options)


_ARTICLE_OF_SIGN = re.compile(r"\A(?:το|η|буква|літера|האות|(?:ال)?حرف|(?:ตัว)?อักษร)\s?(?=\w\Z)")


def _number_asked_for(plain: str, numbers: frozenset[int], options: AnswerOptions) -> int | None:
    """Return the option, of several whose numbers a sentence holds, of which its first clause says what is asked.

    "The tallest bar is the one for 2018, reaching 2019 units."
    """
    head, comma, _ = plain.partition(", ")
    named = options.numbers_in(head)
    if not comma or len(named) != 1 or DOUBT.search(plain) or "than" in plain.split():
        return None
    index = min(named)
    asked = re.fullmatch(r"which\s(\w+)\s(.+)\?", options.question.strip(), re.IGNORECASE)
    if asked and re.fullmatch(f"(?:the )?{asked[1]} {options.words[index]} {re.escape(asked[2])}", head, re.IGNORECASE):
        return index
    head = re.sub(r"\b(?:the\sone\s(?:for|of|from|in|with)|number|no\.)\s", "", head)
    return index if _ONE_NUMBER.fullmatch(head) and fills_in(head, options.plains[index], options.question) else None


_ONE_NUMBER = re.compile(r"[^0-9]*[0-9]+(?:[.,][0-9]+)*[^0-9]*")
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
    if not 1 < len(sentences) <= 12 or len(text) > LONGEST * 3:
        return text
    kept = len(sentences)
    while kept > 1 and _is_remark(sentences[kept - 1], options):
        kept -= 1
    if kept == len(sentences):
        return text
    others = {options.index(spot[1]) for one in sentences[kept:] for spot in IN_BRACKETS.finditer(one)}
    settled = _read(sentences[kept - 1], options)
    denied = all(DOUBT.search(one) or _WOULD.search(one) for one in sentences[kept:])
    sure = denied or re.search(r"(?<![^\W_])[A-Z](?![^\W_])", sentences[kept - 1])
    fits = settled is not None and sure and settled not in others
    return sentences[kept - 1] if fits else text


def _is_remark(sentence: str, options: AnswerOptions) -> bool:
    rest = options.without_texts(sentence)
    asked = options.question
    return bool(
        IN_BRACKETS.search(sentence)
        and not _NO_FIRST.match(sentence)
        and (len(re.findall(r"[^\W\d_]{2,}", sentence)) > 1 or UNSPACED.search(rest))
        and not SETTLES.search(rest)
        and 2 * len(topic_of(rest, asked)) < max(2, len(topic_of(asked, asked)))
    )


_WOULD = re.compile(r"\bwould\b")
_NO_FIRST = re.compile(
    r"(?:no|nein|non|нет|ні|não|nee|nej|nei|nie|ne|hayır|không|bukan|nem|ei|όχι|لا|नहीं|いや|いいえ|아니요?|아뇨|不对?)\s?[,.!:]",
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
    taken_back = TAKEN_BACK.search(tail)
    meant = options.doubles(index)
    if other or further or taken_back:
        return False
    if options.mentioned(tail) <= meant:
        return True
    clauses = _CLAUSE.split(tail, maxsplit=LONGEST)
    return len(clauses) <= LONGEST and all(options.mentioned(one) <= meant or REJECTS.search(one) for one in clauses)


CHOICE = ChoiceGrader()
