"""A run of reinforcement learning: from a recipe, a checkpoint and tasks to the exported policy.

    OUT/settings.toml  metrics.jsonl  samples.jsonl  pass-rates.jsonl  rollouts/  tensorboard/  checkpoints/  model/

A step: rollouts → grades → reward parts → selection → advantages → tokens → loss → update. A run that was killed at any
moment and continues with `resume` ends with the same weights as one that was not, to the bit on one machine's CPU with
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
from saccade.rl.generation.rollouts import RolloutResources, generate_rollouts
from saccade.rl.generation.slot_model import check_sampling
from saccade.rl.select.curriculum import Band
from saccade.rl.train.check_tasks import check_form, check_tasks
from saccade.rl.train.collector import Collector, RolloutBatch
from saccade.rl.train.curriculum import choose_tasks
from saccade.rl.train.make_engine import make_engine, sync_weights
from saccade.rl.train.metrics import RlCallback, rollout_metrics, step_metrics
from saccade.rl.train.rollout_store import open_rollout_store, with_worth
from saccade.rl.train.samples import training_samples
from saccade.rl.train.scoring import load_scorer
from saccade.rl.train.settings import MAY_DIFFER, RlSettings, check_settings
from saccade.rl.train.tasks import TaskList, is_file, open_tasks
from saccade.rl.train.update import UpdateLimits, UpdateMetrics, Updater
from saccade.tokens.batch import Collator
from saccade.tokens.pictures import PictureTensors
from saccade.training.checkpoints import Checkpoints, RunState
from saccade.training.folder import SETTINGS, check_folder
from saccade.training.journal import TrainingJournal
from saccade.training.learner import Learner
from saccade.training.parallel import Processes
from saccade.training.settings import ModelSettings, OptimizerSettings
from saccade.training.shards import make_learner
from saccade.training.weights import Trainable, export, load_trainable

_SAMPLES = 4
"""Held-out answers that go into samples.jsonl."""


def train(settings: RlSettings, out: Path, *, resume: bool = False, callback: RlCallback | None = None) -> Path:
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
    processes.barrier()  # until all have checked the folder
    if processes.is_main:
        out.mkdir(parents=True, exist_ok=True)
        save_settings(settings, out / SETTINGS)
    callback = callback if callback is not None and processes.is_main else RlCallback()
    callback.takes(len(tasks.ids), tasks.total)
    learner = make_learner(trained, _optimizer(settings), processes, settings.model.shard)
    asyncio.run(_Run(settings, out, trained, tasks, learner, callback).run())
    learner.finalize()
    folder = out / "model"
    if processes.is_main:
        export(trained, folder, settings.keep.dtype, {load_dialect(settings.recipe.dialect).id: 1})
        callback.saved(folder)
    processes.barrier()
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
        callback: RlCallback,
    ) -> None:
        recipe = settings.recipe
        self._settings = settings
        self._recipe = recipe
        self._out = out
        self._trained = trained
        self._tasks = tasks
        self._learner = learner
        self._processes = learner.processes
        self._callback = callback
        self._checkpoints = Checkpoints(out / "checkpoints", settings.keep.checkpoints, self._processes)
        digest = sha256("\n".join(tasks.ids).encode()).hexdigest()
        self._state = RunState(0, 0, digest)
        reference = None
        if recipe.loss.kl_weight and trained.adapter is None:  # before the weights of a checkpoint replace the first
            reference = replace(trained, checkpoint=replace(trained.checkpoint, model=copy.deepcopy(trained.model)))
        self._resume()
        self._folder = open_rollout_store(out / "rollouts", self._cursor) if self._processes.is_main else None
        self._store = MediaStore(out / "rollouts" / MEDIA)
        pictures = PictureTensors(trained.encoder, self._store)
        loose = trained.low_precision or settings.engine != "local"
        max_logprob_diff = settings.max_logprob_diff or (1.0 if loose else 1e-3)
        self._updater = Updater(
            trained,
            learner,
            Collator(trained.encoder, pictures, trained.model, packed=False),
            reference,
            UpdateLimits(settings.max_tokens_per_batch, max_logprob_diff),
        )

    @property
    def _cursor(self) -> int:
        """Of the next task in the row of epochs."""
        return int(self._state.more.get("place", 0))

    def _resume(self) -> None:
        """From the last checkpoint, where there is one."""
        checkpoint = self._checkpoints.latest()
        if checkpoint is None:
            return
        state, weights, tensors = checkpoint
        if state.data != self._state.data:
            raise TrainingError(
                "the run was begun with other tasks. Put the old ones back, or begin anew in another folder."
            )
        self._learner.restore(weights, tensors)
        self._state = state

    async def run(self) -> None:
        """Every step that is left."""
        settings, recipe = self._settings, self._recipe
        fresh = self._processes.all_gather(not (self._out / "metrics.jsonl").exists())[0]
        journal = None
        if self._processes.is_main:
            journal = TrainingJournal(self._out, settings.keep, self._state.step, settings.model_dump(mode="json"))
        self._callback.begins(self._state.step, recipe.steps)
        try:
            async with AsyncExitStack() as stack:
                collector = await self._make_collector(stack)
                validation = self._validation_tasks()
                if fresh:
                    await self._validate(0, collector, validation, journal)
                await self._choose_tasks(collector)
                for step in range(self._state.step, recipe.steps):
                    await self._step(step, collector, journal)
                    last = step + 1 == recipe.steps
                    if settings.validation.every and (last or (step + 1) % settings.validation.every == 0):
                        await self._validate(step + 1, collector, validation, journal)
                    if last or (step + 1) % settings.keep.every == 0:
                        self._save()
        finally:
            if journal is not None:
                journal.close()

    async def _make_collector(self, stack: AsyncExitStack) -> Collector:
        settings, recipe = self._settings, self._recipe
        dialect, tools = equipped(settings.session.applied(load_dialect(recipe.dialect), settings.sandbox))
        sandbox = await stack.enter_async_context(sandbox_at(settings.sandbox, dialect.sandbox))
        engine = make_engine(settings, self._trained, self._store, self._out / "served")
        stack.push_async_callback(engine.close)
        await sync_weights(engine, self._trained, self._processes)
        resources = RolloutResources(engine, self._trained.encoder, sandbox, self._store, tools)
        scorer = load_scorer(recipe.reward, recipe.load_reward(), self._store, self._out / "judge")
        stack.push_async_callback(scorer.close)
        if self._processes.is_main:
            check_tasks(self._tasks, scorer, self._store)
            check_form(dialect, scorer.preset, (recipe.dialect, recipe.reward.preset))
        return Collector(recipe, dialect, resources, settings.generation, scorer, self._processes)

    def _validation_tasks(self) -> TaskList | None:
        validation, source = self._settings.validation, self._settings.tasks.source
        if not (validation.every and validation.tasks) or (not validation.source and is_file(source)):
            return None
        return open_tasks(validation.source or source, "validation", validation.tasks)

    async def _choose_tasks(self, collector: Collector) -> None:
        """The tasks that a curriculum leaves, from how the first policy does on all of them."""
        band: Band | None = self._recipe.curriculum
        if band is None:
            return
        chosen = self._state.more.get("tasks")
        if chosen is None:
            self._trained.model.eval()
            chosen = await choose_tasks(self._tasks, band, collector, self._out, self._callback)
            self._state = replace(self._state, more={"place": len(self._tasks.ids), "tasks": list(chosen)})
        self._tasks = TaskList(tuple(chosen), self._tasks.make, self._tasks.total)

    async def _step(self, step: int, collector: Collector, journal: TrainingJournal | None) -> None:
        self._trained.model.eval()
        batch = await collector.collect(self._tasks, self._cursor)
        began = time.perf_counter()
        sums = await asyncio.to_thread(self._update, step, batch)
        if sums.updates:
            await sync_weights(collector.resources.engine, self._trained, self._processes)
        batch.seconds.update = time.perf_counter() - began
        tokens = self._state.tokens + int(sums.tokens)
        self._state = RunState(step + 1, tokens, self._state.data, {**self._state.more, "place": batch.cursor})
        if journal is None or self._folder is None:
            return
        every = self._settings.rollouts.every
        if every and ((step + 1) % every == 0 or step + 1 == self._recipe.steps):
            worth = {advantage.id: advantage for advantage in batch.advantages}
            for name, item in batch.scored.items():
                self._folder.append(with_worth(item, worth.get(name)))
        values = step_metrics(batch, sums, self._learner.learning_rate)
        journal.metrics(step + 1, values)
        self._callback.step(step + 1, values)

    def _update(self, step: int, batch: RolloutBatch) -> UpdateMetrics:
        """Train on the selection; where it is empty, no weight changes."""
        samples = training_samples(batch, self._recipe.rollout.sampling.temperature)
        if not samples:
            return UpdateMetrics()
        if self._settings.model.gradient_checkpointing:  # which transformers does in this mode alone
            self._trained.model.train()
        recipe = self._recipe
        return self._updater.step(samples, recipe.loss, recipe.optimizer, step, recipe.seed)

    async def _validate(
        self, number: int, collector: Collector, validation: TaskList | None, journal: TrainingJournal | None
    ) -> None:
        """Greedy answers to held-out tasks."""
        if validation is None:
            return
        self._trained.model.eval()
        own = self._processes.share(validation.ids)
        tasks = [await asyncio.to_thread(validation.make, name, collector.resources.store) for name in own]
        plans = [collector.plan(task, 0, task.id, greedy=True) for task in tasks]
        played, _ = await generate_rollouts(plans, collector.resources, collector.generation, self._recipe.seed)
        scored = self._processes.gather_shares(
            [(await collector.scorer([item], trained_on=False))[0] for item in played]
        )
        if journal is None:
            return
        values = {f"validation/{name}": value for name, value in rollout_metrics(scored).items()}
        journal.metrics(number, values)
        for item in scored[:_SAMPLES]:
            wrote = "\n".join(turn.text for turn in item.trajectory.turns)
            gold = item.trajectory.task.answer or ""
            journal.sample(number, {"id": item.trajectory.id, "wrote": wrote, "expected": gold})
        self._callback.validated(number, values)

    def _save(self) -> None:
        self._callback.saved(self._learner.save(self._checkpoints, self._state))


def _without_dropout(settings: ModelSettings) -> ModelSettings:
    return settings.model_copy(update={"lora": settings.lora.model_copy(update={"dropout": 0.0})})


def _optimizer(settings: RlSettings) -> OptimizerSettings:
    own = settings.recipe.optimizer
    return OptimizerSettings(learning_rate=own.learning_rate, weight_decay=own.weight_decay, betas=own.betas)
