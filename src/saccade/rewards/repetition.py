"""VISTA's repetition penalty with thresholds of our own: the paper gives three levels and no rule.

Counted is how often a unit follows itself without a break, in what the model wrote: one character that is not white
space, one word, a phrase of 2 to 20 words, or a whole turn. Each unit has three thresholds; the worst level counts.

| unit | moderate, -1.5 | severe, -2 | extreme, -3 |
|---|---|---|---|
| character | 32 | 64 | 128 |
| word | 8 | 16 | 32 |
| phrase, turn | 4 | 8 | 16 |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Annotated, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from saccade.record.settings import Settings

_WORD: Final = re.compile(r"\w+|[^\w\s]+")
_RUN: Final = re.compile(r"(\S)\1+")
_RULES: Final = frozenset("-=_*#~.")

Steps = Annotated[tuple[int, int, int], Field(description="moderate, severe, extreme")]


class Repetition(IntEnum):
    """How bad it is."""

    NONE = 0
    MODERATE = 1
    SEVERE = 2
    EXTREME = 3


class RepetitionRule(Settings):
    """Repeats from which a level holds, for each unit."""

    characters: Steps = (32, 64, 128)
    """Characters that draw rules (`-=_*#~.`) are not counted: code and tables are full of them."""
    words: Steps = (8, 16, 32)
    phrases: Steps = (4, 8, 16)
    turns: Steps = (4, 8, 16)
    """Whole ones, word for word. Who says the same of many parts of a picture wants more."""
    longest_phrase: int = Field(default=20, ge=2)
    """Words."""


DEFAULT_RULE: Final = RepetitionRule()


def repetition(texts: Sequence[str], rule: RepetitionRule = DEFAULT_RULE) -> Repetition:
    """The worst level in the texts of an episode's turns."""
    levels = [_level(_longest_run([text.strip() for text in texts]), rule.turns)]
    for text in texts:
        runs = [len(match[0]) for match in _RUN.finditer(text) if match[1] not in _RULES]
        levels.append(_level(max(runs, default=1), rule.characters))
        codes = _codes(text)
        levels.append(_level(_repeats(codes, 1), rule.words))
        phrases = [_repeats(codes, length) for length in range(2, rule.longest_phrase + 1)]
        levels.append(_level(max(phrases), rule.phrases))
    return max(levels)


def _level(repeats: int, steps: Steps) -> Repetition:
    return Repetition(sum(repeats >= step for step in steps))


def _codes(text: str) -> NDArray[np.int64]:
    """Each word as a number; equal words get equal ones. Rules that are drawn count as different words."""
    known: dict[str, int] = {}
    words = enumerate(_WORD.findall(text))
    return np.array([-number if set(word) <= _RULES else known.setdefault(word, number) for number, word in words])


def _repeats(codes: NDArray[np.int64], length: int) -> int:
    """How often the most repeated stretch of `length` words stands there without a break; at least 1."""
    if len(codes) < 2 * length:
        return 1
    same = np.flatnonzero(np.concatenate(([False], codes[length:] == codes[:-length], [False])) == 0)
    return int(np.diff(same).max() - 1) // length + 1


def _longest_run(items: Sequence[str]) -> int:
    longest = run = min(len(items), 1)
    for before, item in pairwise(items):
        run = run + 1 if item == before else 1
        longest = max(longest, run)
    return longest
