"""From the rollouts of one task to their rewards: grades, verdicts of a judge, named parts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from saccade.grading.grade import scored_by_rule
from saccade.media.store import MediaStore
from saccade.models.kept import KeptModel
from saccade.models.registry import load_model
from saccade.record.trajectory import Trajectory
from saccade.rewards.judges.group import judged
from saccade.rewards.judges.registry import JudgeContext, make_judge
from saccade.rewards.judges.verdict import Judge
from saccade.rewards.reward import Reward, RewardPreset, unscored
from saccade.rl.play.rollouts import Played
from saccade.rl.recipe import RewardSettings


@dataclass(frozen=True, slots=True)
class Scored:
    """A rollout and what it is worth."""

    played: Played
    reward: Reward

    @property
    def trajectory(self) -> Trajectory:
        """With its score `correct`."""
        return self.played.trajectory


@dataclass(frozen=True, slots=True)
class Scorer:
    """A reward with its judge."""

    preset: RewardPreset
    judge: Judge | None = None

    async def __call__(self, group: Sequence[Played]) -> list[Scored]:
        """The rollouts of one task with their rewards; one that cannot be trained on has none."""
        graded = await asyncio.to_thread(lambda: [with_grade(item.trajectory) for item in group])
        rewards = self.preset(await judged(self.judge, graded))
        return [
            Scored(
                Played(trajectory, item.tokens),
                unscored(reward, "it has no turn to be trained on") if item.tokens is None else reward,
            )
            for item, trajectory, reward in zip(group, graded, rewards, strict=True)
        ]


def with_grade(trajectory: Trajectory) -> Trajectory:
    """The trajectory with the score `correct`; without a value where its task cannot be graded."""
    return trajectory.with_scores([scored_by_rule(trajectory.answer, trajectory.task)])


def load_judge(settings: RewardSettings, store: MediaStore, kept: Path) -> Judge | None:
    """The judge that a recipe names; replies of a model are kept in the folder `kept`.

    Raises:
        RegistryError: there is no such judge or model.
    """
    if settings.judge == "none":
        return None
    model = KeptModel(load_model(settings.judge_model), kept) if settings.judge_model else None
    return make_judge(settings.judge, JudgeContext(store, model))
