"""Multiple choice: by letter in any usual writing, by the option's text or value, or by both if they agree.

Letters follow the order in which the task lists its choices (`A` is the first), as every dialect shows them; beyond 26
choices they are numbers from 1. A letter counts where it stands alone, is marked as one ("(B)", "B.", "b)",
"option B"), or follows "the answer is" or "it is"; never inside a word, and never as the article "a". A letter alone
means its option, also where another option's text is that letter. What explains a letter does not change it. An answer
that names several options, takes one back, or gives a letter with another option's text is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from saccade.grading.base import Verdict, gold_of, judged, right, unread, unreadable, wrong
from saccade.grading.mentions import in_sentence
from saccade.grading.options import AnswerOptions, label, options_of
from saccade.grading.quantities import DOUBT
from saccade.record.task import Task

_LABEL = r"(?P<{0}>[A-Za-z]|[0-9]{{1,3}})"
_MARKED = re.compile(
    r"(?:the\s)?(?:(?:option|choice|answer|letter|statement)\s*:?\s*)?(?:"
    rf"[(\[<{{]\s?{_LABEL.format('bracketed')}\s?[)\]>}}]|{_LABEL.format('stopped')}\s?(?:[.):]|-\s|\n))"
    r"\s*(?:[:.)]|-(?=\s))?\s*(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_NAMED = re.compile(
    rf"(?:the\s)?(?:option|choice|letter)\s+{_LABEL.format('label')}(?P<rest>(?:[\s,.;:].*)?)", re.I | re.S
)
_CAPITAL = re.compile(r"(?P<label>[A-Z])(?P<rest>(?:[,;?/&]|\s?\(|\s).*)", re.DOTALL)
_EXPLAINS = re.compile(
    r"[,;]\s|[\s-]*(?:\(|and\snot\b|because|since|as\b|for\b|due to|is\b|which|where|with\b|-)", re.IGNORECASE
)
_JOINED = re.compile(
    r"[\s,;.)]*(?:(?:or|and(?!\s(?:not|neither)\b)|and/or|to|as well as|nor)\b|[/&?+])"
    r"|[\s,;.]*[(\[]?(?-i:[A-Z])[)\]]?(?![\w'^_*/(=+-])",
    re.IGNORECASE,
)
# "A" and "I" are words too; these follow them as letters.
_AFTER_A_LETTER = re.compile(r"\s(?:(?:is|was|would|could|-)\s|\(|because|since|or\b|and\b)")
_TAKEN_BACK = re.compile(
    r"^[\s,;.:-]*(?:(?:is|was|are|isn't|can't|cannot|seems?|looks?|must|would|could|should|might|may)\b"
    r"[^.;,\n]{0,30}\b(?:wrong|incorrect|false|not|ruled|out|unlikely|impossible|excluded|eliminated)\b|(?:isn't|can't|cannot)\b)"
    r"|\b(?:no,|no wait|wait\b|actually,|sorry|scratch that|on second thought|i mean|correction|my mistake"
    r"|not (?:sure|certain|confident)|unsure|uncertain)"
    r"|^[\s,;.:-]*(?:actually|maybe|perhaps|possibly|probably|might"
    r"|but (?:maybe|perhaps|it (?:could|might)|i could))\b|\?\s*$",
    re.IGNORECASE,
)
_RATHER = re.compile(r"^[\s,;.]*(?:rather than|instead of|over)\b", re.IGNORECASE)
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
    """The letter or the text of one of the task's choices."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict; see `Grader.grade`."""
        gold = gold_of(task)
        if gold not in task.choices:
            raise unreadable(task, "choice of it")
        options = options_of(task.choices)
        return judged(
            answer,
            lambda prediction: _compare(prediction, gold, options),
            lambda prediction: _said(prediction, options),
            prose=True,
        )


def _compare(prediction: str, gold: str, options: AnswerOptions) -> Verdict:
    chosen = _read(prediction, options)
    if chosen is None:
        return unread("names no single option", prediction)
    name = label(chosen, len(options.texts))
    if options.same(chosen, options.texts.index(gold)):
        return right(f"option {name}", prediction)
    return wrong(f"option {name} is not the gold one", prediction)


def _said(prediction: str, options: AnswerOptions) -> object:
    """What a candidate says: an option, that it takes one back, which agrees with no option, or nothing."""
    chosen = _read(prediction, options)
    if chosen is not None:
        return options.doubles(chosen)
    plain = options.plain(prediction)
    return _NO_ANSWER if _TAKEN_BACK.search(plain) and options.starts_with_label(plain) else None


def _read(prediction: str, options: AnswerOptions) -> int | None:
    """Index of the option that `said` names, or None if it names none, or more than one."""
    plain = options.plain(prediction)
    alone = options.index(plain.strip(" .,;:*_()[]<>{}\"'\n"))
    numbered = len(options.texts) > 26
    if alone is not None and not (numbered and options.exact(plain) is not None):
        return alone
    exact = options.exact(plain)
    if exact is not None:
        return exact
    glued = options.glued(plain)
    if glued is not None:
        return glued
    labelled = _labelled(plain, options)
    if labelled is not None:
        return labelled[0]
    by_value = options.by_value(plain)
    if by_value is not None:
        return by_value
    return in_sentence(plain, options)


def _labelled(plain: str, options: AnswerOptions) -> tuple[int | None] | None:
    """The option whose letter stands first, or (None,) if what follows takes it back; None without such a letter."""
    for form in (_MARKED, _NAMED, _CAPITAL):
        match = form.fullmatch(plain)
        groups = match.groupdict() if match else {}
        index = options.index(next((groups[name] for name in groups if name != "rest" and groups[name]), ""))
        if index is None:
            continue
        rest = groups["rest"] or ""
        if form is _CAPITAL and not (_EXPLAINS.match(rest) or _JOINED.match(rest) or options.begins(rest, index)):
            continue  # "A train passes", "I think"
        word = form is _CAPITAL and groups["label"] in "AI" and rest[:1].isspace() and not options.begins(rest, index)
        if word and _AFTER_A_LETTER.match(rest) is None:
            continue
        return (index if _agrees(rest, index, options) else None,)
    return None


def _agrees(rest: str, index: int, options: AnswerOptions) -> bool:
    """Whether what follows a letter is its option's text or an explanation, and not another option or a retraction."""
    tail = options.without(rest, index)
    if options.index(rest.strip(" .,*()[]\n")) == index or not tail.strip(" .,*_):]}\n"):
        return True
    other = tail == rest and options.begins_with_other(rest, index)
    further = _JOINED.match(tail) and not _is_own(tail, index, options)
    taken_back = _TAKEN_BACK.search(tail) or _RATHER.match(tail)
    meant = options.doubles(index)
    fits = all(options.mentioned(clause) <= meant or _REJECTS.search(clause) for clause in _CLAUSE.split(tail))
    return fits and not (other or further or taken_back)


def _is_own(tail: str, index: int, options: AnswerOptions) -> bool:
    """Whether what looks like a further letter is the option's own, said again."""
    match = re.match(r"[\s,;.]*[(\[]?([A-Z])[)\]]?(?![\w'])", tail)
    return match is not None and options.index(match[1]) == index


CHOICE = ChoiceGrader()
