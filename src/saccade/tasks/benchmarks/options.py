"""Choices of a row, however the source writes them: a list, columns, a text with letters, or inside the question.

Letters before options are taken off where all of them have theirs in order; dialects write letters anew. What only
looks like options and is not in order (`A`, `C`) is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import ascii_uppercase
from typing import Any

from saccade.tasks.benchmarks.card import Fields
from saccade.tasks.benchmarks.problem import FieldError, short
from saccade.tasks.benchmarks.values import as_text, first_value, list_in_text, missing

_HEAD = re.compile(r"\n?\s*(?:Choices?|Options?)\s*:\s*(?=\(?A\s*[.:)])", re.IGNORECASE)
_AT_LINE = re.compile(r"\n\s*(?=\(?A\s*[.:)])")
_ASKED = re.compile(
    r"\n\s*(?:Please )?(?:answer|select|choose|provide)\b[^\n]*\b(?:letters?|options?|choices?)\b[^\n]*\s*$", re.I
)
_MARK = r"(?:^|(?<=[\n;,])|(?<=\s))\s*\(?{letter}\s*[.:)]\s*"


def choices_of(row: Mapping[str, Any], fields: Fields) -> tuple[str, ...]:
    """The choices that a row holds outside its question; the card's default ones if it has none.

    Raises:
        FieldError: they are there and cannot be read.
    """
    columns = _from_columns(row) if fields.choices_from == "columns" else ()
    if columns:
        return columns
    value = first_value(row, fields.choices)
    if value is None:
        return fields.default_choices
    listed = _as_options(value)
    if listed is None:
        raise FieldError("choices", f"{short(value)} is no list of options")
    texts = tuple(as_text(item, "choices").strip() for item in listed if not missing(item))
    return _without_letters(texts)


def split_question(question: str) -> tuple[str, tuple[str, ...]]:
    """A question that ends in its options, as the question alone and the options; none if it has none.

    A last line that asks for the letter is taken off with the options: dialects ask in their own words.
    """
    if "B" not in question:  # two options at least have their letters
        return question, ()
    original, question = question, _ASKED.sub("", question)
    for head in (_HEAD, _AT_LINE):
        places = list(head.finditer(question))
        if places:
            options = lettered(question[places[-1].end() :])
            if options:
                return question[: places[-1].start()].rstrip(), options
    return original, ()


def lettered(text: str) -> tuple[str, ...]:
    """The options of a text such as `A. 3; B. 4` or one line for each; none unless they begin at `A` and go to `B`."""
    starts: list[tuple[int, int]] = []
    for letter in ascii_uppercase:
        mark = re.compile(_MARK.format(letter=letter)).search(text, starts[-1][1] if starts else 0)
        if mark is None or (not starts and text[: mark.start()].strip()):
            break
        starts.append((mark.start(), mark.end()))
    if len(starts) < 2:
        return ()
    ends = [start for start, _ in starts[1:]] + [len(text)]
    return tuple(text[begin:end].strip().rstrip(";,").strip() for (_, begin), end in zip(starts, ends, strict=True))


def _from_columns(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Fields `A`, `B`, ... up to the last that has a value; one that is empty before it is a fault."""
    present = [letter for letter in ascii_uppercase if not missing(row.get(letter))]
    expected = list(ascii_uppercase[: len(present)])
    if present != expected:
        raise FieldError("choices", f"there are the columns {', '.join(present)}, but not all before the last")
    return tuple(as_text(row[letter], letter).strip() for letter in present)


def _as_options(value: object) -> list[Any] | None:
    if isinstance(value, list | tuple):
        return list(value)
    if not isinstance(value, str):
        return None
    if value.lstrip().startswith("["):
        return list_in_text(value)
    return list(lettered(value) or _letter_and_space(value)) or None


def _letter_and_space(text: str) -> tuple[str, ...]:
    """The options of a text with a line for each, all with their letter and no mark behind it, as `A red`."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not 2 <= len(lines) <= len(ascii_uppercase):
        return ()
    own = all(line.startswith(f"{letter} ") for letter, line in zip(ascii_uppercase, lines, strict=False))
    return tuple(line[2:].strip() for line in lines) if own else ()


def _without_letters(options: tuple[str, ...]) -> tuple[str, ...]:
    if len(options) < 2 or len(options) > len(ascii_uppercase):
        return options
    bare = []
    for letter, option in zip(ascii_uppercase, options, strict=False):
        mark = re.match(rf"\(?{letter}(?:\s*[.:)]+\s+|\)\s*|\.\s*)(?=\S)", option)
        if mark is None:
            return options
        bare.append(option[mark.end() :])
    return tuple(bare)
