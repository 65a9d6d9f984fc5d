"""A recipe: everything that makes one paper's training differ from another's, as one TOML file.

    recipe = load_recipe("codedance", profile="tiny", overrides=["seed=3"])

A recipe names a dialect, a reward, a selection, an advantage and a loss, with their parameters; all but the loss may be
the user's code (`file.py:NAME`). A table `[profile.NAME]` holds what differs on another machine. Loading checks every
name and every parameter.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, JsonValue, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from saccade.core.recipes import find_recipe
from saccade.core.registry import did_you_mean
from saccade.core.retry import DEFAULT_RETRY, RetryPolicy
from saccade.core.settings import Settings, load_settings, merged, mistaken
from saccade.dialects.base import load_dialect
from saccade.dialects.direct import check_runs_here
from saccade.episode.flow import limits_with
from saccade.episode.settings import PromptSettings
from saccade.errors import SettingsError
from saccade.grading.registry import load_grader
from saccade.media.decode import MediaSettings
from saccade.record.trajectory import EpisodeLimits, Sampling
from saccade.rewards.judges.model import JUDGES, JudgeRules, turn_parts
from saccade.rewards.judges.prompt import PromptChoice
from saccade.rewards.reward import (
    ByTag,
    NeedsConsistency,
    NeedsJudge,
    RewardPreset,
    load_reward,
    needs_judge,
    pays_for_consistency,
)
from saccade.tasks.sources.settings import SourceSettings, check_weights
from saccade.training.rl.engines.settings import EngineSettings, JudgeServerSettings
from saccade.training.rl.select import KL_ESTIMATORS, Band, Grpo, KeepAll, NamedAdvantage, NamedSelection, TurnLevel


class RlLossSettings(Settings):
    """Clipped policy gradient, distance to a reference, entropy."""

    clip_low: Annotated[float, Field(ge=0, le=1)] = 0.2
    clip_high: NonNegativeFloat = 0.2
    dual_clip: NonNegativeFloat = 0.0
    """Above 1, or 0 for none. verl's default is 3."""
    old_logprobs: Literal["sampler", "recompute"] = "sampler"
    """What the ratio compares with: the sampler's own log-probabilities, which saves a forward pass, or those that the
    first policy of the step computes again. Either way both must agree within `max_logprob_diff` before any update."""
    aggregate: Literal["token-mean", "sequence-mean", "sequence-sum"] = "token-mean"
    scale: PositiveFloat = 1.0
    """Tokens by which a sequence's sum is divided (`sequence-sum`)."""
    kl_weight: NonNegativeFloat = 0.0
    """0 needs no reference policy."""
    kl: str = "k3"
    """How the distance to the reference is estimated: `k1`, `k2`, `k3` or `abs` (`saccade.training.rl.select`)."""
    entropy_weight: float = 0.0
    """Above 0 keeps the policy random."""


class RewardSettings(Settings):
    """Which reward, and who judges for it."""

    preset: str
    """As `saccade.rewards.reward` names it."""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """In the place of the preset's own."""
    by_tag: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)
    """Tag of a task -> parameters in place of `parameters`; the first tag that a task has counts."""
    judge: str = "none"
    """Judge of tool outputs, for a reward that needs it: `boxes`, `model`, or as `saccade.rewards.judges.model`
    names it; `none`: nobody."""
    judge_model: str = ""
    """For `model`, and judges of the user's own that want one: as `saccade ask --model` names it."""
    judge_rules: JudgeRules = JudgeRules()
    """How models that judge are asked; `levels` are those of `boxes` too, and the prompt that of `judge = "model"`."""
    grader: str = ""
    """One grader for all answers; empty: each task's own, or that of its type of answer."""
    answer_judge: str = ""
    """A model that is asked about open answers in which the rule sees no right one; empty: the rule decides alone."""
    answer_prompt: PromptChoice = PromptChoice()
    """Its prompt."""
    open_tags: tuple[str, ...] = ()
    """A task with one of these tags has an open answer, as one whose grader is `judge`; `*` stands for every task."""
    consistency_judge: str = ""
    """A model that is asked whether thoughts come to the answer, for a reward that pays for it (Thyme's)."""
    consistency_prompt: PromptChoice = PromptChoice()
    """Its prompt."""
    retry: RetryPolicy = DEFAULT_RETRY
    """How often a request to a judge is tried, and for how long."""

    def load(self) -> RewardPreset:
        """Load the reward of tasks that have no parameters of their own. Raises `RegistryError` or `SettingsError`."""
        usual = self.load_with((), {})
        if not self.by_tag:
            return usual
        return ByTag(usual, {tag: self.load_with((tag,), {}) for tag in self.by_tag})

    def load_with(self, tags: Sequence[str], own: Mapping[str, object]) -> RewardPreset:
        """Load the reward of a task with these tags and with parameters of its own. Raises as `load`."""
        tagged = next((given for tag, given in self.by_tag.items() if tag in tags), {})
        return load_reward(self.preset, {**self.parameters, **tagged, **own})


class RolloutSettings(Settings):
    """How tasks are rolled out."""

    group_size: PositiveInt = 8
    """Rollouts of a task."""
    sampling: Sampling = Sampling(temperature=1.0)
    limits: EpisodeLimits | None = None
    """Those that are set stand in place of the dialect's."""


class RoundLimits(Settings):
    """When a step stops asking for rollouts: with enough groups, or after the last round with what there is."""

    tasks: PositiveInt = 32
    """Tasks that are rolled out in a round."""
    groups: PositiveInt = 16
    """Groups that are enough."""
    rounds: PositiveInt = 3


class RlOptimizerSettings(Settings):
    """AdamW with linear warm-up and then a constant rate."""

    learning_rate: PositiveFloat = 1e-6
    warmup_steps: NonNegativeInt = 0
    weight_decay: NonNegativeFloat = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    clip: NonNegativeFloat = 1.0
    """Largest norm of the gradient; 0 for no limit."""
    updates: PositiveInt = 1
    """Updates that a step's rollouts are divided into."""
    epochs: PositiveInt = 1
    """How often a step's rollouts are used."""


class Recipe(PromptSettings):
    """One way to train."""

    dialect: str
    """As `saccade.dialects.base` names it."""
    media: MediaSettings = MediaSettings()
    """How large pictures of tasks may be, and how large they are shown."""
    rollout: RolloutSettings = RolloutSettings()
    reward: RewardSettings
    rounds: RoundLimits = RoundLimits()
    selection: NamedSelection = KeepAll()
    curriculum: Band | None = None
    """Which tasks are trained on, by how the last checkpoint did; None for all."""
    advantage: NamedAdvantage = Grpo()
    loss: RlLossSettings = RlLossSettings()
    optimizer: RlOptimizerSettings = RlOptimizerSettings()
    steps: PositiveInt = 200
    seed: NonNegativeInt = 0
    engine: EngineSettings | None = None
    """Engine that samples, where a recipe says so; `saccade rl` moves it into the settings of the run."""
    judge: JudgeServerSettings | None = None
    """Server for models that judge; moved likewise."""
    machine: dict[str, JsonValue] = Field(default_factory=dict)
    """Needs of a model of the recipe's size: settings of the run (`model`, `generation`,
    `max_tokens_per_batch`), which `saccade rl` moves there; what the command line says stands in their place."""
    source: tuple[SourceSettings, ...] = ()
    """Training tasks, where a run names no others."""
    profile: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)
    """Changes for other machines, by name; `load_recipe` applies one and drops the table."""

    @property
    def limits(self) -> EpisodeLimits:
        """The limits of a rollout: the recipe's where it sets one, else the dialect's."""
        own = self.rollout.limits or EpisodeLimits()
        return limits_with(load_dialect(self.dialect).limits, **own.model_dump())

    def load_reward(self) -> RewardPreset:
        """Load the reward with its parameters. Raises `RegistryError` or `SettingsError`."""
        return self.reward.load()


def load_recipe(
    name_or_path: str | os.PathLike[str],
    profile: str | None = None,
    overrides: Sequence[str] = (),
    given: Mapping[str, object] | None = None,
) -> Recipe:
    """Load a bundled recipe by its name, or one in a TOML file; then profiles, `given` and overrides `a.b=value`.

    Args:
        name_or_path: name of a bundled recipe, or a file.
        profile: name of one, or several with commas between them, each over those before it.
        overrides: `a.b=value`, over everything else.
        given: tables of settings, over the profiles.

    Raises:
        SettingsError: names every mistake, or suggests the nearest recipe or profile.
        RegistryError: the dialect, the reward or the judge does not exist; suggests the nearest.
    """
    path = find_recipe("rl", name_or_path)
    unchanged = load_settings(Recipe, path)
    changes: dict[str, JsonValue] = {}
    for name in () if profile is None else profile.split(","):
        if name not in unchanged.profile:
            hint = did_you_mean(name, unchanged.profile) or f"It has: {', '.join(unchanged.profile) or 'none'}."
            raise SettingsError(f"{name_or_path} has no profile {name!r}. {hint}")
        changes = merged(changes, unchanged.profile[name])
    recipe = load_settings(Recipe, path, overrides, given=merged(changes, given or {})).model_copy(
        update={"profile": {}}
    )
    check_runs_here(load_dialect(recipe.dialect), "training")
    recipe.equipped(load_dialect(recipe.dialect))
    recipe.reward.load()
    if recipe.reward.judge != "none":
        JUDGES.load(recipe.reward.judge)
    if recipe.reward.grader:
        load_grader(recipe.reward.grader)
    KL_ESTIMATORS.load(recipe.loss.kl)
    _check(recipe, str(path))
    return recipe


def _check(recipe: Recipe, path: str) -> None:
    """Check what concerns several settings."""
    mistakes = []
    most = getattr(recipe.selection, "groups", None)
    if most is not None and recipe.rounds.groups > most:
        mistakes.append(f"rounds.groups ({recipe.rounds.groups}) is more than selection.groups ({most}) can give")
    if recipe.rounds.groups > recipe.rounds.tasks * recipe.rounds.rounds:
        mistakes.append(f"rounds.groups ({recipe.rounds.groups}) is more than all rounds roll out")
    reward = load_reward(recipe.reward.preset, recipe.reward.parameters)
    if recipe.reward.judge == "none" and needs_judge(reward):
        mistakes.append(
            f"reward.judge: {recipe.reward.preset} judges tool outputs; name `boxes`, `model` or one of your own"
        )
    if pays_for_consistency(reward) and not recipe.reward.consistency_judge:
        mistakes.append(f"reward.consistency_judge: {recipe.reward.preset} pays for thoughts that agree; name a model")
    mistakes += _unused(recipe.reward, reward)
    parts = turn_parts(reward)
    if isinstance(recipe.advantage, TurnLevel) and parts is not None and recipe.advantage.part not in parts:
        named, known = recipe.advantage.part, f"has {', '.join(parts)}" if parts else "has none"
        mistakes.append(f"advantage.part: {recipe.reward.preset} has no part of the turns called {named!r}; it {known}")
    weightless = isinstance(reward, NeedsJudge) and not needs_judge(reward)
    if recipe.reward.judge == "model" and not recipe.reward.judge_model and not weightless:
        mistakes.append("reward.judge_model: is needed for reward.judge = model")
    if 0 < recipe.loss.dual_clip <= 1:
        mistakes.append(f"loss.dual_clip: must be above 1, or 0 for none, got {recipe.loss.dual_clip}")
    check_weights(recipe.source)
    if mistakes:
        raise mistaken(mistakes, path)


def _unused(reward: RewardSettings, preset: RewardPreset) -> list[str]:
    """Return a mistake for each setting of a judge that nothing would read."""
    mistakes, judges = [], isinstance(preset, NeedsJudge)
    asks_models = reward.judge != "none" or reward.answer_judge or reward.consistency_judge
    if reward.by_tag and (judges or isinstance(preset, NeedsConsistency)):
        mistakes.append(f"reward.by_tag: {reward.preset} needs a judge, and is the same for all tasks; leave it out")
    if reward.consistency_judge and not isinstance(preset, NeedsConsistency):
        mistakes.append(f"reward.consistency_judge: {reward.preset} pays for no consistency; leave it out")
    if reward.judge != "none" and not judges:
        mistakes.append(f"reward.judge: {reward.preset} judges no tool outputs; leave it out")
    if reward.open_tags and not reward.answer_judge:
        mistakes.append("reward.open_tags: are for reward.answer_judge, which is not named")
    if reward.judge_rules != JudgeRules() and not asks_models:
        mistakes.append("reward.judge_rules: there is no judge; name one in reward.judge or reward.answer_judge")
    if reward.judge_rules.prompt_file and reward.judge in ("none", "boxes"):
        mistakes.append("reward.judge_rules.prompt_file: is for reward.judge = model")
    for name, prompt in (("answer", reward.answer_prompt), ("consistency", reward.consistency_prompt)):
        if prompt != PromptChoice() and not getattr(reward, f"{name}_judge"):
            mistakes.append(f"reward.{name}_prompt: is for reward.{name}_judge, which is not named")
    return mistakes
