"""A run of reinforcement learning: from a recipe, a checkpoint and tasks to the exported policy.

    OUT/settings.toml  metrics.jsonl  samples.jsonl  pass-rates.jsonl  rollouts/  tensorboard/  checkpoints/  model/

A step: rollouts → grades → reward parts → selection → advantages → tokens → loss → update. A run that was killed at any
moment and goes on with `resume` ends with the same weights as one that was not, to the bit on one machine's CPU with
the same numbers of threads and processes, as long as no program in a sandbox is random or runs into a limit of time.

Of several processes each plays its share of a step's tasks and computes its share of the update's forward passes. What
was played is known to all, so that each decides the same; the first one writes. One machine.
"""

from __future__ import annotations

import asyncio
import copy
import os
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import torch

from saccade.dialects.registry import load_dialect
from saccade.episode.equip import equipped
from saccade.episode.run_folder import MEDIA
from saccade.episode.settings import sandbox_at
from saccade.errors import TrainingError
from saccade.media.store import MediaStore
from saccade.record.settings import save_settings
from saccade.rl.play.rollouts import Stage, play
from saccade.rl.play.seat_model import check_sampling
from saccade.rl.select.curriculum import Band
from saccade.rl.train.check_tasks import check_form, check_tasks
from saccade.rl.train.choice import choose
from saccade.rl.train.engines import make_engine, refresh
from saccade.rl.train.harvest import Field, Harvest
from saccade.rl.train.keeping import kept_rollouts, with_worth
from saccade.rl.train.samples import samples_of
from saccade.rl.train.scoring import load_scorer
from saccade.rl.train.settings import MAY_DIFFER, RlSettings, check_settings
from saccade.rl.train.tasks import TaskList, is_file, open_tasks
from saccade.rl.train.telling import NoWatch, Watch, rollout_values, step_values
from saccade.rl.train.update import UpdateLimits, Updater, UpdateSums
from saccade.tokens.batch import Collator
from saccade.tokens.pictures import PictureTensors
from saccade.training.checkpoints import Checkpoints, State
from saccade.training.folder import SETTINGS, check_folder
from saccade.training.journal import Journal
from saccade.training.learner import Learner
from saccade.training.parallel import Processes
from saccade.training.settings import ModelSettings, OptimiserSettings
from saccade.training.shards import make_learner
from saccade.training.weights import Trainable, export, load_trainable

_SHOWN = 4
"""Held-out answers that go into samples.jsonl."""


def train(settings: RlSettings, out: Path, *, resume: bool = False, watch: Watch | None = None) -> Path:
    """Train as `settings` say, in the folder `out`; the folder of the trained checkpoint.

    Raises:
        SettingsError: a setting is missing or wrong, or `out` holds a run already, or one with other settings.
        TrainingError: every rollout of a step was lost, or sampling and training disagree.
        ModelRefusedError: the checkpoint cannot be loaded, or the engine's server is of no use.
        ModelLostError: that server cannot be reached.
        IsolationError: this machine cannot isolate a sandbox.
    """
    check_settings(settings)
    check_sampling(settings.recipe.rollout.sampling)
    check_folder(settings, out, resume, MAY_DIFFER)
    processes = Processes(cpu=not torch.cuda.is_available())
    if processes.device.type == "cpu":
        torch.set_num_threads(settings.threads or os.cpu_count() or 1)
    tasks = open_tasks(settings.tasks.source, "train", settings.tasks.most)
    trained = load_trainable(_without_dropout(settings.model), processes.device, settings.recipe.seed)
    processes.wait()  # until all have checked the folder
    if processes.first:
        out.mkdir(parents=True, exist_ok=True)
        save_settings(settings, out / SETTINGS)
    heard = watch if watch is not None and processes.first else NoWatch()
    heard.takes(len(tasks.ids), tasks.total)
    learner = make_learner(trained, _optimiser(settings), processes, settings.model.shard)
    asyncio.run(_Run(settings, out, trained, tasks, learner, heard).whole())
    learner.settle()
    folder = out / "model"
    if processes.first:
        export(trained, folder, settings.keep.dtype, {load_dialect(settings.recipe.dialect).id: 1})
        heard.saved(folder)
    processes.wait()
    return folder


class _Run:
    """The state of a run between two steps."""

    def __init__(
        self,
        settings: RlSettings,
        out: Path,
        trained: Trainable,
        tasks: TaskList,
        learner: Learner,
        watch: Watch,
    ) -> None:
        recipe = settings.recipe
        self._settings = settings
        self._recipe = recipe
        self._out = out
        self._trained = trained
        self._tasks = tasks
        self._learner = learner
        self._processes = learner.processes
        self._watch = watch
        self._checkpoints = Checkpoints(out / "checkpoints", settings.keep.checkpoints, self._processes)
        digest = sha256("\n".join(tasks.ids).encode()).hexdigest()
        self._state = State(0, 0, digest)
        reference = None
        if recipe.loss.kl_weight and trained.adapter is None:  # before the weights of a checkpoint replace the first
            reference = replace(trained, checkpoint=replace(trained.checkpoint, model=copy.deepcopy(trained.model)))
        self._go_on()
        self._folder = kept_rollouts(out / "rollouts", self._place) if self._processes.first else None
        self._store = MediaStore(out / "rollouts" / MEDIA)
        pictures = PictureTensors(trained.encoder, self._store)
        loose = trained.low_precision or settings.engine != "local"
        gap = settings.largest_gap or (1.0 if loose else 1e-3)
        self._updater = Updater(
            trained,
            learner,
            Collator(trained.encoder, pictures, trained.model, packed=False),
            reference,
            UpdateLimits(settings.forward_tokens, gap),
        )

    @property
    def _place(self) -> int:
        """Of the next task in the row of epochs."""
        return int(self._state.more.get("place", 0))

    def _go_on(self) -> None:
        """From the last checkpoint, where there is one."""
        found = self._checkpoints.latest()
        if found is None:
            return
        state, weights, tensors = found
        if state.data != self._state.data:
            raise TrainingError(
                "the run was begun with other tasks. Put the old ones back, or begin anew in another folder."
            )
        self._learner.restore(weights, tensors)
        self._state = state

    async def whole(self) -> None:
        """Every step that is left."""
        settings, recipe = self._settings, self._recipe
        fresh = self._processes.gathered(not (self._out / "metrics.jsonl").exists())[0]
        journal = None
        if self._processes.first:
            journal = Journal(self._out, settings.keep, self._state.step, settings.model_dump(mode="json"))
        self._watch.begins(self._state.step, recipe.steps)
        try:
            async with AsyncExitStack() as stack:
                field = await self._field(stack)
                held = self._held_out()
                if fresh:
                    await self._look(0, field, held, journal)
                await self._choose(field)
                for step in range(self._state.step, recipe.steps):
                    await self._one(step, field, journal)
                    last = step + 1 == recipe.steps
                    if settings.validation.every and (last or (step + 1) % settings.validation.every == 0):
                        await self._look(step + 1, field, held, journal)
                    if last or (step + 1) % settings.keep.every == 0:
                        self._save()
        finally:
            if journal is not None:
                journal.close()

    async def _field(self, stack: AsyncExitStack) -> Field:
        settings, recipe = self._settings, self._recipe
        dialect, tools = equipped(settings.session.applied(load_dialect(recipe.dialect), settings.sandbox))
        sandbox = await stack.enter_async_context(sandbox_at(settings.sandbox, dialect.sandbox))
        engine = make_engine(settings, self._trained, self._store, self._out / "served")
        stack.push_async_callback(engine.close)
        await refresh(engine, self._trained, self._processes)
        stage = Stage(engine, self._trained.encoder, sandbox, self._store, tools)
        scorer = load_scorer(recipe.reward, recipe.load_reward(), self._store, self._out / "judge")
        stack.push_async_callback(scorer.close)
        if self._processes.first:
            check_tasks(self._tasks, scorer, self._store)
            check_form(dialect, scorer.preset, (recipe.dialect, recipe.reward.preset))
        return Field(recipe, dialect, stage, settings.play, scorer, self._processes)

    def _held_out(self) -> TaskList | None:
        told, source = self._settings.validation, self._settings.tasks.source
        if not (told.every and told.tasks) or (not told.source and is_file(source)):
            return None
        return open_tasks(told.source or source, "validation", told.tasks)

    async def _choose(self, field: Field) -> None:
        """The tasks that a curriculum leaves, from how the first policy does on all of them."""
        band: Band | None = self._recipe.curriculum
        if band is None:
            return
        chosen = self._state.more.get("tasks")
        if chosen is None:
            self._trained.model.eval()
            chosen = await choose(self._tasks, band, field, self._out, self._watch)
            self._state = replace(self._state, more={"place": len(self._tasks.ids), "tasks": list(chosen)})
        self._tasks = TaskList(tuple(chosen), self._tasks.make, self._tasks.total)

    async def _one(self, step: int, field: Field, journal: Journal | None) -> None:
        self._trained.model.eval()
        harvest = await field.harvest(self._tasks, self._place)
        began = time.perf_counter()
        sums = await asyncio.to_thread(self._update, step, harvest)
        if sums.updates:
            await refresh(field.stage.engine, self._trained, self._processes)
        harvest.seconds.update = time.perf_counter() - began
        tokens = self._state.tokens + int(sums.tokens)
        self._state = State(step + 1, tokens, self._state.data, {**self._state.more, "place": harvest.place})
        if journal is None or self._folder is None:
            return
        every = self._settings.rollouts.every
        if every and ((step + 1) % every == 0 or step + 1 == self._recipe.steps):
            worth = {advantage.id: advantage for advantage in harvest.advantages}
            for name, item in harvest.scored.items():
                self._folder.append(with_worth(item, worth.get(name)))
        values = step_values(harvest, sums, self._learner.learning_rate)
        journal.metrics(step + 1, values)
        self._watch.step(step + 1, values)

    def _update(self, step: int, harvest: Harvest) -> UpdateSums:
        """Nothing where the selection is empty."""
        samples = samples_of(harvest, self._recipe.rollout.sampling.temperature)
        if not samples:
            return UpdateSums()
        if self._settings.model.gradient_checkpointing:  # which transformers does in this mode alone
            self._trained.model.train()
        recipe = self._recipe
        return self._updater.step(samples, recipe.loss, recipe.optimiser, step, recipe.seed)

    async def _look(self, number: int, field: Field, held: TaskList | None, journal: Journal | None) -> None:
        """Greedy answers to held-out tasks."""
        if held is None:
            return
        self._trained.model.eval()
        own = self._processes.share(held.ids)
        made = [await asyncio.to_thread(held.make, name, field.stage.store) for name in own]
        plans = [field.plan(task, 0, task.id, greedy=True) for task in made]
        played, _ = await play(plans, field.stage, field.play, self._recipe.seed)
        scored = self._processes.together([(await field.scorer([item], trained_on=False))[0] for item in played])
        if journal is None:
            return
        values = {f"validation/{name}": value for name, value in rollout_values(scored).items()}
        journal.metrics(number, values)
        for item in scored[:_SHOWN]:
            wrote = "\n".join(turn.text for turn in item.trajectory.turns)
            gold = item.trajectory.task.answer or ""
            journal.sample(number, {"id": item.trajectory.id, "wrote": wrote, "expected": gold})
        self._watch.validated(number, values)

    def _save(self) -> None:
        self._watch.saved(self._learner.save(self._checkpoints, self._state))


def _without_dropout(settings: ModelSettings) -> ModelSettings:
    return settings.model_copy(update={"lora": settings.lora.model_copy(update={"dropout": 0.0})})


def _optimiser(settings: RlSettings) -> OptimiserSettings:
    told = settings.recipe.optimiser
    return OptimiserSettings(learning_rate=told.learning_rate, weight_decay=told.weight_decay, betas=told.betas)
