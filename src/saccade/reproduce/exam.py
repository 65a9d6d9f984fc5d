"""The examination of a checkpoint: one rollout of every held-out task, kept in a run folder.

Episodes are played by the rollout engine, in the order of the tasks; an examination that was interrupted continues.
Imports torch; import this module late.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import torch

from saccade.core import sync
from saccade.dialects.registry import load_dialect
from saccade.episode.equip import equipped
from saccade.episode.plan import Plan, limits_with
from saccade.episode.run_folder import RunFolder
from saccade.episode.settings import sandbox_at
from saccade.generate.in_process import TransformersEngine
from saccade.grading.grade import scored_by_rule
from saccade.record.trajectory import Sampling
from saccade.reproduce.settings import ExamSettings
from saccade.rl.generation.rollouts import GenerationSettings, RolloutResources, generate_rollouts
from saccade.rl.train.tasks import as_list
from saccade.tasks.sources.folder import TASKS
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.settings import ModelSettings
from saccade.training.weights import load_trainable

_AT_ONCE = 24
"""Tasks that are played together, and kept when all are done."""


def examine(
    checkpoint: str, tasks: Path, out: Path, settings: ExamSettings, dialect: str, turns: int | None = None
) -> int:
    """Give the tasks in `tasks` to the checkpoint in the folder `checkpoint`; episodes are kept in `out`.

    An episode has at most `turns` turns, or as many as the dialect allows. How many episodes were played now is given
    back.

    Raises:
        ModelRefusedError: the checkpoint cannot be loaded.
        IsolationError: this machine cannot isolate a sandbox.
    """
    folder = RunFolder(out)
    count = sum(1 for line in (tasks / TASKS).read_text(encoding="utf-8").splitlines() if line)
    held = as_list(open_tasks([str(tasks)], SourceDefaults(most=count)))
    made = [held.make(name, folder.store) for name in held.ids]
    spoken, _ = equipped(load_dialect(dialect))
    sampling = Sampling(temperature=settings.temperature, max_tokens=settings.max_tokens)
    limits = limits_with(spoken.limits, turns=turns)
    plans = [Plan(task, spoken, sampling, limits, group=task.id) for task in made]
    missing = [plan for plan in plans if plan.id not in folder]
    if missing:
        sync.run(_play(checkpoint, missing, folder))
    return len(missing)


async def _play(checkpoint: str, plans: Sequence[Plan], folder: RunFolder) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    trained = load_trainable(ModelSettings(source=checkpoint), device, 0)
    trained.model.eval()
    spoken = plans[0].dialect
    _, tools = equipped(spoken)
    async with AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(sandbox_at("local", spoken.sandbox))
        engine = TransformersEngine(trained, folder.store)
        stack.push_async_callback(engine.close)
        stage = RolloutResources(engine, trained.encoder, sandbox, folder.store, tools)
        for first in range(0, len(plans), _AT_ONCE):
            played, _ = await generate_rollouts(plans[first : first + _AT_ONCE], stage, GenerationSettings(), 0)
            for made in (item.trajectory for item in played):
                folder.append(made.with_scores([scored_by_rule(made.answer, made.task)]))
