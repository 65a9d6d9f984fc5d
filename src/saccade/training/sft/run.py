"""Supervised training: from settings and run folders to the exported checkpoint.

A run that was killed at any moment and continues with `resume` ends with the same weights as one that was not, to the
bit on one machine's CPU with the same number of threads; on a GPU as far as its kernels are deterministic. Several
machines need a file system that they share.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from saccade.core import sync
from saccade.dialects.base import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.episode.run_folder import RunFolder
from saccade.episode.settings import SessionLimits
from saccade.episode.shown import scaled_down
from saccade.episode.task_media import check_media
from saccade.errors import SettingsError, TrainingError
from saccade.grading.registry import scored_by_rule
from saccade.media.store import MediaStore
from saccade.models.base import Completion, MediaReader, Request
from saccade.record.trajectory import Sampling, Trajectory
from saccade.sandbox.registry import sandbox_at
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.settings import LEFT_OUT, BrokenTasks
from saccade.tasks.sources.task_set import TaskPool, open_tasks
from saccade.tokens.batch import Batch, BatchRow, Collator, forward_passes, in_low_precision, work
from saccade.tokens.decoder import Scheduler, write_alone
from saccade.tokens.local_model import completion_of
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.prompt import build_prompt, placed
from saccade.training.efficiency import Meter
from saccade.training.learner import Learner, RunState, make_learner, rate_fraction
from saccade.training.memory import MemoryPlan, Phase, TrainingMemory, chosen_layers, training_memory
from saccade.training.memory_passes import read_config
from saccade.training.parallel import Processes
from saccade.training.run import ActiveRun, begin_run, check_shared, join_processes
from saccade.training.sft.examples import ManyStores, SftCallback, TrainingExamples, check_run, read_examples
from saccade.training.sft.settings import SftSettings
from saccade.training.weights import TokenScorer, Trainable, is_low, load_trainable

# The loss: sum of the negative log-likelihood over learned tokens, each with the weight that the caller gives it.

Weights: TypeAlias = NDArray[np.float32]
"""Of the tokens of a trajectory."""


@dataclass(frozen=True, slots=True)
class TokenLoss:
    """Result of a forward pass."""

    total: torch.Tensor
    """Scalar, natural units times weights, with gradient."""
    right: int
    """Learned tokens to which no other was preferred."""
    tokens: int


def token_loss(
    scorer: TokenScorer, batch: Batch, trained: torch.Tensor, weights: torch.Tensor | None = None
) -> TokenLoss:
    """Return the summed loss of `batch`.

    Args:
        scorer: of the model that learns.
        batch: on any device.
        trained: bool (rows, tokens), the learned tokens; never the first of a trajectory.
        weights: float (rows, tokens), used where `trained`; None for 1 everywhere.
    """
    scores = scorer(batch, trained)
    losses = -scores.logprobs
    if weights is not None:
        losses = losses * weights[trained].to(losses.device)
    return TokenLoss(losses.sum(), int(scores.preferred.sum()), len(losses))


def token_weights(rows: Sequence[BatchRow], average: Literal["tokens", "trajectories"]) -> list[Weights]:
    """Return the weight of each token of a step in its loss: 0 for those that are not learned, 1 in sum."""
    learned = [int(row.trained.sum()) for row in rows]
    shares = [sum(learned)] * len(rows) if average == "tokens" else [own * len(rows) for own in learned]
    return [(row.trained / max(1, share)).astype(np.float32) for row, share in zip(rows, shares, strict=True)]


# Looking at held-out rows: their loss, and what the model writes greedily where a turn begins.


def held_out_loss(
    trained: Trainable, rows: Sequence[BatchRow], collate: Collator, most_tokens: int, processes: Processes
) -> dict[str, float]:
    """Return the mean loss and accuracy over the learned tokens of `rows`."""
    sums = [0.0, 0.0, 0.0]
    groups = forward_passes([len(row) for row in rows], most_tokens, packed=False)
    with evaluating(trained), torch.no_grad(), trained.autocast():
        for group in processes.share(groups):
            chosen = [rows[index] for index in group]
            batch = collate(chosen)
            mask = batch.lay_out([row.trained for row in chosen], False)
            loss = token_loss(trained.scorer, batch, mask)
            sums = [sums[0] + float(loss.total), sums[1] + loss.right, sums[2] + loss.tokens]
    total, right, tokens = processes.all_sum(sums)
    return {"validation_loss": total / tokens, "validation_accuracy": right / tokens}


def greedy_samples(
    trained: Trainable, rows: Sequence[BatchRow], media: MediaReader, most_tokens: int
) -> Iterator[dict[str, str]]:
    """Yield for each row what the model writes where its first learned turn begins, next to what was written there."""
    decode = trained.encoder.decode
    request = Request((), sampling=Sampling(max_tokens=most_tokens))
    with evaluating(trained):
        scheduler = Scheduler(trained, most_sequences=1)
        for row in rows:
            start = int(row.trained.argmax())
            stop = start + int(np.argmin(np.append(row.trained[start:], False)))
            # What is learned begins outside every picture.
            prompt = placed(row.ids[:start].tolist(), row.pictures, trained.encoder.placeholders)
            made = write_alone(scheduler, request, prompt, media)
            yield {"id": row.id, "wrote": decode(made.ids), "expected": decode(row.ids[start:stop].tolist())}


@contextmanager
def evaluating(trained: Trainable) -> Iterator[None]:
    """Switch dropout and gradient checkpointing off within the block; weights get the precision of the arithmetic."""
    trained.model.eval()
    try:
        with in_low_precision(trained.model, low=trained.low_precision):
            yield
    finally:
        trained.model.train()


# What the model that is being trained does with tasks of its own: it plays them in the dialect that it learns,
# with the prompt file and the tools that it learns with.
#
#     OUT/validation/STEP/    a run folder of every time; `saccade show` reads it
#
# Answers are graded by the graders that the tasks name. The first process plays, the others wait.


class CheckpointModel:
    """The weights as they are now, as a model; they are not closed with it."""

    name = "trained"

    def __init__(self, trained: Trainable) -> None:
        self._checkpoint = trained.checkpoint
        self._scheduler = Scheduler(trained, most_sequences=1)

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the next message; nothing else of this process runs meanwhile."""
        prompt = build_prompt(request, self._checkpoint, self._scheduler.encoder)
        turn = write_alone(self._scheduler, request, prompt, media)
        return completion_of(turn, self.name, prompt.visual)

    async def close(self) -> None:
        """Do nothing: the weights stay."""


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
        self._media = settings.media
        self._out = out / "validation"
        self._broken = BrokenTasks(len(tasks), validation.most_broken, self._out / LEFT_OUT)

    def play(self, trained: Trainable, step: int) -> tuple[dict[str, float], list[dict[str, str]]]:
        """Return the figures after `step` steps, and what was written to the first tasks.

        What a run that was killed has played of it already is played again.
        """
        shutil.rmtree(self._out / str(step), ignore_errors=True)
        folder = RunFolder(self._out / str(step))
        store = folder.store.limited(self._media.limits)
        played = sync.run(self._played(trained, folder, store))
        values = [score.value for item in played for score in item.scores if score.value is not None]
        samples = [_sample(item) for item in played[: self._settings.samples]]
        turns = fmean(len(item.turns) for item in played) if played else 0.0
        right = {"played_accuracy": fmean(values)} if values else {}
        return {**right, "played_turns": turns, "played": len(played)}, samples

    async def _played(self, trained: Trainable, folder: RunFolder, store: MediaStore) -> list[Trajectory]:
        model = CheckpointModel(trained)
        played = []
        async with sandbox_at(self._settings.sandbox, self.dialect.sandbox) as sandbox:
            for plan in self._plans(store):
                done = await run_episode(plan, model, sandbox, store, tools=self._tools)
                done = done.with_scores([scored_by_rule(done.answer, done.task)])
                folder.append(done)
                played.append(done)
        return played

    def _plans(self, store: MediaStore) -> Iterator[Plan]:
        validation = self._settings
        for name in self.tasks.ids:
            task = self._broken.made(name, lambda name=name: self.tasks.make(name, store))  # type: ignore[misc]
            if task is None:
                continue
            shown = scaled_down(task, self._media.shown_pixels, store, self.dialect)
            for rollout in range(validation.k):
                sampling = validation.sampling
                if validation.k > 1:
                    sampling = sampling.model_copy(update={"seed": (sampling.seed or 0) + rollout})
                yield Plan(task, self.dialect, sampling, group=task.id, rollout=rollout, shown=shown)


def validation_tasks(
    settings: SftSettings, dialects: Mapping[str, int], out: Path, processes: Processes
) -> ValidationTasks | None:
    """Open the tasks that `settings.validation.source` names; None where it names nothing.

    Raises `SettingsError`: a source is none, no dialect can be told, it cannot show a task, k samples would be the
    same, weights are divided, or limits of sessions are set that nothing would keep; `PromptFileError`: the prompt file
    of the data cannot be used.
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


A = TypeVar("A")
B = TypeVar("B")
Batches: TypeAlias = list[tuple[Batch, torch.Tensor, torch.Tensor, bool]]
"""Each with its learned tokens, their weights, and whether it counts (`learner.Pass`)."""


def train(settings: SftSettings, out: Path, *, resume: bool = False, callback: SftCallback | None = None) -> Path:
    """Train as `settings` say, in the folder `out`; the folder of the trained checkpoint.

    Raises `SettingsError`: `out` holds a run already, or one with other settings; `TrainingError`: there is nothing to
    learn from, or the data are not those of the run that is resumed; `ModelRefusedError`: the checkpoint cannot be
    loaded.
    """
    check_run(settings, out, resume)
    processes = join_processes(settings.threads)
    check_shared(out, processes)
    callback = callback if callback is not None and processes.is_main else SftCallback()
    model = chosen_layers(settings.model, processes, lambda gib: plan_memory(settings, processes.count, "cuda", gib))
    trained = load_trainable(model, processes.device, settings.seed)
    examples = read_examples(settings, trained.encoder, callback.reading, out)
    begin_run(settings, out, processes)
    callback.learns_from(examples)
    learner = make_learner(trained, settings.optimizer, processes, settings.model.shard)
    total = total_steps(len(examples.train), settings.batch.trajectories, settings.epochs, settings.steps)
    run = ActiveRun(settings, out, learner, examples.fingerprint, total, callback)
    run.resume(
        "the run was begun with other data: the trajectories of its run folders, or how they become tokens, have "
        "changed. Put the old ones back, or begin anew in another folder."
    )
    played = validation_tasks(settings, examples.dialects, out, processes)
    more = {"dialects": examples.dialects}
    steps = _Steps(settings, out, examples, learner, total)
    trained.model.train()
    with run.writing(), ThreadPoolExecutor(1, thread_name_prefix="batches") as thread:
        for step, batches in _ahead(thread, steps.batches, run.steps()):
            values = steps.update(step, batches, run.state.tokens)
            run.record(RunState(step + 1, int(values["tokens"]), run.state.data, more), values)
            if (examples.validation or played is not None) and run.due(settings.validation.every):
                with learner.gathered():
                    run.record_validation(*steps.validate(played, step + 1))
            run.save_if_due()
    return run.export(examples.dialects)


class _Steps:
    """One step; only the weights outlive it."""

    def __init__(
        self, settings: SftSettings, out: Path, examples: TrainingExamples, learner: Learner, total: int
    ) -> None:
        self._settings = settings
        self._examples = examples
        self._learner = learner
        self._trained = trained = learner.trained
        self._meter = Meter.of(trained)
        self._total = total
        self._packed = settings.batch.layout == "packed" or (settings.batch.layout == "auto" and trained.packs)
        self._media = media = ManyStores([*settings.data.runs, str(out)])
        pictures = PictureTensors(trained.encoder, media, settings.data.picture_cache_mib * 2**20)
        looked_at = PictureTensors(trained.encoder, media, 2**26)
        self._collate = Collator(trained.encoder, pictures, trained.model, packed=self._packed)
        self._collate_held = Collator(trained.encoder, looked_at, trained.model, packed=False)

    def update(self, step: int, batches: Batches, tokens_before: int) -> dict[str, float | int]:
        began = time.perf_counter()
        torch.manual_seed(self._settings.seed * 1_000_003 + step)  # dropout, and nothing else
        rows = self._rows(step)
        learned = sum(int(row.trained.sum()) for row in rows)
        loss, right = 0.0, 0.0
        for batch, trained, weights, counts in batches:
            with self._trained.autocast():
                scored = token_loss(self._trained.scorer, batch, trained, weights)
            self._learner.backward(scored.total, counts=counts)
            if counts:
                loss, right = loss + float(scored.total.detach()), right + scored.right
        norm = self._learner.gradient_norm(self._settings.optimizer.clip)
        loss, right = self._learner.processes.all_sum([loss, right])
        if not (norm < float("inf") and loss < float("inf")):
            raise TrainingError(
                f"step {step + 1} gave a loss of {loss} and a gradient of norm {norm}; the weights are as "
                "they were before. Lower the learning rate, or train in float32."
            )
        fraction = rate_fraction(step, self._total, self._settings.optimizer)
        self._learner.step(fraction)
        tokens = sum(len(row) for row in rows)
        seconds = time.perf_counter() - began
        return {
            "loss": loss,
            "accuracy": right / learned,
            "learning_rate": self._settings.optimizer.learning_rate * fraction,
            "gradient_norm": norm,
            "learned_tokens": learned,
            "tokens": tokens_before + tokens,
            "tokens_per_second": tokens / seconds,
            "mfu": self._meter.mfu(self._meter.work.flops(rows).both, seconds, self._learner.processes.count),
            "epoch": (step + 1) * len(rows) / len(self._examples.train),
        }

    def _rows(self, step: int) -> list[BatchRow]:
        rows = self._examples.train
        return [rows[i] for i in step_rows(step, len(rows), self._settings.batch.trajectories, self._settings.seed)]

    def batches(self, step: int) -> Batches:
        """Return this process's forward passes of a step."""
        rows = self._rows(step)
        weights = token_weights(rows, self._settings.loss.average)
        lengths = [len(row) for row in rows]
        groups = forward_passes(lengths, self._settings.batch.tokens, packed=self._packed)
        return [
            (*self._batch([rows[at] for at in item.rows], [weights[at] for at in item.rows]), item.counts)
            for item in self._learner.share_passes(groups, work(lengths, groups))
        ]

    def _batch(self, rows: Sequence[BatchRow], weights: Sequence[Weights]) -> tuple[Batch, torch.Tensor, torch.Tensor]:
        batch = self._collate(rows)
        return batch, batch.lay_out([row.trained for row in rows], False), batch.lay_out(weights, 0.0)

    def held_out(self) -> dict[str, float]:
        """Return loss and accuracy on the held-out rows."""
        rows, most = self._examples.validation, self._settings.batch.tokens
        return held_out_loss(self._trained, rows, self._collate_held, most, self._learner.processes)

    def validate(self, tasks: ValidationTasks | None, step: int) -> tuple[dict[str, float], Iterable[dict[str, str]]]:
        """Return figures and samples of the held-out rows, and of tasks that are played."""
        values: dict[str, float] = {}
        samples: Iterable[dict[str, str]] = ()
        if self._examples.validation:
            values, samples = self.held_out(), self.samples()
        if tasks is not None:
            if self._learner.processes.is_main:
                with evaluating(self._trained):
                    figures, answers = tasks.play(self._trained, step)
                values, samples = {**values, **figures}, chain(samples, answers)
            self._learner.processes.barrier()
        return values, samples

    def samples(self) -> Iterator[dict[str, str]]:
        """Yield the model's greedy answers to some of them."""
        validation = self._settings.validation
        rows = self._examples.validation[: validation.samples]
        return greedy_samples(self._trained, rows, self._media, validation.sample_tokens)


def _ahead(thread: ThreadPoolExecutor, make: Callable[[A], B], items: Iterable[A]) -> Iterator[tuple[A, B]]:
    """Yield each item with what `make` gives for it; the next is made in `thread` while the last is used."""
    waiting = None
    for item in items:
        following = (item, thread.submit(make, item))
        if waiting is not None:
            yield waiting[0], waiting[1].result()
        waiting = following
    if waiting is not None:
        yield waiting[0], waiting[1].result()


def total_steps(rows: int, per_step: int, epochs: float, steps: int) -> int:
    """Return steps of a run: `steps`, or as many as see every row `epochs` times; at least one."""
    return steps or max(1, math.ceil(epochs * rows / per_step))


def step_rows(step: int, rows: int, per_step: int, seed: int) -> list[int]:
    """Return the numbers of the rows of step `step` (from 0).

    Every epoch is a permutation of its own; epochs follow each other without a gap, so a step can hold the end of one
    and the beginning of the next.
    """
    positions = range(step * per_step, (step + 1) * per_step)
    epochs = {number // rows for number in positions}
    orders = {epoch: np.random.default_rng((seed, epoch)).permutation(rows) for epoch in epochs}
    return [int(orders[number // rows][number % rows]) for number in positions]


# What each GPU of a supervised run will hold, before anything is loaded.


def plan_memory(settings: SftSettings, processes: int, device: str, gib: float | None = None) -> MemoryPlan:
    """Return the plan for one of `processes` on a `device` such as `cuda`, which has `gib` GiB.

    Raises `SettingsError`: the shape of the checkpoint is not known.
    """
    model = settings.model
    context = read_config(model.source).get_text_config().max_position_embeddings
    tokens = max(settings.batch.tokens, min(settings.data.most_tokens, context))  # a longer row is a pass of its own
    memory = training_memory(
        model,
        tokens,
        processes,
        low=is_low(model, device),
        muon=settings.optimizer.method == "muon",
    )
    title = f"{model.source}, {processes} processes, forward passes of {tokens} tokens"

    def update(memory: TrainingMemory) -> Phase:
        return memory.update(bool(model.gradient_checkpointing), "batch.tokens and data.most_tokens")

    memory, recomputed = memory.fitted(update, gib)
    return MemoryPlan(title, (update(memory),), recomputed=recomputed)
