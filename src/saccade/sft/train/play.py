"""What the model that is being trained does with tasks of its own: it plays them in the dialect that it learns,
with the prompt file and the tools that it learns with.

    OUT/validation/STEP/    a run folder of every time; `saccade show` reads it

Answers are graded by the graders that the tasks name. The first process plays, the others wait.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import fmean

from saccade.core import sync
from saccade.dialects.registry import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.plan import Plan
from saccade.episode.run_folder import RunFolder
from saccade.episode.session_limits import SessionLimits
from saccade.episode.settings import sandbox_at
from saccade.episode.task_media import check_media
from saccade.errors import SettingsError
from saccade.generate.local_model import completion_of
from saccade.generate.prompt import build_prompt
from saccade.generate.scheduler import Scheduler, write_alone
from saccade.grading.grade import scored_by_rule
from saccade.models.base import Completion, MediaReader, Request
from saccade.record.trajectory import Trajectory
from saccade.sft.train.settings import SftSettings
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.task_set import TaskPool, open_tasks
from saccade.training.parallel import Processes
from saccade.training.weights import Trainable


class CheckpointModel:
    """The weights as they are now, as a model; they are not closed with it."""

    name = "trained"

    def __init__(self, trained: Trainable) -> None:
        self._checkpoint = trained.checkpoint
        self._scheduler = Scheduler(trained, most_sequences=1)

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The next message; nothing else of this process runs meanwhile."""
        prompt = build_prompt(request, self._checkpoint, self._scheduler.encoder)
        turn = write_alone(self._scheduler, request, prompt, media)
        return completion_of(turn, self.name, prompt.visual)

    async def close(self) -> None:
        """The weights stay."""


class ValidationTasks:
    """Tasks that are played while a run trains."""

    def __init__(self, tasks: TaskPool, dialect: str, settings: SftSettings, out: Path) -> None:
        """Raises as `SpeechSettings.prepared`."""
        validation = settings.validation
        self.tasks = tasks
        self.dialect, self._tools = settings.data.equipped(
            validation.session.applied(load_dialect(dialect), validation.sandbox)
        )
        self._settings = validation
        self._out = out / "validation"

    def play(self, trained: Trainable, step: int) -> tuple[dict[str, float], list[dict[str, str]]]:
        """The figures after `step` steps, and what was written to the first tasks.

        What a run that was killed has played of it already is played again.
        """
        shutil.rmtree(self._out / str(step), ignore_errors=True)
        folder = RunFolder(self._out / str(step))
        played = sync.run(self._played(trained, folder))
        values = [score.value for item in played for score in item.scores if score.value is not None]
        samples = [_sample(item) for item in played[: self._settings.samples]]
        turns = fmean(len(item.turns) for item in played) if played else 0.0
        right = {"played_accuracy": fmean(values)} if values else {}
        return {**right, "played_turns": turns, "played": len(played)}, samples

    async def _played(self, trained: Trainable, folder: RunFolder) -> list[Trajectory]:
        model = CheckpointModel(trained)
        played = []
        async with sandbox_at(self._settings.sandbox, self.dialect.sandbox) as sandbox:
            for plan in self._plans(folder):
                done = await run_episode(plan, model, sandbox, folder.store, tools=self._tools)
                done = done.with_scores([scored_by_rule(done.answer, done.task)])
                folder.append(done)
                played.append(done)
        return played

    def _plans(self, folder: RunFolder) -> Iterator[Plan]:
        validation = self._settings
        for name in self.tasks.ids:
            task = self.tasks.make(name, folder.store)
            for rollout in range(validation.k):
                sampling = validation.sampling
                if validation.k > 1:
                    sampling = sampling.model_copy(update={"seed": (sampling.seed or 0) + rollout})
                yield Plan(task, self.dialect, sampling, group=task.id, rollout=rollout)


def validation_tasks(
    settings: SftSettings, dialects: Mapping[str, int], out: Path, processes: Processes
) -> ValidationTasks | None:
    """What `settings.validation.source` names; None where it names nothing.

    Raises:
        SettingsError: a source is none, no dialect can be told, it cannot show a task, k samples would be the same,
            weights are divided, or limits of sessions are set that nothing would keep.
        PromptFileError: the prompt file of the data cannot be used.
    """
    validation = settings.validation
    if not validation.source or not validation.every:
        if validation.session != SessionLimits():
            raise SettingsError(
                "validation.session limits code of tasks that are played, and validation.source is empty."
            )
        return None
    if validation.k > 1 and not validation.sampling.temperature:
        raise SettingsError(
            f"validation.k = {validation.k} greedy answers to one task are the same: set "
            "validation.sampling.temperature."
        )
    if settings.model.shard and processes.count > 1:
        raise SettingsError("validation.source needs whole weights in one process, and model.shard divides them.")
    dialect = validation.dialect or max(dialects, key=lambda name: dialects[name], default="")
    if not dialect:
        raise SettingsError("the trajectories name no dialect, so validation.dialect must: how are tasks put?")
    tasks = open_tasks(validation.source, SourceDefaults(split="validation", most=validation.tasks))
    check_media(tasks.parts, load_dialect(dialect))
    return ValidationTasks(tasks, dialect, settings, out)


def _sample(item: Trajectory) -> dict[str, str]:
    wrote = "\n".join(turn.text for turn in item.turns)
    return {"id": item.id, "wrote": wrote, "expected": item.task.answer or ""}
