"""Multiple choice: by letter in any usual writing, by the option's text, or by both if they agree.

Letters follow the order in which the task lists its choices (`A` is the first), as every dialect shows them; beyond 26
choices they are numbers from 1. A letter counts where it stands alone, is marked as one ("(B)", "B.", "b)",
"option B"), or follows "the answer is"; never inside a word, and never as the article "a". An answer
that names several options, denies one, or gives a letter with another option's text is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from saccade.grading.base import Verdict, gold_of, judged, right, unreadable, wrong
from saccade.grading.quantities import DOUBT
from saccade.grading.text import bare, same_text
from saccade.grading.yes_no import asserts
from saccade.record.task import Task

_LABEL = r"(?P<{0}>[A-Za-z]|[0-9]{{1,3}})"
_MARKED = re.compile(
    r"[*_]{0,3}(?:(?:option|choice|answer|letter)\s*)?(?:"
    rf"[(\[<]\s?{_LABEL.format('bracketed')}\s?[)\]>]|{_LABEL.format('stopped')}\s?(?:[.):]|-\s)"
    r")[*_]{0,3}(?:\s*[:.)-])?\s*(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_NAMED = re.compile(
    rf"(?:option|choice|letter)\s+[\"']?{_LABEL.format('label')}[\"']?(?P<rest>(?:[\s,.;:].*)?)", re.I | re.S
)
_CAPITAL = re.compile(r"(?P<label>[A-Z])(?P<rest>(?:,|\s(?:because|since|as|is|-)\s|\s\().*)", re.DOTALL)
_DENIED = re.compile(
    DOUBT.pattern + r"|\b(?:(?:all|any|anything|everything) but|other than|rather than|excluding|opposite)\b",
    re.IGNORECASE,
)
_MENTION = re.compile(r"[(\[]\s?(?P<bracketed>[A-Z])\s?[)\]]|\b(?:option|choice)\s+(?P<named>[A-Z])\b")


@dataclass(frozen=True, slots=True)
class ChoiceGrader:
    """The letter or the text of one of the task's choices."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict; see `Grader.grade`."""
        gold = gold_of(task)
        if gold not in task.choices:
            raise unreadable(task, "choice of it")
        return judged(answer, lambda said: _compare(said, gold, task.choices))


def _compare(said: str, gold: str, choices: Sequence[str]) -> Verdict:
    chosen = read_choice(said, choices)
    if chosen is None:
        return wrong("names no single option", said)
    if choices[chosen] == gold or bare(choices[chosen]) == bare(gold) != "":
        return right(f"option {label(chosen, len(choices))}", said)
    return wrong(f"option {label(chosen, len(choices))} is not the gold one", said)


def label(index: int, count: int) -> str:
    """What option number `index` (from 0) of `count` is called."""
    return ascii_uppercase[index] if count <= len(ascii_uppercase) else str(index + 1)


def read_choice(said: str, choices: Sequence[str]) -> int | None:
    """Index of the option that `said` names, or None if it names none, or more than one."""
    exact = [index for index, choice in enumerate(choices) if bare(said) == bare(choice)]
    if exact:
        return exact[0]
    alone = _index(said.strip(" .*_()[]\"'"), len(choices))
    if alone is not None:
        return alone
    for form in (_MARKED, _NAMED, _CAPITAL):
        match = form.fullmatch(said.strip())
        groups = match.groupdict() if match else {}
        index = _index(next((groups[name] for name in groups if name != "rest" and groups[name]), ""), len(choices))
        if index is not None:
            return index if _agrees(groups["rest"] or "", index, choices) else None
    same = [index for index, choice in enumerate(choices) if same_text(said, choice)]
    if same:
        return same[0] if len({bare(choices[index]) for index in same}) == 1 else None
    return _in_sentence(said, choices)


def _index(name: str, count: int) -> int | None:
    names = [label(index, count) for index in range(count)]
    return names.index(name.upper()) if name.upper() in names else None


def _agrees(rest: str, index: int, choices: Sequence[str]) -> bool:
    """Whether what follows a letter is its option's text, or at least names no other option and denies nothing."""
    if not rest.strip(" .*_)") or same_text(rest, choices[index]):
        return True
    if bare(rest).startswith(bare(choices[index])) and bare(choices[index]):
        rest = bare(rest)[len(bare(choices[index])) :]
    elif any(same_text(rest, choice) for choice in choices):
        return False
    others = set(_mentioned(rest, choices)) - {index}
    capitals = {_index(word, len(choices)) for word in re.findall(r"(?<![\w'])[B-HJ-Z](?![\w'])", rest)} - {None, index}
    return not others and not capitals and _DENIED.search(rest) is None


def _in_sentence(said: str, choices: Sequence[str]) -> int | None:
    """The one option that a short sentence mentions by marked letter or by its text, without denying anything."""
    if len(said) > 400:
        return None
    if {bare(choice) for choice in choices} == {"yes", "no"}:
        meant = asserts(said)
        wanted = {True: "yes", False: "no"}.get(meant) if meant is not None else None
        return next((index for index, choice in enumerate(choices) if bare(choice) == wanted), None)
    found = set(_mentioned(said, choices))
    rest = bare(said)
    for choice in choices:
        rest = rest.replace(bare(choice), " ")
    return found.pop() if len(found) == 1 and _DENIED.search(rest) is None else None


def _mentioned(text: str, choices: Sequence[str]) -> list[int]:
    """Options mentioned in `text`; where one option's text holds another's, the longer one counts."""
    found: list[int] = []
    for match in _MENTION.finditer(text):
        index = _index(match["bracketed"] or match["named"], len(choices))
        found += [] if index is None else [index]
    rest = bare(text)
    for index in sorted(range(len(choices)), key=lambda index: -len(bare(choices[index]))):
        words = bare(choices[index])
        if len(words) < 2 or not words[0].isalpha():
            continue  # single letters and numbers turn up in any sentence
        spot = re.compile(rf"(?<!\w){re.escape(words)}(?!\w)")
        if spot.search(rest):
            found.append(index)
            rest = spot.sub(" ", rest)
    return found


CHOICE = ChoiceGrader()
