"""VISTA-R1's reward: no repetition, then form, then a right answer; and the other forms of the paper's ablation.

    paper:       R = R_rep + R_format + R_correct
    dense:       -1 + 0.5 R_format + 0.5 R_correct + R_format · R_correct
    sparse:      R_format · R_correct
    difficulty:  R · w,   w = 0.5 clamp(2 - D, 0, 1) + 0.5,   D the mean of R over the group

As the formula says, and against the paper's text, a well-formed wrong answer gets +1. Thresholds of repetition are
ours (`saccade.rewards.repetition`). Dense and sparse have no term for repetition: there it counts as bad form.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, Literal

from pydantic import Field

from saccade.record.score import Score
from saccade.record.settings import Settings
from saccade.record.trajectory import Trajectory
from saccade.rewards.form import follows_protocol, only_actions
from saccade.rewards.reading import accuracy
from saccade.rewards.repetition import DEFAULT_RULE, Repetition, RepetitionRule, repetition
from saccade.rewards.reward import Reward, RewardGroup, mean_of, reward_each

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
