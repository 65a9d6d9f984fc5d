"""Run reinforcement learning: from a recipe, a checkpoint and tasks to the exported policy.

    OUT/settings.toml  metrics.jsonl  samples.jsonl  pass-rates.jsonl  task-ids.jsonl  left-out.jsonl
    OUT/rollouts/  tensorboard/  checkpoints/  model/

A run that was killed at any moment and is resumed ends with the same weights as one that was not: to the bit on one
machine's CPU with the same numbers of threads and processes, as long as no program in a sandbox is random or runs into
a time limit. A task that cannot be made is left out, and so is one that was taken out of its source before a run is
resumed. Several machines need a file system that they share.
"""

from __future__ import annotations

import asyncio
import copy
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path

import torch

from saccade.core import sync
from saccade.dialects.base import load_dialect
from saccade.episode.run_folder import MEDIA
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.sandbox.registry import sandbox_at
from saccade.tasks.sources.settings import LEFT_OUT, BrokenTasks
from saccade.tokens.batch import Collator, copied_bytes
from saccade.tokens.caches import (
    GIB,
    RaggedCache,
    StateCache,
    cache_argument,
    cache_bytes_per_token,
    layer_masks,
    state_bytes,
)
from saccade.tokens.pictures import PictureTensors
from saccade.training.checkpoints import RunState
from saccade.training.efficiency import Meter
from saccade.training.learner import DividedModel, Learner, make_learner
from saccade.training.memory import (
    MemoryPlan,
    Phase,
    PlanItem,
    TrainingMemory,
    chosen_layers,
    planned_weights,
    training_memory,
    video_note,
)
from saccade.training.memory_passes import PassBytes, PeakBytes, Skeleton, make_skeleton, read_config
from saccade.training.rl.curriculum import choose_tasks
from saccade.training.rl.engine import cache_of_batch, most_context, open_engine, sync_weights
from saccade.training.rl.engines.judge_server import judge_server, served_judge
from saccade.training.rl.engines.settings import LOCAL, VLLM
from saccade.training.rl.metrics import RlCallback, open_rollout_store, rollout_metrics, validation_sample, with_worth
from saccade.training.rl.rollouts import RolloutResources, WatchedPlay, generate_rollouts
from saccade.training.rl.scoring import load_scorer
from saccade.training.rl.settings import RlSettings
from saccade.training.rl.step import Trainer, Updater
from saccade.training.rl.tasks import (
    TASK_IDS,
    TaskList,
    as_list,
    check_engine_is_there,
    check_hosts,
    check_run,
    keep_tasks,
    not_judging,
    open_checked,
    resumed_tasks,
    validation_tasks,
    warn_of_run,
)
from saccade.training.run import ActiveRun, begin_run, check_shared, join_processes
from saccade.training.settings import ModelSettings, OptimizerSettings
from saccade.training.weights import Trainable, is_low, load_trainable

# Plan what each GPU of a run holds while it updates and while it samples.

_DRAW = 24
"""Bytes of a logit while a token is drawn: itself and its log-probability in float32, two sums in float64."""
_ASLEEP = GIB
"""GPU memory that a sleeping server keeps for CUDA. Assumed, not measured."""
_APART = "let servers have GPUs of their own (engine.gpus)"


def plan_memory(settings: RlSettings, processes: int, device: str, gib: float | None = None) -> MemoryPlan:
    """Plan one of `processes` on a `device` such as `cuda`, which has `gib` GiB.

    Raises `SettingsError`: the shape of the checkpoint is not known, or `generation.cache` cannot hold one episode.
    """
    model, low = settings.model, is_low(settings.model, device)
    context = most_context(settings, read_config(model.source).get_text_config().max_position_embeddings)
    tokens = max(settings.max_tokens_per_batch, context)  # a longer episode is a pass of its own
    memory = training_memory(model, tokens, processes, low=low)
    reference = PlanItem("reference policy", 0, "set loss.kl_weight=0, or train adapters (model.language=lora)")
    if settings.recipe.loss.kl_weight and model.language == "full":
        reference = PlanItem(reference.what, memory.state.weights, reference.setting)
    asleep = PlanItem("sleeping server", _ASLEEP if settings.engine.shared else 0, _APART)

    def update(memory: TrainingMemory) -> Phase:
        tokens_setting = "max_tokens_per_batch and rollout.limits.context_tokens"
        phase = memory.update(bool(model.gradient_checkpointing), tokens_setting)
        return Phase(phase.name, (*phase.items, reference, asleep))

    memory, recomputed = memory.fitted(update, gib)
    phases = [update(memory)]
    if settings.engine.source == LOCAL:
        config, number = memory.skeleton.config, 2 if low else 4
        cache_of_batch(settings, context, cache_bytes_per_token(config, number), state_bytes(config, number))
        phases.append(_sampling(settings, memory, reference, context))
    if settings.engine.shared:
        phases.append(_shared(settings, memory, reference))
    served = settings.engine.gpus if settings.engine.source == VLLM else 0
    notes = [f"{served} more GPUs serve; vLLM takes of them what it is told to (engine.options)."] if served else []
    if settings.judge.gpus is not None:
        judging, note = _judging(settings, device)
        phases += judging
        notes.append(note)
    if load_dialect(settings.recipe.dialect).shows_videos:
        notes.append(video_note(model.source, memory.skeleton.family, context))
    title = f"{model.source}, {processes} processes, forward passes of {tokens} tokens, episodes of up to {context}"
    exported_low = settings.keep.dtype == "bfloat16" or (settings.keep.dtype == "auto" and low)
    weights = planned_weights(memory.skeleton, low=exported_low)
    return MemoryPlan(title, tuple(phases), tuple(notes), weights, recomputed)


def _shared(settings: RlSettings, memory: TrainingMemory, reference: PlanItem) -> Phase:
    """Return the phase in which a server on the same GPU samples."""
    state = memory.state
    return Phase(
        "sampling",
        (
            PlanItem("weights", state.weights, "divide them over more GPUs (model.shard=true, --processes)"),
            PlanItem("optimizer", state.optimizer, "divide it over more GPUs (model.shard=true, --processes)"),
            PlanItem("server", settings.engine.memory * GIB, "lower engine.memory"),
            reference,
        ),
    )


def _judging(settings: RlSettings, device: str) -> tuple[list[Phase], str]:
    """Return what a GPU of the server that judges holds of its weights, where its shape is known, and a note."""
    judge, gpus = served_judge(settings.recipe.reward), settings.judge.gpus or 0
    where = f"{gpus} more GPUs judge" if gpus else "a server on the CPU judges"
    note = f"{where}: the run starts vLLM with {judge.name} at {judge.address}."
    if not gpus:
        return [], note
    try:
        model = ModelSettings(source=judge.name, precision="bfloat16")
        numbers = sum(weight.numel() for weight in make_skeleton(model, low=is_low(model, device)).model.parameters())
    except SettingsError:
        return [], f"{note} Its shape is not known here, so what it takes is not planned."
    weights = PlanItem("weights of the judge", 2 * numbers / gpus, "raise judge.gpus, or take a smaller judge")
    return [Phase("judging, on the GPUs that judge; vLLM's cache takes the rest", (weights,))], note


def _sampling(settings: RlSettings, memory: TrainingMemory, reference: PlanItem, tokens: int) -> Phase:
    """Return the phase in which the engine in this process samples; a prompt may be all pictures or video."""
    state, fewer = memory.state, "lower rollout.limits.context_tokens"
    reading = reading_pass(memory.skeleton, tokens)
    rows = -(-settings.generation.max_concurrency // settings.generation.decoding_batches)
    vocabulary = memory.skeleton.config.get_text_config().vocab_size
    copies = copied_bytes(memory.skeleton.model) if memory.skeleton.low else 0
    return Phase(
        "sampling",
        (
            PlanItem("weights", state.weights, "use servers (engine.source=vllm, engine.gpus), or more --processes"),
            PlanItem("optimizer", state.optimizer, "divide it over more GPUs (model.shard=true, --processes)"),
            PlanItem("gathered weights", state.gathered_sampling, "use servers (engine.source=vllm, engine.gpus)"),
            PlanItem("weights in the arithmetic's precision", copies, "use servers (engine.source=vllm, engine.gpus)"),
            PlanItem("keys and values", settings.generation.cache * GIB, "lower generation.cache"),
            PlanItem("pictures and videos", memory.pixels, fewer),
            PlanItem("reading prompts", max(reading.most, memory.vision.held + reading.most), fewer),
            PlanItem("logits of the next tokens", rows * vocabulary * _DRAW, "lower generation.max_concurrency"),
            reference,
        ),
    )


def reading_pass(skeleton: Skeleton, tokens: int) -> PassBytes:
    """Measure reading a prompt of `tokens`, without the keys and values that stay."""
    axes = skeleton.family.rope_axes
    with skeleton.mode, torch.no_grad():
        ids, at = torch.zeros((1, tokens), dtype=torch.int64), torch.arange(tokens)
        cache = StateCache(1) if skeleton.family.attention == "recurrent" else RaggedCache(1)
        with PeakBytes() as counted:
            full = cache.begin([0], [tokens], at.device, torch.bfloat16 if skeleton.low else torch.float32)
            masks = layer_masks(full, at[:1], None, skeleton.family, skeleton.config)
            with skeleton.autocast():
                torch.set_autocast_cache_enabled(False)  # under inference mode, as the engine reads, there is none
                skeleton.model.eval()
                model = skeleton.model.model
                model(
                    input_ids=ids,
                    position_ids=at.repeat(axes, 1, 1) if axes > 1 else at[None],
                    attention_mask=masks,
                    use_cache=True,
                    **{cache_argument(model): cache},
                )
                skeleton.model.train()
            kept = cache.nbytes
    return PassBytes(0, counted.most - kept)


_SAMPLES = 4
"""Held-out answers that go into samples.jsonl."""


def train(settings: RlSettings, out: Path, *, resume: bool = False, callback: RlCallback | None = None) -> Path:
    """Train as `settings` say in the folder `out`; return the folder of the trained checkpoint.

    Raises:
        SettingsError: a setting is missing or wrong, or `out` holds a run already, or one with other settings, or
            the dialect cannot show the pictures or videos of a task, or there are too few GPUs for servers.
        UnavailableError: vLLM is to be started and not installed.
        TrainingError: every rollout of a step was lost, or sampling and training disagree.
        ModelRefusedError: the checkpoint cannot be loaded, or a server of the engine is of no use.
        ModelLostError: that server cannot be reached, or did not come up.
        IsolationError: this machine cannot isolate a sandbox.
    """
    check_run(settings, out, resume)
    processes = join_processes(settings.threads, cpu=not torch.cuda.is_available())
    if processes.several_hosts:
        check_hosts(settings)
        check_shared(out, processes)
    check_engine_is_there(settings, processes.count)
    opened = open_checked(settings)
    tasks = as_list(opened)
    if resume:
        tasks = resumed_tasks(tasks, out)
    tasks = replace(tasks, broken=BrokenTasks(len(tasks.ids), settings.tasks.most_broken, out / LEFT_OUT))
    model = chosen_layers(settings.model, processes, lambda gib: plan_memory(settings, processes.count, "cuda", gib))
    trained = load_trainable(_without_dropout(model), processes.device, settings.recipe.seed)
    begin_run(settings, out, processes)
    if processes.is_main and not (resume and (out / TASK_IDS).exists()):
        keep_tasks(tasks, out)
    callback = callback if callback is not None and processes.is_main else RlCallback()
    callback.takes(opened.lines())
    # Before they are divided, and the weights of a checkpoint replace the first.
    reference = _copy(trained) if settings.recipe.loss.kl_weight and trained.adapter is None else None
    learner = make_learner(trained, _optimizer(settings), processes, settings.model.shard)
    if reference is not None and settings.model.shard and processes.count > 1:
        DividedModel(reference, processes)
    digest = sha256("\n".join(tasks.ids).encode()).hexdigest()
    run = ActiveRun(settings, out, learner, digest, settings.recipe.steps, callback)
    run.resume("the run was begun with other tasks. Put the old ones back, or begin anew in another folder.")
    with ExitStack() as judges:
        if processes.is_main:
            others = not_judging(settings, processes.count)
            judges.enter_context(judge_server(settings.judge, settings.recipe.reward, out / "servers", others))
        processes.barrier()
        sync.run(_RlRun(settings, out, run, learner, callback).steps(tasks, reference))
    return run.export({load_dialect(settings.recipe.dialect).id: 1})


class _RlRun:
    """The steps of a run, and the curriculum, validations and kept rollouts between them."""

    def __init__(self, settings: RlSettings, out: Path, run: ActiveRun, learner: Learner, callback: RlCallback) -> None:
        self._settings = settings
        self._recipe = settings.recipe
        self._out = out
        self._run = run
        self._learner = learner
        self._callback = callback
        self._store = MediaStore(out / "rollouts" / MEDIA, limits=self._recipe.media.limits)

    @property
    def _cursor(self) -> int:
        """Of the next task in the sequence of epochs."""
        return int(self._run.state.more.get("place", 0))

    async def steps(self, tasks: TaskList, reference: Trainable | None) -> None:
        run, is_main = self._run, self._learner.processes.is_main
        folder = open_rollout_store(self._out / "rollouts", self._cursor) if is_main else None
        fresh = self._learner.processes.all_gather(not (self._out / "metrics.jsonl").exists())[0]
        async with AsyncExitStack() as stack:
            stack.enter_context(run.writing())
            trainer = await self._make_trainer(stack, tasks, reference)
            validation = self._validation_tasks()
            if fresh and validation is not None:
                await self._validate(trainer, validation)
            tasks = await self._choose_tasks(trainer, tasks)
            for step in run.steps():
                made = await trainer.step(step, tasks, self._cursor)
                more = {**run.state.more, "place": made.cursor}
                state = RunState(step + 1, run.state.tokens + made.tokens, run.state.data, more)
                run.record(state, made.metrics)
                if folder is not None and run.due(self._settings.rollouts.every):
                    for rollout in made.rollouts:
                        folder.append(with_worth(rollout))
                if validation is not None and run.due(self._settings.validation.every):
                    await self._validate(trainer, validation)
                run.save_if_due()

    async def _make_trainer(self, stack: AsyncExitStack, tasks: TaskList, reference: Trainable | None) -> Trainer:
        settings, recipe, trained = self._settings, self._recipe, self._learner.trained
        dialect, tools = recipe.equipped(settings.session.applied(load_dialect(recipe.dialect), settings.sandbox))
        sandbox = await stack.enter_async_context(sandbox_at(settings.sandbox, dialect.sandbox))
        engine = await stack.enter_async_context(open_engine(settings, self._learner, self._store, self._out))
        await sync_weights(engine, self._learner)
        resources = RolloutResources(engine, trained.encoder, sandbox, self._store, tools)
        scorer = load_scorer(recipe.reward, self._store, self._out / "judge")
        stack.push_async_callback(scorer.close)
        if self._learner.processes.is_main:
            warn_of_run(recipe, dialect, tasks, scorer, self._store)
        loose = trained.low_precision or not settings.engine.exact
        updater = Updater(
            self._learner,
            Collator(
                trained.encoder, PictureTensors(trained.encoder, self._store), trained.model, packed=trained.packs
            ),
            recipe,
            reference,
            settings.max_tokens_per_batch,
            settings.max_logprob_diff or (1.0 if loose else 1e-3),
            train_mode=bool(settings.model.gradient_checkpointing),
        )
        return Trainer(recipe, dialect, resources, settings.generation, scorer, updater, Meter.of(trained))

    def _validation_tasks(self) -> TaskList | None:
        validation = self._settings.validation
        if not validation.every:
            return None
        held_out = validation_tasks(
            validation.source, self._settings.sources, validation.tasks, load_dialect(self._recipe.dialect)
        )
        if held_out is None:
            return None
        most = self._settings.tasks.most_broken
        return replace(held_out, broken=BrokenTasks(len(held_out.ids), most, self._out / f"validation-{LEFT_OUT}"))

    async def _choose_tasks(self, trainer: Trainer, tasks: TaskList) -> TaskList:
        """Return the tasks that a curriculum leaves, by the pass rates of the first policy."""
        band = self._recipe.curriculum
        if band is None:
            return tasks
        state = self._run.state
        chosen = state.more.get("tasks")
        if chosen is None:
            self._learner.trained.model.eval()
            chosen = await choose_tasks(tasks, band, trainer, self._out, self._callback)
            self._run.state = replace(state, more={"place": len(tasks.ids), "tasks": list(chosen)})
        return tasks.only(chosen)

    async def _validate(self, trainer: Trainer, validation: TaskList) -> None:
        """Answer held-out tasks, `samples` of each, and record the numbers."""
        settings = self._settings.validation
        self._learner.trained.model.eval()
        processes = self._learner.processes
        own = processes.share(validation.ids)
        made = [await asyncio.to_thread(validation.made, name, self._store) for name in own]
        tasks = [task for task in made if task is not None]
        watched = WatchedPlay(settings.temperature, settings.limits)
        numbers = range(settings.samples)
        plans = [plan for task in tasks for plan in await trainer.plans(task, numbers, task.id, watched)]
        with trainer.sampling():
            played, _ = await generate_rollouts(plans, trainer.resources, trainer.generation, self._recipe.seed)
        scorer = replace(trainer.scorer, answers=replace(trainer.scorer.answers, grader=settings.grader))
        left = iter(played)
        groups = [[] if task is None else list(islice(left, settings.samples)) for task in made]
        graded = [await scorer(group, trained_on=False) if group else [] for group in groups]
        everyones = [group for group in processes.gather_shares(graded) if group]
        scored = [rollout for group in everyones for rollout in group]
        values = {f"validation/{name}": value for name, value in rollout_metrics(scored).items()}
        if settings.samples > 1:
            solved = [any(item.right for item in group) for group in everyones]
            values["validation/pass_at_k"] = sum(solved) / max(1, len(solved))
        self._run.record_validation(values, map(validation_sample, scored[:_SAMPLES]))


def _copy(trained: Trainable) -> Trainable:
    scorer = copy.deepcopy(trained.scorer)
    return replace(trained, checkpoint=replace(trained.checkpoint, model=scorer.model), scorer=scorer)


def _without_dropout(settings: ModelSettings) -> ModelSettings:
    return settings.model_copy(update={"lora": settings.lora.model_copy(update={"dropout": 0.0})})


def _optimizer(settings: RlSettings) -> OptimizerSettings:
    own = settings.recipe.optimizer
    return OptimizerSettings(learning_rate=own.learning_rate, weight_decay=own.weight_decay, betas=own.betas)
