"""Score the rollouts of one task: grades, verdicts of judges, rewards with named parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from saccade.episode.regions import PictureReader, StoredPixels
from saccade.grading.registry import scored_by_rule
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.models.registry import load_model
from saccade.record.task import Task
from saccade.record.trajectory import CORRECT, Score, Trajectory
from saccade.rewards.judges.answer import RIGHT, AnswerJudge, ConsistencyJudge, judged_score
from saccade.rewards.judges.client import JudgeClient
from saccade.rewards.judges.model import judged, unjudged
from saccade.rewards.judges.registry import JudgeContext, make_judge
from saccade.rewards.judges.verdict import Judge
from saccade.rewards.repeats import with_repeats
from saccade.rewards.reward import (
    LONGEST_ANSWER,
    NeedsConsistency,
    NeedsJudge,
    Reward,
    RewardGroup,
    RewardPreset,
    accuracy,
    needs_judge,
    paid,
    unscored,
)
from saccade.training.rl.recipe import RewardSettings
from saccade.training.rl.rollout import Rollout


@dataclass(frozen=True, slots=True)
class AnswerGrading:
    """Grades answers by a rule, and by a model where the rule finds no right answer to an open question."""

    grader: str = ""
    judge: AnswerJudge | None = None
    open_tags: tuple[str, ...] = ()

    async def graded(self, trajectory: Trajectory) -> Trajectory:
        """Return it with its score `correct`, without a value if the task cannot be graded or there is no verdict.

        Raises:
            ModelDeniedError: the judge refuses whatever it is asked.
            RegistryError: the task names a grader that is not there.
        """
        task, answer = trajectory.task, trajectory.answer
        score = await asyncio.to_thread(scored_by_rule, answer, task, self.grader)
        decided = score.value == RIGHT or trajectory.lost or len(answer or "") >= LONGEST_ANSWER
        if self.judge is not None and not decided and self.is_open(task) and (task.answer or "").strip():
            score = judged_score(f"judge:{self.judge.model.name}", answer, await self.judge.verdict(answer, task))
        return trajectory.with_scores([score])

    def is_open(self, task: Task) -> bool:
        """Whether only a model can say that an answer to `task` is wrong."""
        return task.is_open or not set(self.open_tags).isdisjoint((*task.tags, "*"))


@dataclass(frozen=True, slots=True)
class Scorer:
    """A reward with its judges."""

    preset: RewardPreset
    judge: Judge | None = None
    answers: AnswerGrading = AnswerGrading()
    consistency: ConsistencyJudge | None = None
    models: tuple[Model, ...] = ()
    """Models of the judges; closed with the scorer."""
    asks: bool = False
    """Whether the judge of calls asks a model."""
    preset_of: Callable[[Task], RewardPreset] | None = None
    """Gives the reward of a task with parameters; None: `preset` for all tasks."""
    book: PictureReader | None = None
    """Has the pictures of the rollouts; without it, only equal bytes make a picture one that was seen before."""

    async def close(self) -> None:
        """Close the connections of models."""
        for model in self.models:
            await model.close()

    async def __call__(self, group: Sequence[Rollout], *, trained_on: bool = True) -> list[Rollout]:
        """Reward the rollouts of one task; one that cannot be trained on gets none.

        Rollouts that are not `trained_on` (validation, pass rates) are shown to no model that judges calls or thoughts:
        parts that need such a verdict have no value.
        """
        task = group[0].trajectory.task if group else None
        preset = self.preset_of(task) if self.preset_of and task and task.reward else self.preset
        graded = await asyncio.gather(*(self._graded(item.trajectory, preset, trained_on) for item in group))
        rewards = paid(preset, await self._judged(graded, preset, trained_on))
        return [
            _scored(replace(item, trajectory=trajectory), reward)
            for item, trajectory, reward in zip(group, graded, rewards, strict=True)
        ]

    async def _graded(self, trajectory: Trajectory, preset: RewardPreset, trained_on: bool) -> Trajectory:
        graded = await self.answers.graded(trajectory)
        needs = isinstance(preset, NeedsConsistency) and preset.needs_consistency(graded)
        return await self.consistency.scored(graded) if needs and trained_on and self.consistency else graded

    async def _judged(self, graded: Sequence[Trajectory], preset: RewardPreset, trained_on: bool) -> RewardGroup:
        if not isinstance(preset, NeedsJudge):
            return RewardGroup(tuple(graded))
        if self.book is not None:
            graded = [await asyncio.to_thread(with_repeats, one, self.book) for one in graded]
        if self.asks and not trained_on:
            return unjudged(graded)
        return await judged(self.judge, graded, preset.turns_to_judge)


def accuracy_alone(rollout: Rollout) -> Rollout:
    """Reward a graded rollout by its accuracy."""
    return _scored(rollout, Reward(parts=(Score(name=CORRECT, value=accuracy(rollout.trajectory)),)))


def _scored(rollout: Rollout, reward: Reward) -> Rollout:
    without = rollout.tokens is None
    return replace(rollout, reward=unscored(reward, "it has no turn to be trained on") if without else reward)


def load_scorer(settings: RewardSettings, store: MediaStore, kept: Path) -> Scorer:
    """Load the reward with the judges that a recipe names; replies of models are kept in the folder `kept`.

    Two judges that are the same model share the limit of requests at once. Raises `RegistryError`: there is no such
    reward, judge or model; `SettingsError`: the judge needs a model, and none is named; `PromptFileError`: a judge's
    prompt file cannot be used.
    """
    rules, models, preset = settings.judge_rules, dict[str, JudgeClient](), settings.load()
    judge = settings.judge if needs_judge(preset) else "none"
    judge_model = "" if judge in ("none", "boxes") else settings.judge_model
    for name in {judge_model, settings.answer_judge, settings.consistency_judge} - {""}:
        models[name] = JudgeClient(load_model(name, settings.retry), rules, kept)
    thoughts = settings.consistency_judge
    context = JudgeContext(store, models.get(judge_model), rules)
    return Scorer(
        preset,
        None if judge == "none" else make_judge(judge, context),
        AnswerGrading(
            settings.grader,
            AnswerJudge(models[settings.answer_judge], rules.asked_with(settings.answer_prompt))
            if settings.answer_judge
            else None,
            settings.open_tags,
        ),
        ConsistencyJudge(models[thoughts], rules.asked_with(settings.consistency_prompt)) if thoughts else None,
        tuple(models.values()),
        asks=bool(judge_model),
        book=StoredPixels(store),
        preset_of=lambda task: settings.load_with(task.tags, {own.name: own.value for own in task.reward}),
    )
