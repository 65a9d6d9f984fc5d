"""Supervised training: from settings and run folders to the exported checkpoint.

A run that was killed at any moment and continues with `resume` ends with the same weights as one that was not, to the
bit on one machine's CPU with the same number of threads; on a GPU as far as its kernels are deterministic. One machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import torch

from saccade.errors import TrainingError
from saccade.sft.train.callback import SftCallback
from saccade.sft.train.examples import ManyStores, TrainingExamples, check_runs, read_examples
from saccade.sft.train.loss import Weights, token_loss, token_weights
from saccade.sft.train.play import ValidationTasks, validation_tasks
from saccade.sft.train.settings import SftSettings
from saccade.sft.train.validate import evaluating, greedy_samples, held_out_loss
from saccade.tokens.batch import Batch, BatchRow, Collator, forward_passes, work
from saccade.tokens.pictures import PictureTensors
from saccade.training.checkpoints import RunState
from saccade.training.folder import check_folder
from saccade.training.learner import Learner
from saccade.training.optimizer import rate_fraction
from saccade.training.run import ActiveRun, begin_run, join_processes
from saccade.training.shards import make_learner
from saccade.training.weights import load_trainable

A = TypeVar("A")
B = TypeVar("B")
Batches: TypeAlias = list[tuple[Batch, torch.Tensor, torch.Tensor, bool]]
"""Each with its learned tokens, their weights, and whether it counts (`learner.Pass`)."""


_LONGER = (
    "The learning rate follows the schedule of all steps from here on, so that a run begun with them would differ."
)


def train(settings: SftSettings, out: Path, *, resume: bool = False, callback: SftCallback | None = None) -> Path:
    """Train as `settings` say, in the folder `out`; the folder of the trained checkpoint.

    Raises:
        SettingsError: `out` holds a run already, or one with other settings.
        TrainingError: there is nothing to learn from, or the data are not those of the run that is resumed.
        ModelRefusedError: the checkpoint cannot be loaded.
    """
    check_folder(settings, out, resume, may_grow={"steps": _LONGER})
    check_runs(settings.data.runs)
    processes = join_processes(settings.threads)
    callback = callback if callback is not None and processes.is_main else SftCallback()
    trained = load_trainable(settings.model, processes.device, settings.seed)
    examples = read_examples(settings, trained.encoder, callback.reading)
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
    steps = _Steps(settings, examples, learner, total)
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
    """What a step does; nothing of it is kept until the next but the weights."""

    def __init__(self, settings: SftSettings, examples: TrainingExamples, learner: Learner, total: int) -> None:
        self._settings = settings
        self._examples = examples
        self._learner = learner
        self._trained = trained = learner.trained
        self._total = total
        flash = settings.model.attention.startswith("flash") and trained.encoder.family.attention == "full"
        self._packed = settings.batch.layout == "packed" or (settings.batch.layout == "auto" and flash)
        self._media = media = ManyStores(settings.data.runs)
        pictures = PictureTensors(trained.encoder, media, settings.data.picture_cache_mib * 2**20)
        looked_at = PictureTensors(trained.encoder, media, 2**26)
        self._collate = Collator(trained.encoder, pictures, trained.model, packed=self._packed)
        self._collate_held = Collator(trained.encoder, looked_at, trained.model, packed=False)

    def update(self, step: int, batches: Batches, tokens_before: int) -> dict[str, float | int]:
        """One update of the weights; the metrics of it."""
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
            "epoch": (step + 1) * len(rows) / len(self._examples.train),
        }

    def _rows(self, step: int) -> list[BatchRow]:
        rows = self._examples.train
        return [rows[i] for i in step_rows(step, len(rows), self._settings.batch.trajectories, self._settings.seed)]

    def batches(self, step: int) -> Batches:
        """This process's forward passes of a step."""
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
        """Loss and accuracy on the held-out rows."""
        rows, most = self._examples.validation, self._settings.batch.tokens
        return held_out_loss(self._trained, rows, self._collate_held, most, self._learner.processes)

    def validate(self, tasks: ValidationTasks | None, step: int) -> tuple[dict[str, float], Iterable[dict[str, str]]]:
        """Figures and samples of the held-out rows, and of tasks that are played."""
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
        """What the model writes greedily to some of them."""
        validation = self._settings.validation
        rows = self._examples.validation[: validation.samples]
        return greedy_samples(self._trained, rows, self._media, validation.sample_tokens)


def _ahead(thread: ThreadPoolExecutor, make: Callable[[A], B], items: Iterable[A]) -> Iterator[tuple[A, B]]:
    """Each item with what `make` gives for it; the next is made in `thread` while the last is used."""
    waiting = None
    for item in items:
        following = (item, thread.submit(make, item))
        if waiting is not None:
            yield waiting[0], waiting[1].result()
        waiting = following
    if waiting is not None:
        yield waiting[0], waiting[1].result()


def total_steps(rows: int, per_step: int, epochs: float, steps: int) -> int:
    """Steps of a run: `steps`, or as many as see every row `epochs` times; at least one."""
    return steps or max(1, math.ceil(epochs * rows / per_step))


def step_rows(step: int, rows: int, per_step: int, seed: int) -> list[int]:
    """The numbers of the rows of step `step` (from 0).

    Every epoch is a permutation of its own; epochs follow each other without a gap, so a step can hold the end of one
    and the beginning of the next.
    """
    positions = range(step * per_step, (step + 1) * per_step)
    epochs = {number // rows for number in positions}
    orders = {epoch: np.random.default_rng((seed, epoch)).permutation(rows) for epoch in epochs}
    return [int(orders[number // rows][number % rows]) for number in positions]
