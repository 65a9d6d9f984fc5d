"""Compute VISTA-R1's reward (no repetition, form, right answer) and the other forms of the paper's ablation.

    paper:       R = R_rep + R_format + R_correct
    dense:       -1 + 0.5 R_format + 0.5 R_correct + R_format · R_correct
    sparse:      R_format · R_correct
    difficulty:  R · w,   w = 0.5 clamp(2 - D, 0, 1) + 0.5,   D the mean of R over the group

As in the formula, and against the paper's text, a well-formed wrong answer gets +1. The paper gives three levels of
repetition and no rule, so the thresholds are ours. In dense and sparse, repetition counts as bad form.
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

# A unit (character, word, phrase, whole turn) is counted as often as it follows itself without a break in the model's
# text; the worst level counts. Numbers and variables repeat in honest text ("5, 5, 5", "x + x + x", "5 cm, 5 cm"), so
# digits, and stretches without a word or with one word and a number, have higher thresholds.

_WORD: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|[^\w\s]+")
"""In scripts without spaces every character is a word."""
_RUN: Final = re.compile(r"(\S)\1+")
_RULES: Final = frozenset("-=_*#~.")
_SHORT: Final = 20
"""Phrases up to this many words are tried at every length; longer ones are found by repeated stretches of 8 words."""

Steps = Annotated[tuple[int, int, int], Field(description="moderate, severe, extreme")]


class Repetition(IntEnum):
    """Levels of repetition."""

    NONE = 0
    MODERATE = 1
    SEVERE = 2
    EXTREME = 3


class RepetitionRule(Settings):
    """For each unit the number of repeats from which each level holds."""

    characters: Steps = (32, 64, 128)
    """Not counted are characters that draw rules (`-=_*#~.`), common in code and tables."""
    digits: Steps = (128, 256, 512)
    words: Steps = (8, 16, 32)
    phrases: Steps = (4, 8, 16)
    numbers: Steps = (32, 64, 128)
    """Numbers, letters and signs, with at most one word next to a number."""
    turns: Steps = (4, 8, 16)
    """Identical turns. Raise this for tasks where honest turns repeat."""


DEFAULT_RULE: Final = RepetitionRule()


def repetition(texts: Sequence[str], rule: RepetitionRule = DEFAULT_RULE) -> Repetition:
    """Return the worst level in the texts of an episode's turns."""
    levels = [_level(_longest_run([text.strip() for text in texts]), rule.turns)]
    for text in texts:
        for match in _RUN.finditer(text):
            if match[1] not in _RULES:
                levels.append(_level(len(match[0]), rule.digits if match[1].isdigit() else rule.characters))
        words = _Words(text)
        for length in words.lengths():
            said, counted = words.repeats(length)
            levels.append(_level(said, rule.words if length == 1 else rule.phrases))
            levels.append(_level(counted, rule.numbers))
    return max(levels)


class _Words:
    """The words of a text as integer codes, (words,); equal words have equal codes, but drawn rules never."""

    def __init__(self, text: str) -> None:
        tokens = _WORD.findall(text)
        known: dict[str, int] = {}
        codes = [~n if _is_rule(word) else known.setdefault(word, n) for n, word in enumerate(tokens)]
        digits = [any(map(str.isdigit, word)) for word in tokens]
        words = [not digit and _is_word(word) for digit, word in zip(digits, tokens, strict=True)]
        self.codes = np.array(codes, np.int64)
        self.words = _counted(words)
        """How many of the first n are words of letters, (words + 1,)."""
        self.digits = _counted(digits)
        """How many of the first n hold a digit, (words + 1,)."""

    def lengths(self) -> Iterator[int]:
        """Return the lengths of stretches that may repeat, in words.

        Long ones are found by the distances between equal runs of eight words.
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
        """Count the most unbroken repeats of any stretch of `length` words: for words, and for numbers."""
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
        """Tell whether a stretch itself repeats a shorter one, so that it is counted at that length only."""
        part = self.codes[start : start + length]
        return any(np.array_equal(part[step:], part[:-step]) for step in steps)


def _is_rule(word: str) -> bool:
    return len(word) > 1 and set(word) <= _RULES


def _is_word(word: str) -> bool:
    """Tell whether this is a word of letters; a single ASCII letter is a variable."""
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


class VistaReward(Settings):
    """One of the four forms."""

    form: Literal["sum", "dense", "sparse", "difficulty"] = "sum"
    repeats: RepetitionRule = DEFAULT_RULE
    penalties: tuple[float, float, float] = (-1.5, -2.0, -3.0)
    """For moderate, severe and extreme repetition."""
    right_from: float = Field(default=1.0, gt=0, le=1)
    """Lowest accuracy that counts as right."""
    protocol: Literal["vista", "code"] = "vista"
    """`vista`: a thought, then a typed call or an answer. `code` (ours) is for models without thoughts: only code, a
    typed call or an answer."""

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Return parts `repetition`, `format`, `correct`; dense also has `base` and `format_and_correct`."""
        plain = reward_each(group, lambda number, trajectory: self._sum(trajectory))
        if self.form == "sum":
            return plain
        difficulty = mean_of([item.total for item in plain])
        if self.form == "difficulty":
            return reward_each(group, lambda number, trajectory: _scaled(plain[number], difficulty))
        return reward_each(group, lambda number, trajectory: _product(plain[number], self.form == "dense"))

    def _sum(self, trajectory: Trajectory) -> Reward:
        level = repetition([turn.text for turn in trajectory.turns], self.repeats)
        right = accuracy(trajectory)
        repeated = level is not Repetition.NONE
        in_form = follows_protocol if self.protocol == "vista" else only_actions
        formed = not repeated and in_form(trajectory)
        correct = None if right is None else float(formed and right >= self.right_from)
        return Reward(
            parts=(
                Score(
                    name="repetition",
                    value=self.penalties[level - 1] if repeated else 0.0,
                    detail=level.name.lower() if repeated else "",
                ),
                Score(name="format", value=0.0 if repeated else 1.0 if formed else -1.0),
                Score(name="correct", value=correct),
            )
        )


def _product(reward: Reward, dense: bool) -> Reward:
    """Return the dense or the sparse form; repetition, here of weight 0, counts as bad form."""
    form, right = (reward.part(name).value for name in ("format", "correct"))
    form = -1.0 if form == 0.0 else form
    both = None if form is None or right is None else form * right
    weight = 0.5 if dense else 0.0
    return Reward(
        parts=(
            reward.part("repetition").model_copy(update={"weight": 0.0}),
            *((Score(name="base", value=-1.0),) if dense else ()),
            Score(name="format", value=form, weight=weight),
            Score(name="correct", value=right, weight=weight),
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
