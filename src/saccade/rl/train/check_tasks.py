"""Everything that is checked of a run before its first step, in the order of a run.

check_run(settings, out, resume)          # settings and the folder, before anything is loaded
check_engine_is_there(settings, count)    # servers that sample
opened = open_checked(settings)           # tasks, with rewards, graders and media that a run can use
warn_of_run(settings.recipe, dialect, tasks, scorer, store)      # what stops no run
"""

from __future__ import annotations

import logging
from pathlib import Path

from saccade.core import sync
from saccade.dialects.base import Dialect
from saccade.dialects.registry import load_dialect
from saccade.episode.task_graders import check_graders
from saccade.episode.task_media import check_media
from saccade.errors import SaccadeError, SettingsError
from saccade.media.store import MediaStore
from saccade.rewards.registry import REWARDS
from saccade.rewards.reward import ByTag, RewardPreset, SearchesTasks
from saccade.rewards.trial import fines_form
from saccade.rl.engines.settings import VLLM
from saccade.rl.generation.slot_model import check_sampling
from saccade.rl.recipe import Recipe, RewardSettings
from saccade.rl.train.scoring import Scorer
from saccade.rl.train.settings import MAY_CHANGE, MAY_DIFFER, MAY_GROW, RlSettings, check_settings
from saccade.rl.train.tasks import TaskList
from saccade.rl.train.trainers import check_trainer
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.task_set import TaskPool, open_tasks
from saccade.training.folder import check_folder

MOST = 64
"""Tasks that are looked at, spread over all."""
_log = logging.getLogger(__name__)


def check_run(settings: RlSettings, out: Path, resume: bool) -> None:
    """Raise `SettingsError` for settings that cannot be trained, or a folder that this run may not write to."""
    check_settings(settings)
    check_sampling(settings.recipe.rollout.sampling)
    check_trainer(out, settings.trainer.name)
    check_folder(settings, out, resume, MAY_DIFFER, MAY_GROW, MAY_CHANGE)


def check_engine_is_there(settings: RlSettings, processes: int) -> None:
    """Check the servers that a run samples from, if there are any, for so many processes of training.

    Raises:
        SettingsError: there are too few GPUs for servers that the run starts.
        UnavailableError: vLLM is to be started and not installed.
        ModelRefusedError: a server is of no use.
        ModelLostError: a server cannot be reached.
    """
    if settings.engine.source == VLLM:
        from saccade.rl.engines.vllm_process import check_servers

        check_servers(settings.engine, processes)
    elif settings.engine.addresses:
        from saccade.rl.engines.server_check import check_reached

        sync.run(check_reached(settings.engine.addresses, settings.retry))


def open_checked(settings: RlSettings) -> TaskPool:
    """Open the tasks that are trained on.

    Raises:
        SettingsError: the reward cannot be paid for some (`check_rewards`), or the dialect cannot show their media.
    """
    opened = open_tasks(settings.sources, SourceDefaults(split="train", most=settings.tasks.most))
    check_rewards(opened, settings.recipe.reward)
    check_media(opened.parts, load_dialect(settings.recipe.dialect))
    return opened


def warn_of_run(recipe: Recipe, dialect: Dialect, tasks: TaskList, scorer: Scorer, store: MediaStore) -> None:
    """Warn of what makes a run worth less and stops none: `check_tasks`, `check_form`."""
    check_tasks(tasks, scorer, store)
    check_form(dialect, scorer.preset, (recipe.dialect, recipe.reward.preset))


def check_form(dialect: Dialect, preset: RewardPreset, names: tuple[str, str]) -> None:
    """Warn where a reward fines the form of what the dialect asks for; `names` are those of both."""
    if fines_form(preset, dialect):
        _log.warning(
            "The reward %s wants another form than the dialect %s asks for: its part `format` is below 0 however well "
            "a model follows the prompt. Take a dialect and a reward of the same paper.",
            names[1],
            names[0],
        )


def check_rewards(tasks: TaskPool, reward: RewardSettings) -> None:
    """Whether the reward can be paid for all tasks, with the parameters that some have of their own.

    Raises:
        SettingsError: it has no such parameter, tasks have no gold answer and the reward is one of Saccade's, or tasks
            name a grader that cannot be had.
    """
    if not reward.grader:
        check_graders(tasks.parts)
    for part in tasks.parts:
        without = [light.id for light in part.lights if not light.answered]
        if without and REWARDS.has(reward.preset.partition(":")[0]):
            raise SettingsError(
                f"{len(without)} of {len(part.lights)} tasks of {part.settings} have no gold answer (the first: "
                f"{without[0]}), and {reward.preset} is not paid without one. Add answers, or leave these tasks out."
            )
        for own in dict.fromkeys(light.reward for light in part.lights if light.reward):
            try:
                reward.load_with((), dict(own))
            except SaccadeError as error:
                raise SettingsError(f"the reward of tasks of {part.settings} ({dict(own)}): {error}") from error


def check_tasks(tasks: TaskList, scorer: Scorer, store: MediaStore) -> None:
    """Warn where a part of the reward would be 0 for every task, and where a judge is never asked or is missing."""
    step = max(1, len(tasks.ids) // MOST)
    seen = [tasks.make(name, store) for name in tasks.ids[::step][:MOST]]
    of = f"none of {len(seen)} tasks" if len(seen) < len(tasks.ids) else f"none of the {len(seen)} tasks"
    preset = scorer.preset
    if isinstance(preset, SearchesTasks) and not any(map(preset.searches, seen)):
        _log.warning(
            "The tool reward is 0 for every call: %s has evidence boxes or one of the tags %s. Name the tag of "
            "yours in reward.parameters.search_tags; they have: %s.",
            of,
            ", ".join(preset.search_tags),
            ", ".join(sorted({tag for task in seen for tag in task.tags})[:12]) or "none",
        )
    if isinstance(preset, ByTag):
        had = {tag for task in seen for tag in task.tags}
        for tag in preset.tagged.keys() - had:
            _log.warning("reward.by_tag.%s has no effect: %s has that tag.", tag, of)
    judge, is_open = scorer.answers.judge, scorer.answers.is_open
    if judge is not None and not any(map(is_open, seen)):
        _log.warning(
            "The judge of answers is never asked: %s has the grader `judge` or one of reward.open_tags (%s).",
            of,
            ", ".join(scorer.answers.open_tags) or "none is set",
        )
    if judge is None and not scorer.answers.grader and any(task.is_open for task in seen):
        _log.warning(
            "Tasks have open answers (their grader is `judge`), and reward.answer_judge names no model: the rule for "
            "their type of answer grades them."
        )
