"""Load reward presets by id (`name`, `name@version`, `codedance@1:repo`), and rubrics that score single episodes.

An entry maps preset names to ready presets (see `PresetRegistry`); packages add entries in the group `saccade.rewards`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, cast

from pydantic import BaseModel, ValidationError

from saccade.core.registry import PresetRegistry, described
from saccade.core.seam import misfit
from saccade.core.settings import mistaken, mistakes_of
from saccade.errors import SettingsError
from saccade.grading.registry import load_grader, scored_by_rule
from saccade.record.trajectory import CORRECT, Score, Trajectory
from saccade.rewards.reward import RewardGroup, RewardPreset, needs_judge, pays_for_consistency, with_reward


def _lacks(value: object) -> str:
    if isinstance(value, type) or not callable(value):
        return f"it is {described(value)}, not a function of a Group or an object that is called with one"
    return misfit(value.__call__, RewardPreset.__call__, "__call__")


REWARDS: Final = PresetRegistry[RewardPreset](
    "rewards",
    {
        "pyvision-rl@1": "saccade.rewards.peers:PRESETS",
        "codedance@1": "saccade.rewards.codedance:PRESETS",
        "vista-r1@1": "saccade.rewards.vista:PRESETS",
        "codev@1": "saccade.rewards.codev:PRESETS",
        "deepeyes@1": "saccade.rewards.peers:DEEPEYES_PRESETS",
        "thyme@1": "saccade.rewards.peers:THYME_PRESETS",
        "pixel-reasoner@1": "saccade.rewards.peers:PIXEL_REASONER_PRESETS",
    },
    _lacks,
)


def load_reward(name: str, parameters: Mapping[str, object] | None = None) -> RewardPreset:
    """Load a preset by id or from the user's own code, with some of its parameters replaced.

    Raises `RegistryError`: nothing has that id or preset (suggests the nearest), it cannot be imported, or it is no
    reward; `SettingsError`: a parameter is unknown or wrong; names every mistake.
    """
    preset = REWARDS.load(name)
    if not parameters:
        return preset
    if not isinstance(preset, BaseModel):
        raise SettingsError(f"{name} takes no parameters; leave out {', '.join(parameters)}")
    try:
        return cast(RewardPreset, type(preset).model_validate({**preset.model_dump(), **parameters}))
    except ValidationError as error:
        raise mistaken(mistakes_of(type(preset), error), f"the parameters of {name}") from error


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

        Raises `RegistryError`: there is no such preset or grader; `SettingsError`: a parameter is wrong, or the preset
        needs a judge, which environments lack.
        """
        self._reward = load_reward(preset, parameters)
        self._grade = Graded(grader)
        if needs_judge(self._reward) or pays_for_consistency(self._reward):
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
