"""VISTA-R1's reward: no repetition, then form, then a right answer; and the other forms of the paper's ablation.

    paper:       R = R_rep + R_format + R_correct
    dense:       -1 + 0.5 R_format + 0.5 R_correct + R_format · R_correct
    sparse:      R_format · R_correct
    difficulty:  R · w,   w = 0.5 clamp(2 - D, 0, 1) + 0.5,   D the mean of R over the group

As the formula says, and against the paper's text, a well-formed wrong answer gets +1. Thresholds of repetition are
ours (`saccade.rewards.vista`). Dense and sparse have no term for repetition: there it counts as bad form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from saccade.core.settings import Settings
from saccade.record.trajectory import Score, Trajectory
from saccade.rewards.reward import Reward, RewardGroup, accuracy, follows_protocol, mean_of, only_actions, reward_each

# VISTA's repetition penalty with thresholds of our own: the paper gives three levels and no rule.
#
# Counted is how often a unit follows itself without a break, in what the model wrote: one character that is not white
# space, one word, a phrase of any length, or a whole turn. Each unit has three thresholds; the worst level counts.
# Numbers and variables repeat in honest text ("5, 5, 5, 5, 5", "x + x + x", "5 cm, 5 cm", "3.333"), so a unit without a
# word, or with one beside a number, is counted by thresholds of its own, and so are digits.
#
# | unit | moderate, -1.5 | severe, -2 | extreme, -3 |
# |---|---|---|---|
# | character | 32 | 64 | 128 |
# | digit | 128 | 256 | 512 |
# | word | 8 | 16 | 32 |
# | phrase, turn | 4 | 8 | 16 |
# | number | 32 | 64 | 128 |


_WORD: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|[^\w\s]+")
"""Scripts that are written without spaces have a word for each character."""
_RUN: Final = re.compile(r"(\S)\1+")
_RULES: Final = frozenset("-=_*#~.")
_SHORT: Final = 20
"""Words up to which every length of a phrase is tried; longer ones are found by what they hold once."""

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
    digits: Steps = (128, 256, 512)
    words: Steps = (8, 16, 32)
    phrases: Steps = (4, 8, 16)
    numbers: Steps = (32, 64, 128)
    """Numbers, letters and signs, with at most one word beside a number."""
    turns: Steps = (4, 8, 16)
    """Whole ones, word for word. Who says the same of many parts of a picture wants more."""


DEFAULT_RULE: Final = RepetitionRule()


def repetition(texts: Sequence[str], rule: RepetitionRule = DEFAULT_RULE) -> Repetition:
    """The worst level in the texts of an episode's turns."""
    levels = [_level(_longest_run([text.strip() for text in texts]), rule.turns)]
    for text in texts:
        for match in _RUN.finditer(text):
            if match[1] not in _RULES:
                levels.append(_level(len(match[0]), rule.digits if match[1].isdigit() else rule.characters))
        levels += _levels(_Words.of(text), rule)
    return max(levels)


class _Words:
    """The words of a text as numbers, (words,); equal words have equal ones."""

    def __init__(self, codes: NDArray[np.int64], words: NDArray[np.int64], digits: NDArray[np.int64]) -> None:
        self.codes = codes
        self.words = words
        """How many of the first n are words of letters, (words + 1,)."""
        self.digits = digits
        """How many of the first n hold a digit, (words + 1,)."""

    @classmethod
    def of(cls, text: str) -> _Words:
        """Rules that are drawn count as different words."""
        tokens = _WORD.findall(text)
        known: dict[str, int] = {}
        codes = [~n if _is_rule(word) else known.setdefault(word, n) for n, word in enumerate(tokens)]
        digits = [any(map(str.isdigit, word)) for word in tokens]
        words = [not digit and _is_word(word) for digit, word in zip(digits, tokens, strict=True)]
        return cls(np.array(codes, np.int64), _counted(words), _counted(digits))

    def lengths(self) -> Iterator[int]:
        """Lengths of stretches that may repeat, in words.

        A stretch holds some eight words in a row but once; so where it is repeated three times, their distances say it.
        """
        most = len(self.codes) // 2
        yield from range(1, min(_SHORT, most) + 1)
        if most > _SHORT:
            last: dict[bytes, int] = {}
            apart: dict[int, int] = {}
            for at in range(len(self.codes) - 7):
                key = self.codes[at : at + 8].tobytes()
                if (before := last.get(key)) is not None and at - before > _SHORT:
                    apart[at - before] = apart.get(at - before, 0) + 1
                last[key] = at
            yield from (length for length, times in apart.items() if times > 1)

    def repeats(self, length: int) -> tuple[int, int]:
        """How often a stretch of `length` words stands there without a break: the most for words, and for numbers."""
        same = np.flatnonzero(np.concatenate(([False], self.codes[length:] == self.codes[:-length], [False])) == 0)
        starts, counts = same[:-1], (np.diff(same) - 1) // length + 1
        shorter = [step for step in range(1, length // 2 + 1) if length % step == 0]
        own = [run for run in np.flatnonzero(counts >= 2) if not self._repeats_inside(starts[run], length, shorter)]
        starts, counts = starts[own], counts[own]
        words = self.words[starts + length] - self.words[starts]
        numbers = self.digits[starts + length] - self.digits[starts]
        plain = (words == 0) | ((words == 1) & (numbers > 0))
        return int(counts[~plain].max(initial=1)), int(counts[plain].max(initial=1))

    def _repeats_inside(self, start: int, length: int, steps: Sequence[int]) -> bool:
        """Whether a stretch is a shorter one several times: two `5 cm` are no phrase of two words."""
        part = self.codes[start : start + length]
        return any(np.array_equal(part[step:], part[:-step]) for step in steps)


def _levels(words: _Words, rule: RepetitionRule) -> Iterator[Repetition]:
    for length in words.lengths():
        said, counted = words.repeats(length)
        yield _level(said, rule.words if length == 1 else rule.phrases)
        yield _level(counted, rule.numbers)


def _is_rule(word: str) -> bool:
    return len(word) > 1 and set(word) <= _RULES


def _is_word(word: str) -> bool:
    """A letter alone is a variable, where letters make words."""
    return any(map(str.isalpha, word)) and (len(word) > 1 or not word.isascii())


def _counted(items: Sequence[bool]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(items, dtype=np.int64)))


def _level(repeats: int, steps: Steps) -> Repetition:
    return Repetition(sum(repeats >= step for step in steps))


def _longest_run(items: Sequence[str]) -> int:
    longest = run = min(len(items), 1)
    for before, item in pairwise(items):
        run = run + 1 if item == before else 1
        longest = max(longest, run)
    return longest


RIGHT: Final = 1.0


class VistaReward(Settings):
    """One of the four forms."""

    form: Literal["sum", "dense", "sparse", "difficulty"] = "sum"
    repeats: RepetitionRule = DEFAULT_RULE
    penalties: tuple[float, float, float] = (-1.5, -2.0, -3.0)
    """Of moderate, severe and extreme repetition."""
    right_from: float = Field(default=RIGHT, gt=0, le=1)
    """Accuracy from which an answer is right."""
    protocol: Literal["vista", "code"] = "vista"
    """`vista`: a thought and a typed call or an answer. `code` is ours, for models that write no thoughts: code, a
    typed call or an answer alone."""

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Parts `repetition`, `format`, `correct`; the dense form has `base` and `format_and_correct` too."""
        plain = reward_each(group, lambda number, trajectory: self._sum(trajectory))
        if self.form == "sum":
            return plain
        difficulty = mean_of([item.total for item in plain])
        return reward_each(group, lambda number, trajectory: self._other(plain[number], difficulty))

    def _other(self, plain: Reward, difficulty: float | None) -> Reward:
        if self.form == "difficulty":
            return _scaled(plain, difficulty)
        return _dense(plain) if self.form == "dense" else _sparse(plain)

    def _sum(self, trajectory: Trajectory) -> Reward:
        level = repetition([turn.text for turn in trajectory.turns], self.repeats)
        right = accuracy(trajectory)
        repeated = level is not Repetition.NONE
        in_form = follows_protocol if self.protocol == "vista" else only_actions
        formed = not repeated and in_form(trajectory)
        correct = None if right is None else float(formed and right >= self.right_from)
        return Reward(
            parts=(
                Score(name="repetition", value=self.penalties[level - 1] if repeated else 0.0, detail=_said(level)),
                Score(name="format", value=0.0 if repeated else 1.0 if formed else -1.0),
                Score(name="correct", value=correct),
            )
        )


def _said(level: Repetition) -> str:
    return "" if level is Repetition.NONE else level.name.lower()


def _values(reward: Reward) -> tuple[Score, float | None, float | None]:
    """The part of repetition as observed, form (-1 where something is repeated) and correctness."""
    repeats = reward.part("repetition")
    form = reward.part("format").value
    return repeats.model_copy(update={"weight": 0.0}), -1.0 if form == 0.0 else form, reward.part("correct").value


def _dense(reward: Reward) -> Reward:
    repeats, form, right = _values(reward)
    both = None if form is None or right is None else form * right
    return Reward(
        parts=(
            repeats,
            Score(name="base", value=-1.0),
            Score(name="format", value=form, weight=0.5),
            Score(name="correct", value=right, weight=0.5),
            Score(name="format_and_correct", value=both),
        )
    )


def _sparse(reward: Reward) -> Reward:
    repeats, form, right = _values(reward)
    both = None if form is None or right is None else form * right
    return Reward(
        parts=(
            repeats,
            Score(name="format", value=form, weight=0.0),
            Score(name="correct", value=right, weight=0.0),
            Score(name="format_and_correct", value=both),
        )
    )


def _scaled(reward: Reward, difficulty: float | None) -> Reward:
    weight = 1.0 if difficulty is None else 0.5 * min(max(2.0 - difficulty, 0.0), 1.0) + 0.5
    parts = tuple(part.model_copy(update={"weight": weight}) for part in reward.parts)
    return Reward(parts=(*parts, Score(name="difficulty", value=difficulty, weight=0.0)))


PRESETS: Final = MappingProxyType(
    {
        "paper": VistaReward(),
        "dense": VistaReward(form="dense"),
        "sparse": VistaReward(form="sparse"),
        "difficulty": VistaReward(form="difficulty"),
    }
)
