"""PyVision-RL's accumulative tool reward: accuracy, and a little for every call of a right rollout (paper, equation 1).

`paper` pays for all calls of a right rollout, repeated and silent ones too: so does the formula. `repo` adds the gate
of the released code: an answer of any other form than the strict one is wrong. Not taken over from there: a bonus
for right rollouts whose answer is too long to count, and a number read from the first digits of the whole text.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from pydantic import Field

from saccade.core.settings import Settings
from saccade.record.trajectory import Score, Trajectory
from saccade.rewards.judges.answer import CONSISTENT
from saccade.rewards.reward import (
    Reward,
    RewardGroup,
    accuracy,
    boxed_answer,
    calls,
    failed,
    mean_of,
    one_thought_one_answer,
    returned_pictures,
    reward_each,
    succeeded,
    tags_in_order,
)


class PyVisionRlReward(Settings):
    """R = accuracy + 0.1 · calls · [right]."""

    tool_weight: float = 0.1
    right_from: float = Field(default=1.0, gt=0, le=1)
    """Accuracy from which a rollout is right: 1 as the paper writes it, 0.5 in the code."""
    count_failed: bool = True
    """Whether calls that failed count; in the published runtime none can precede a right answer."""
    strict_form: bool = False
    """Whether an answer must stand in a box on a line of its own between answer tags."""

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Parts `accuracy` and `tool_calls`; observed beside them: `calls`."""
        return reward_each(group, self._reward)

    def _reward(self, number: int, trajectory: Trajectory) -> Reward:
        value = accuracy(trajectory)
        gated = value is not None and self.strict_form and not boxed_answer(trajectory)
        value = 0.0 if gated else value
        counted = [turn for turn in calls(trajectory) if self.count_failed or not failed(trajectory.turns[turn])]
        paid = None if value is None else float(len(counted) if value >= self.right_from else 0)
        return Reward(
            parts=(
                Score(name="accuracy", value=value, detail="the answer has not the strict form" if gated else ""),
                Score(name="tool_calls", value=paid, weight=self.tool_weight),
                Score(name="calls", value=float(len(counted)), weight=0.0),
            )
        )


PRESETS: Final = MappingProxyType(
    {"paper": PyVisionRlReward(), "repo": PyVisionRlReward(right_from=0.5, strict_form=True)}
)


# DeepEyes' reward as its code has it: right, in form, and a picture was asked for on the way to a right answer.
#
# `repo` is for visual tasks (0.8 accuracy, 0.2 format, 1.2 tool), `math` for text-like ones (1.2, 0.4, no tool). The
# tool part is one lump: a second call pays nothing. There, a judge reads the whole text where there is no answer; here
# a missing answer is wrong.


_TAGS: Final = ("think", "tool_call", "code", "answer")
RIGHT: Final = 0.5


class DeepEyesReward(Settings):
    """R = 0.8 accuracy + 0.2 format + 1.2 [a picture came back and right]; format is -1 or 0."""

    accuracy_weight: float = 0.8
    format_weight: float = 0.2
    tool_weight: float = 1.2

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Parts `accuracy`, `format` and `tool`; observed: `calls`."""
        return reward_each(group, self._reward)

    def _reward(self, number: int, trajectory: Trajectory) -> Reward:
        right = accuracy(trajectory)
        used = None if right is None else float(right > RIGHT and returned_pictures(trajectory) > 0)
        return Reward(
            parts=(
                Score(name="accuracy", value=right, weight=self.accuracy_weight),
                Score(
                    name="format", value=0.0 if tags_in_order(trajectory, _TAGS) else -1.0, weight=self.format_weight
                ),
                Score(name="tool", value=used, weight=self.tool_weight),
                Score(name="calls", value=float(len(calls(trajectory))), weight=0.0),
            )
        )


DEEPEYES_PRESETS: Final = MappingProxyType(
    {"repo": DeepEyesReward(), "math": DeepEyesReward(accuracy_weight=1.2, format_weight=0.4, tool_weight=0.0)}
)


# Thyme's reward as its code has it: right, in form, and a thought that agrees with the answer, paid only if right.
#
# Whether thought and answer agree is the score `consistent` that a judge must have put on the trajectory
# (`reward.consistency_judge` of a recipe); without it a right rollout has no total, and a wrong one needs none.


class ThymeReward(Settings):
    """R = accuracy + 0.5 format + 0.5 consistency · [accuracy > 0]."""

    accuracy_weight: float = 1.0
    format_weight: float = 0.5
    consistency_weight: float = 0.5

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Parts `accuracy`, `format` and `consistency`."""
        return reward_each(group, self._reward)

    def needs_consistency(self, trajectory: Trajectory) -> bool:
        """Whether the judge must be asked about a trajectory: only a right one is paid for it."""
        return self.consistency_weight != 0 and not trajectory.lost and (accuracy(trajectory) or 0.0) > 0

    def _reward(self, number: int, trajectory: Trajectory) -> Reward:
        right = accuracy(trajectory)
        consistency = next((score for score in trajectory.scores if score.name == CONSISTENT), Score(name=CONSISTENT))
        agrees = 0.0 if right is not None and right <= 0 else None if right is None else consistency.value
        return Reward(
            parts=(
                Score(name="accuracy", value=right, weight=self.accuracy_weight),
                Score(name="format", value=float(one_thought_one_answer(trajectory)), weight=self.format_weight),
                Score(name="consistency", value=agrees, weight=self.consistency_weight, detail=consistency.detail),
            )
        )


THYME_PRESETS: Final = MappingProxyType({"repo": ThymeReward()})


# Pixel-Reasoner's curiosity as verl-tool computes it: tools pay while the group uses them too little.
#
#     R = accuracy + 0.5 max(0, 0.3 - rate) · [a call was made] + 0.05 min(1 - valid calls, 0)
#
# The rate is the share of the group's rollouts that made a valid call. verl-tool's asynchronous path computes it over a
# single rollout, so that the bonus is never paid; here it is the group's.


class PixelReasonerReward(Settings):
    """Accuracy, curiosity and a price for each call after the first."""

    curiosity_weight: float = 0.5
    target: float = 0.3
    """Share of rollouts with a call below which curiosity is paid."""
    redundancy_weight: float = 0.05

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Parts `accuracy`, `curiosity` and `redundancy`; observed: `rate`."""
        used = [None if item.lost else float(_valid(item) > 0) for item in group.trajectories]
        rate = mean_of(used)
        return reward_each(group, lambda number, trajectory: self._reward(trajectory, rate))

    def _reward(self, trajectory: Trajectory, rate: float | None) -> Reward:
        valid = _valid(trajectory)
        curious = None if rate is None else max(0.0, self.target - rate) * float(valid > 0)
        return Reward(
            parts=(
                Score(name="accuracy", value=accuracy(trajectory)),
                Score(name="curiosity", value=curious, weight=self.curiosity_weight),
                Score(name="redundancy", value=float(min(1 - valid, 0)), weight=self.redundancy_weight),
                Score(name="rate", value=rate, weight=0.0),
            )
        )


def _valid(trajectory: Trajectory) -> int:
    return sum(succeeded(trajectory.turns[number]) for number in calls(trajectory))


PIXEL_REASONER_PRESETS: Final = MappingProxyType({"verl-tool": PixelReasonerReward()})
