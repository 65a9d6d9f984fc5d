"""Grade lists, and ChartQA's relaxed accuracy (Masry et al. 2022): numbers within 5 %, years and all else exact.

A year is a whole number from 1800 to 2100 written as four bare digits. The published script knows no years (2019 passes
for 2010 there) and leaves out the percent sign; here `5%` and `0.05` are the same number (see `compare`). A gold
answer in square brackets is a list; each of its items is compared by this rule.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from saccade.grading.base import Verdict, gold_of, judged, right, unreadable, wrong
from saccade.grading.clean import LONGEST_ANSWER, clean, folded, is_mark, unwrapped
from saccade.grading.extract import without_question
from saccade.grading.number_words import MOST_ITEMS, literal_list
from saccade.grading.quantities import quantity
from saccade.grading.text import Tolerance, bare, same_quantity, same_text, starts_as_number
from saccade.record.task import Task

_ITEM = re.compile(r"\s*(?:[-*•+]\s+|\(?[0-9]{1,3}[.)]\s+)(?P<text>\S.*?)\s*")
_FENCE = re.compile(r"\s*(?:```|~~~)\w*\s*")
_TAGGED = re.compile(r"(?P<open><answer>)(?P<inside>.*?)(?P<close></answer>|\Z)", re.IGNORECASE | re.DOTALL)
_LEAD = re.compile(r"[^\n]{0,200}:[\s*]*")
_LONGEST_ITEM = 8


def lines_as_array(answer: str) -> str:
    """Replace each list of lines (bullets, numbers, only short lines) by a JSON array on the line that leads to it."""
    if len(answer) > LONGEST_ANSWER or "\n" not in answer.replace("\r", "\n"):
        return answer
    return _TAGGED.sub(lambda match: match["open"] + _joined(match["inside"]) + match["close"], _joined(clean(answer)))


def _joined(text: str) -> str:
    lines = [line for line in text.split("\n") if line.strip() and _FENCE.fullmatch(line) is None]
    plain = _only_items(lines)
    if plain:
        return plain
    kept: list[str] = []
    block: list[str] = []
    for line in [*lines, ""]:
        item = _ITEM.fullmatch(line)
        if item is not None:
            block.append(item["text"])
            continue
        _flush(block, kept)
        block = []
        if line:
            kept.append(line)
    return "\n".join(kept)


def _only_items(lines: list[str]) -> str | None:
    """Return a text of nothing but short lines, perhaps behind one that leads to them, as one line.

    None for another.
    """
    lead = lines[0] if lines and _LEAD.fullmatch(lines[0]) else ""
    items = [line.strip() for line in (lines[1:] if lead else lines)]
    short = all(
        len(item.split()) <= _LONGEST_ITEM
        and not item.endswith((".", ":", "?"))
        and "<" not in item
        and item[0] not in "[{(#|"
        and "\\" not in item
        and ":" not in item
        and _ITEM.fullmatch(item) is None
        for item in items
    )
    if not short or not 2 <= len(items) <= MOST_ITEMS:
        return None
    return f"{lead if is_mark(lead) else ''} {json.dumps(items, ensure_ascii=False)}".strip()


def _flush(block: list[str], kept: list[str]) -> None:
    if len(block) < 2:
        kept.extend(f"- {item}" for item in block)
        return
    array = json.dumps(block[: MOST_ITEMS + 1], ensure_ascii=False)
    if kept and _LEAD.fullmatch(kept[-1]) and is_mark(kept[-1]):
        kept[-1] = f"{kept[-1].rstrip(' *')} {array}"
    else:
        kept.append(array)


# Items are separated by commas, semicolons, arrows, "and", lines or, between two numbers, a multiplication sign;
# brackets, a JSON array, a Python list or LaTeX braces may surround them. Each is compared as `text` does. If both
# sides name their items (`rows={8} columns={9}`, `8 rows and 9 columns`), items are matched by name.

_BRACKETS = re.compile(r"\s*(?:rgb\s?)?(?:\\\{(?P<a>.*)\\\}|\((?P<b>.*)\)|\[(?P<c>.*)\]|\{(?P<d>.*)\})\s*", re.I | re.S)
_SEPARATOR = re.compile(
    r"\s*(?:;|\n|,(?![0-9]{3}(?![0-9]))|,\s)\s*(?:(?:and|&)\s)?|\s+(?:and|&)\s+|\s*(?:→|⇒|->|\\rightarrow|\\to\b)\s*",
    re.IGNORECASE,
)
_BULLET = re.compile(r"\A(?:[-*]\s+|•\s*)")
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
    """A list: every item of the gold answer and nothing else, in order or, for sets, in any order."""

    ordered: bool = True
    """Whether the order counts; names of items go before it."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Return the verdict; see `Grader.grade`."""
        gold = items(gold_of(task))
        if not gold:
            raise unreadable(task, "list")
        return judged(
            None if answer is None else lines_as_array(without_question(answer, task.question)),
            task,
            lambda prediction: self._compare(prediction, gold),
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
    """Return the items of a list as it is written; more than `MOST_ITEMS` are no list."""
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
    elements = tuple(unwrapped(_BULLET.sub("", part.strip())) for part in parts)
    return elements if len(elements) <= MOST_ITEMS and all(elements) else ()


def _by_name(predicted: tuple[str, ...]) -> dict[str, str] | None:
    """Return items by their names; None if one has none, or two have the same."""
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
_YEAR = re.compile(r"18[0-9]{2}|19[0-9]{2}|20[0-9]{2}|2100")


@dataclass(frozen=True, slots=True)
class RelaxedGrader:
    """Numbers within a share of the gold answer, years and text exact."""

    tolerance: Annotated[float, Field(ge=0, le=1)] = 0.05
    """As a share of the gold answer; 5 % in ChartQA."""
    exact_years: bool = True
    """Whether a gold answer that is a year must be met exactly; the published script does not ask for that."""

    def grade(self, answer: str | None, task: Task) -> Verdict:
        """Return the verdict; see `Grader.grade`."""
        gold = gold_of(task)
        return judged(answer, task, lambda prediction: self._compare(prediction, gold))

    def _compare(self, prediction: str, gold: str) -> Verdict:
        target = items(gold) if gold.strip().startswith("[") and gold.strip().endswith("]") else (gold,)
        predicted = items(prediction) if len(target) > 1 else (prediction,)
        share = f"{100 * self.tolerance:g} %"
        if len(target) == len(predicted) and all(self._same(*pair) for pair in zip(predicted, target, strict=True)):
            return right(f"same text, or within {share}", prediction)
        return wrong(f"another text, or not within {share}", prediction)

    def _same(self, prediction: str, gold: str) -> bool:
        if same_text(prediction, gold):
            return True
        answer, target = quantity(prediction), quantity(gold)
        year = self.exact_years and _YEAR.fullmatch(folded(gold)) is not None
        # Through the decimal text: 0.05 is a twentieth and not the float nearest to it.
        tolerance = Tolerance(relative=Fraction(str(self.tolerance)))
        number = answer is not None and target is not None and same_quantity(answer, target, tolerance)
        return number and starts_as_number(gold) and not year


RELAXED = RelaxedGrader()
