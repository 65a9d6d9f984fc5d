"""Lists: every item and nothing else, in the order of the gold answer or, for sets, in any order.

Items are separated by commas, semicolons, arrows, "and" or, between two numbers, a multiplication sign, or stand on
lines of their own, with or without bullets and numbers; brackets, a JSON array, a Python list and LaTeX braces may
stand around. Items are compared as `text` compares: as text, or as numbers where the gold item is one. Items may carry
names (`rows={8} columns={9}`, `8 rows and 9 columns`): if both sides name theirs, names decide which item meets which.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from saccade.grading.base import Verdict, gold_of, judged, right, unreadable, wrong
from saccade.grading.clean import clean, folded
from saccade.grading.list_lines import lines_as_array
from saccade.grading.literals import MOST_ITEMS, literal_list
from saccade.grading.quantities import quantity
from saccade.grading.text import bare, same_text
from saccade.grading.wrappers import unwrapped
from saccade.record.task import Task

_BRACKETS = re.compile(r"\s*(?:rgb\s?)?(?:\\\{(?P<a>.*)\\\}|\((?P<b>.*)\)|\[(?P<c>.*)\]|\{(?P<d>.*)\})\s*", re.I | re.S)
_SEPARATOR = re.compile(
    r"\s*(?:;|\n|,(?![0-9]{3}(?![0-9]))|,\s)\s*(?:(?:and|&)\s)?|\s+(?:and|&)\s+|\s*(?:→|⇒|->|\\rightarrow|\\to\b)\s*",
    re.IGNORECASE,
)
_TIGHT = re.compile(r"\s*,\s*")
_BY = re.compile(r"(?P<first>[0-9]{1,9})\s?(?:x|×|by|\\times)\s?(?P<second>[0-9]{1,9})", re.IGNORECASE)
_NAMED = re.compile(r"(?P<name>[A-Za-z][A-Za-z ]{0,40}?)\s?[=:]\s?\{?(?P<value>[^{}]+)\}?")
# "The colors are red, blue and green", "first red, then blue": what leads to an item, where items differ without that.
_LEADS_IN = re.compile(
    r"(?:the|these|there|they|it|in\sorder)\b[^,;:\n]{0,60}?\s(?:is|are|was|were|goes)\s(?:as\sfollows:?\s)?",
    re.IGNORECASE,
)
_IN_TURN = re.compile(r"(?:first|second|third|then|next|finally|lastly|after that),?\s", re.IGNORECASE)
_CURLIES = re.compile(r"(?<=\})[\s,]+(?=[A-Za-z])")


@dataclass(frozen=True, slots=True)
class ListGrader:
    """A list: same items, same number of them."""

    ordered: bool = True
    """Whether the order counts; names of items go before it."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """The verdict; see `Grader.grade`."""
        gold = items(gold_of(task))
        if not gold:
            raise unreadable(task, "list")
        return judged(
            None if answer is None else lines_as_array(answer), lambda prediction: self._compare(prediction, gold)
        )

    def _compare(self, prediction: str, gold: tuple[str, ...]) -> Verdict:
        predicted = items(prediction)
        if self._same(predicted, gold):
            return right("same items", prediction)
        bare_items = tuple(_without_turn(item) for item in items(_without_lead(prediction)))
        if self._same(bare_items, gold):
            return right("same items", prediction)
        if len(predicted) != len(gold):
            return wrong(f"{len(predicted)} items where the gold answer has {len(gold)}", prediction)
        return wrong("other items", prediction)

    def _same(self, predicted: tuple[str, ...], gold: tuple[str, ...]) -> bool:
        if len(predicted) != len(gold):
            return False
        named, target = _by_name(predicted), _by_name(gold)
        if named is not None and target is not None:
            return named.keys() == target.keys() and all(same_text(named[name], target[name]) for name in target)
        if self.ordered:
            return all(_same_item(*pair) for pair in zip(predicted, gold, strict=True))
        return _same_set(predicted, gold)


def _without_lead(text: str) -> str:
    lead = _LEADS_IN.match(text.lstrip())
    return text if lead is None else text.lstrip()[lead.end() :]


def _without_turn(item: str) -> str:
    turn = _IN_TURN.match(item)
    return item if turn is None else item[turn.end() :]


def items(text: str) -> tuple[str, ...]:
    """The items of a list as it is written; more than `MOST_ITEMS` are no list."""
    plain = unwrapped(clean(text))
    array = literal_list(plain)
    if array is not None:
        return tuple(str(item) for item in array)
    inner = _BRACKETS.fullmatch(plain)
    if inner is not None:
        plain = next(group for group in inner.groups() if group is not None)
    by = _BY.fullmatch(plain.strip())
    if by is not None:
        return (by["first"], by["second"])
    plain = _CURLIES.sub("\n", plain)
    # `1,234` is one number in running text, but brackets close up their lists: `(1,234,56)`.
    parts = (_TIGHT if inner is not None and ", " not in plain else _SEPARATOR).split(plain)
    elements = tuple(
        unwrapped(part.strip().lstrip("-*• ") if not re.match(r"-[0-9.]", part) else part) for part in parts
    )
    return elements if len(elements) <= MOST_ITEMS and all(elements) else ()


def _by_name(predicted: tuple[str, ...]) -> dict[str, str] | None:
    """Items by their names; None if one has none, or two have the same."""
    named: dict[str, str] = {}
    for item in predicted:
        match = _NAMED.fullmatch(item)
        words = re.fullmatch(r"(?P<value>[0-9][0-9.,]*)\s(?P<name>[A-Za-z ]{1,40})", item) if match is None else match
        if words is None:
            return None
        named.setdefault(folded(words["name"]), words["value"])
    return named if len(named) == len(predicted) else None


def _same_item(predicted: str, gold: str) -> bool:
    named, target = _NAMED.fullmatch(predicted), _NAMED.fullmatch(gold)
    if named is not None and target is None and quantity(gold) is not None:
        predicted = named["value"]
    elif target is not None and named is None:
        gold = target["value"]
    return same_text(predicted, gold)


def _same_set(predicted: tuple[str, ...], gold: tuple[str, ...]) -> bool:
    left = list(gold)
    for item in sorted(predicted, key=bare):
        match = next((target for target in left if _same_item(item, target)), None)
        if match is not None:
            left.remove(match)
    return not left


ORDERED = ListGrader()
SET = ListGrader(ordered=False)
