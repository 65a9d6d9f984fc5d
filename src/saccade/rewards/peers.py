"""Compute the rewards of PyVision-RL, DeepEyes, Thyme and Pixel-Reasoner, from their papers or released code."""

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
    """PyVision-RL's accumulative tool reward, R = accuracy + 0.1 · calls · [right] (equation 1).

    `paper` pays for every call of a right rollout, also repeated and silent ones. `binary` is the same formula with
    answers that are right or wrong, the numbers of videos from an MRA of 0.5 on. `repo` adds the gate of the released
    code, which requires the strict answer form; not adopted are its bonus for right rollouts with an overlong answer
    and its reading of a number from the first digits of the text.
    """

    tool_weight: float = 0.1
    right_from: float = Field(default=1.0, gt=0, le=1)
    """Lowest accuracy that counts as right: 1 in the paper, 0.5 in the code."""
    binary: bool = False
    """Whether an answer is right or wrong, as the paper writes R_acc, also where its grader gives parts (MRA)."""
    count_failed: bool = True
    """Whether failed calls count; in the published runtime none can precede a right answer."""
    strict_form: bool = False
    """Whether the answer must be boxed on its own line between answer tags."""

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Return parts `accuracy` and `tool_calls` (weight 0: `calls`)."""
        return reward_each(group, self._reward)

    def _reward(self, number: int, trajectory: Trajectory) -> Reward:
        value = accuracy(trajectory)
        gated = value is not None and self.strict_form and not boxed_answer(trajectory)
        value = 0.0 if gated else value
        if self.binary and value is not None:
            value = float(value >= self.right_from)
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
    {
        "paper": PyVisionRlReward(),
        "repo": PyVisionRlReward(right_from=0.5, strict_form=True),
        "binary": PyVisionRlReward(right_from=0.5, binary=True),
    }
)


class DeepEyesReward(Settings):
    """DeepEyes' reward as in its code: R = 0.8 accuracy + 0.2 format + 1.2 [a picture came back and right].

    Format is -1 or 0; a second call pays nothing. `repo` is for visual tasks, `math` for text-like ones (1.2, 0.4, no
    tool). A missing answer is wrong here, whereas the code lets a judge read the whole text.
    """

    accuracy_weight: float = 0.8
    format_weight: float = 0.2
    tool_weight: float = 1.2

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Return parts `accuracy`, `format` and `tool` (weight 0: `calls`)."""
        return reward_each(group, self._reward)

    def _reward(self, number: int, trajectory: Trajectory) -> Reward:
        right = accuracy(trajectory)
        used = None if right is None else float(right > 0.5 and returned_pictures(trajectory) > 0)
        form = 0.0 if tags_in_order(trajectory, ("think", "tool_call", "code", "answer")) else -1.0
        return Reward(
            parts=(
                Score(name="accuracy", value=right, weight=self.accuracy_weight),
                Score(name="format", value=form, weight=self.format_weight),
                Score(name="tool", value=used, weight=self.tool_weight),
                Score(name="calls", value=float(len(calls(trajectory))), weight=0.0),
            )
        )


DEEPEYES_PRESETS: Final = MappingProxyType(
    {"repo": DeepEyesReward(), "math": DeepEyesReward(accuracy_weight=1.2, format_weight=0.4, tool_weight=0.0)}
)


class ThymeReward(Settings):
    """Thyme's reward as in its code: R = accuracy + 0.5 format + 0.5 consistency · [accuracy > 0].

    Consistency is the score `consistent`, which a judge (`reward.consistency_judge` of a recipe) must have put on the
    trajectory; a right rollout without it has no total.
    """

    accuracy_weight: float = 1.0
    format_weight: float = 0.5
    consistency_weight: float = 0.5

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Return parts `accuracy`, `format` and `consistency`."""
        return reward_each(group, self._reward)

    @property
    def judged(self) -> bool:
        """Whether consistency has a weight."""
        return self.consistency_weight != 0

    def needs_consistency(self, trajectory: Trajectory) -> bool:
        """Tell whether the judge must be asked: only a right trajectory is paid for consistency."""
        return self.judged and not trajectory.lost and (accuracy(trajectory) or 0.0) > 0

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


class PixelReasonerReward(Settings):
    """Pixel-Reasoner's reward as verl-tool computes it: tools pay while the group uses them too little.

        R = accuracy + 0.5 max(0, 0.3 - rate) · [a valid call] + 0.05 min(1 - valid calls, 0)

    The rate is the share of the group's rollouts with a valid call. verl-tool's asynchronous path computes it over a
    single rollout, so that the bonus is never paid.
    """

    curiosity_weight: float = 0.5
    target: float = 0.3
    """Share of rollouts with a call below which curiosity is paid."""
    redundancy_weight: float = 0.05

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Return parts `accuracy`, `curiosity` and `redundancy` (weight 0: `rate`)."""
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
