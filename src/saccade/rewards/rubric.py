"""Score single episodes for environments: named parts, whose weighted sum is the reward.

A rubric sees the whole trajectory, gold answer included. It is called once per finished episode, never for an outage.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from saccade.errors import SettingsError
from saccade.grading.registry import load_grader, scored_by_rule
from saccade.record.trajectory import CORRECT, Score, Trajectory
from saccade.rewards.registry import load_reward
from saccade.rewards.reward import NeedsConsistency, RewardGroup, needs_judge, with_reward


class Rubric(Protocol):
    """Scores one trajectory."""

    def __call__(self, trajectory: Trajectory) -> tuple[Score, ...]:
        """Return the parts, each under a different name."""


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """One part, `correct`: 1.0 if the answer is the gold answer, else 0.0; None for a task without gold answer.

    Equal means the same text but for letter case, kinds and amounts of white space, and Unicode's ways to write one
    character (NFC). Nothing else is forgiven: no letter for a choice, no unit, no `4.0` for `4`, no full stop.
    """

    weight: float = 1.0

    def __call__(self, trajectory: Trajectory) -> tuple[Score, ...]:
        gold, answer = trajectory.task.answer, trajectory.answer
        value = None if gold is None else float(answer is not None and _plain(answer) == _plain(gold))
        return (Score(name=CORRECT, value=value, weight=self.weight, detail="exact match"),)


@dataclass(frozen=True, slots=True)
class Graded:
    """One part, `correct`, as in an evaluation: by `grader`, else the task's own, else the one for its answer type.

    None for a task that cannot be graded. Raises `RegistryError` for a grader that does not exist.
    """

    grader: str = ""

    def __post_init__(self) -> None:
        if self.grader:
            load_grader(self.grader)

    def __call__(self, trajectory: Trajectory) -> tuple[Score, ...]:
        return (scored_by_rule(trajectory.answer, trajectory.task, self.grader),)


class Rewarded:
    """The parts of a reward preset, as `reward.PART`, and `correct` with weight 0.

    An environment plays one rollout at a time, so group statistics (CodeDance's mu, VISTA's difficulty) are computed
    over a group of one.
    """

    def __init__(self, preset: str, parameters: Mapping[str, object] | None = None, grader: str = "") -> None:
        """Load the preset with this id, changed by `parameters`, and a grader as for `Graded`.

        Raises:
            RegistryError: there is no such preset or grader.
            SettingsError: a parameter is wrong, or the preset needs a judge, which environments lack.
        """
        self._reward = load_reward(preset, parameters)
        self._grade = Graded(grader)
        if needs_judge(self._reward) or isinstance(self._reward, NeedsConsistency):
            raise SettingsError(
                f"the reward {preset} needs a judge, and an environment has none. Take another, or a "
                "rubric of your own that asks one."
            )

    def __call__(self, trajectory: Trajectory) -> tuple[Score, ...]:
        graded = trajectory.with_scores(self._grade(trajectory))
        return with_reward(graded, *self._reward(RewardGroup((graded,)))).scores


def as_rubric(wanted: Rubric | str | None) -> Rubric:
    """Return a rubric unchanged, make one of a preset's id (raises as `Rewarded`), or take the task's grader."""
    if wanted is None:
        return Graded()
    return Rewarded(wanted) if isinstance(wanted, str) else wanted


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
