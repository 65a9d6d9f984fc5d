"""Ranking groups by their spread leaves fewer right rollouts with a negative advantage; dividing by it spreads more.

Measured on one run's own groups, step by step: the groups that the filters leave, cut to a batch once by their spread
and once in the order in which they came; and the advantages of the ranked batch, once divided by the standard deviation
and once not. Beside it, if there is an arm without ranking, the share of both over training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import numpy as np

from saccade.episode.run_folder import TRAJECTORIES
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory
from saccade.reproduce.claim import Claim
from saccade.reproduce.evidence import Evidence, blocks
from saccade.reproduce.finding import Expectation, MeasuredEffect
from saccade.reproduce.settings import Arm, Reproduction
from saccade.rewards.reward import Reward, RewardGroup
from saccade.rl.advantages.rules import Grpo
from saccade.rl.rollout import Rollout, RolloutGroup, group_of
from saccade.rl.select.oversample import OversampleFilterRank
from saccade.rl.select.selection import Selection
from saccade.rl.train.settings import RlSettings

SORTED: Final = "sorted"
UNSORTED: Final = "unsorted"
_STEPS: Final = "blocks of steps"
_SHARE: Final = "right_with_negative_advantage"


def _expectations(settings: Reproduction) -> tuple[Expectation, ...]:
    expectations = [
        Expectation("share", "right rollouts with a negative advantage: ranked minus not ranked", "below", 0.0, _STEPS),
        Expectation("variance", "variance of advantages: divided by std minus not divided", "above", 0.0, _STEPS),
    ]
    if any(arm.name == UNSORTED for arm in settings.arms):
        says = f"the same share over training: {SORTED} minus {UNSORTED}"
        expectations.append(Expectation("training", says, "below", 0.0, _STEPS, decides=False))
    return tuple(expectations)


def _wrong(settings: Reproduction, arms: Mapping[str, RlSettings]) -> str:
    recipe = arms[SORTED].recipe
    if not isinstance(recipe.selection, OversampleFilterRank):
        return f"arm {SORTED} must select by oversample-filter-rank, and selects by {recipe.selection.rule}"
    if recipe.selection.groups >= recipe.rounds.tasks or recipe.rounds.rounds != 1:
        return (
            f"arm {SORTED} needs rounds.rounds=1 and fewer selection.groups ({recipe.selection.groups}) than "
            f"rounds.tasks ({recipe.rounds.tasks}), else nothing is ranked out"
        )
    return "" if arms[SORTED].rollouts.every == 1 else f"arm {SORTED} must keep its rollouts: rollouts.every=1"


def _measure(evidence: Evidence) -> Mapping[str, MeasuredEffect]:
    settings = evidence.settings
    arm = settings.arm(SORTED)
    share, variance = [], []
    for seed in settings.seeds:
        both = [_of_step(step, evidence, arm) for step in recorded(evidence, arm, seed)]
        share.append(blocks([item[0] for item in both]))
        variance.append(blocks([item[1] for item in both]))
    found = {"share": MeasuredEffect(tuple(share)), "variance": MeasuredEffect(tuple(variance))}
    if any(item.name == UNSORTED for item in settings.arms):
        found["training"] = evidence.between_steps(arm, settings.arm(UNSORTED), _SHARE)
    return found


def recorded(evidence: Evidence, arm: Arm, seed: int) -> Iterator[list[RolloutGroup]]:
    """The groups of every step whose rollouts were kept, with the rewards of the arm.

    Raises:
        RecordError: they cannot be read.
    """
    recipe = evidence.arms[arm.name].recipe
    reward = recipe.load_reward()
    path = evidence.places.arm(arm, seed) / "rollouts" / TRAJECTORIES
    if not path.exists():  # the arm could not be trained
        return
    rollouts = sorted(read_lines(path, Trajectory), key=lambda item: (_place(item), item.id))
    groups = [tuple(item) for _, item in groupby(rollouts, _place)]
    numbered = [(_place(item[0]), _scored(item, reward(RewardGroup(item)))) for item in groups]
    for _, step in groupby(numbered, lambda item: item[0] // recipe.rounds.tasks):
        yield [group for _, group in step]


def _scored(trajectories: Sequence[Trajectory], rewards: Sequence[Reward]) -> RolloutGroup:
    return group_of([Rollout(item, reward=reward) for item, reward in zip(trajectories, rewards, strict=True)])


def _place(trajectory: Trajectory) -> int:
    return int(trajectory.group.rpartition("@")[2])


def _of_step(groups: Sequence[RolloutGroup], evidence: Evidence, arm: Arm) -> tuple[float | None, float | None]:
    """Difference of the share, and of the variance; None where nothing was selected."""
    rule = evidence.arms[arm.name].recipe.selection
    assert isinstance(rule, OversampleFilterRank), "checked before anything was run"
    ranked, plain = rule(groups), rule.model_copy(update={"rank": False})(groups)
    shares = share(ranked), share(plain)
    difference = None if shares[0] is None or shares[1] is None else shares[0] - shares[1]
    if not ranked.kept:
        return difference, None
    return difference, _variance(ranked, divide=True) - _variance(ranked, divide=False)


def share(selection: Selection) -> float | None:
    """Right rollouts with a negative advantage among the right ones that are trained on; None without any."""
    compared = Grpo(divide_by_std=False)(selection)
    signs = [item.advantage.sequence < 0 for item in compared if item.right and item.advantage is not None]
    return sum(signs) / len(signs) if signs else None


def _variance(selection: Selection, *, divide: bool) -> float:
    compared = Grpo(divide_by_std=divide)(selection)
    return float(np.var([item.advantage.sequence for item in compared if item.advantage is not None]))


CLAIM: Final = Claim(
    "std-sorting",
    "std sorting lowers the share of right rollouts with negative advantage; removing std normalisation lowers the "
    "variance of advantages",
    "PyVision-RL, figures 6 and 16",
    _expectations,
    _measure,
    ((_SHARE, "right rollouts with a negative advantage"), ("accuracy", "accuracy of rollouts")),
    (SORTED,),
    _wrong,
)
