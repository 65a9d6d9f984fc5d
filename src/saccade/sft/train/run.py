"""A training run: from settings to the exported checkpoint.

    OUT/settings.toml  metrics.jsonl  samples.jsonl  tensorboard/  checkpoints/  model/

A run that was killed at any moment and continues with `resume` ends with the same weights as one that was not, to the
bit on one machine's CPU with the same number of threads; on a GPU as far as its kernels are deterministic. One machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias, TypeVar

import torch

from saccade.errors import TrainingError
from saccade.record.settings import save_settings
from saccade.sft.train.callback import SftCallback
from saccade.sft.train.examples import ManyStores, TrainingExamples, check_runs, read_examples
from saccade.sft.train.loss import Weights, token_loss, token_weights
from saccade.sft.train.order import step_rows, total_steps
from saccade.sft.train.settings import SftSettings
from saccade.sft.train.validate import greedy_samples, held_out_loss
from saccade.tokens.batch import Batch, BatchRow, Collator
from saccade.tokens.pictures import PictureTensors
from saccade.training.checkpoints import Checkpoints, RunState
from saccade.training.folder import SETTINGS, check_folder
from saccade.training.journal import TrainingJournal
from saccade.training.learner import Learner
from saccade.training.optimizer import rate_fraction
from saccade.training.parallel import Processes
from saccade.training.passes import forward_passes, work
from saccade.training.shards import make_learner
from saccade.training.weights import Trainable, export, load_trainable

A = TypeVar("A")
B = TypeVar("B")
Batches: TypeAlias = list[tuple[Batch, torch.Tensor, torch.Tensor] | None]
"""Each with its learned tokens and their weights; None where other processes have one more."""


def train(settings: SftSettings, out: Path, *, resume: bool = False, callback: SftCallback | None = None) -> Path:
    """Train as `settings` say, in the folder `out`; the folder of the trained checkpoint.

    Raises:
        SettingsError: `out` holds a run already, or one with other settings.
        TrainingError: there is nothing to learn from, or the data are not those of the run that is resumed.
        ModelRefusedError: the checkpoint cannot be loaded.
    """
    processes = Processes()
    if processes.device.type == "cpu":
        torch.set_num_threads(settings.threads or os.cpu_count() or 1)
    check_folder(settings, out, resume)
    check_runs(settings.data.runs)
    processes.barrier()
    trained = load_trainable(settings.model, processes.device, settings.seed)
    callback = callback if callback is not None and processes.is_main else SftCallback()
    examples = read_examples(settings, trained.encoder, callback.reading)
    if processes.is_main:  # not before the data and the checkpoint are known to be there
        out.mkdir(parents=True, exist_ok=True)
        save_settings(settings, out / SETTINGS)
    processes.barrier()
    learner = make_learner(trained, settings.optimizer, processes, settings.model.shard)
    run = _Run(settings, out, trained, examples, learner)
    run.resume()
    run.run(callback)
    learner.finalize()
    folder = out / "model"
    if processes.is_main:
        export(trained, folder, settings.keep.dtype, examples.dialects)
        callback.saved(folder)
    processes.barrier()
    return folder


class _Run:
    """The state of a run between two steps."""

    def __init__(
        self, settings: SftSettings, out: Path, trained: Trainable, examples: TrainingExamples, learner: Learner
    ) -> None:
        self._settings = settings
        self._out = out
        self._trained = trained
        self._examples = examples
        self._learner = learner
        self._processes = learner.processes
        batch = settings.batch
        flash = settings.model.attention.startswith("flash")
        self._packed = batch.layout == "packed" or (batch.layout == "auto" and flash)
        media = ManyStores(settings.data.runs)
        pictures = PictureTensors(trained.encoder, media, settings.data.picture_cache_mib * 2**20)
        looked_at = PictureTensors(trained.encoder, media, 2**26)
        self._collate = Collator(trained.encoder, pictures, trained.model, packed=self._packed)
        self._collate_held = Collator(trained.encoder, looked_at, trained.model, packed=False)
        self._checkpoints = Checkpoints(out / "checkpoints", settings.keep.checkpoints, self._processes)
        self._total = total_steps(len(examples.train), batch.trajectories, settings.epochs, settings.steps)
        self._state = RunState(0, 0, examples.fingerprint)

    def resume(self) -> None:
        """From the last checkpoint, where there is one."""
        found = self._checkpoints.latest()
        if found is None:
            return
        state, weights, tensors = found
        if state.data != self._state.data:
            raise TrainingError(
                "the run was begun with other data: the trajectories of its run folders, or how they become tokens, "
                "have changed. Put the old ones back, or begin anew in another folder."
            )
        self._learner.restore(weights, tensors)
        self._state = state

    def run(self, callback: SftCallback) -> None:
        """Every step that is left."""
        journal = None
        if self._processes.is_main:
            config = self._settings.model_dump(mode="json")
            journal = TrainingJournal(self._out, self._settings.keep, self._state.step, config)
        callback.begins(self._examples, self._state.step, self._total)
        self._trained.model.train()
        steps = range(self._state.step, self._total)
        try:
            with ThreadPoolExecutor(1, thread_name_prefix="batches") as thread:
                for step, batches in _ahead(thread, self._batches, steps):
                    self._run_step(step, batches, journal, callback)
        finally:
            if journal is not None:
                journal.close()

    def _run_step(self, step: int, batches: Batches, journal: TrainingJournal | None, callback: SftCallback) -> None:
        number = step + 1
        values = self._step(step, batches)
        if journal is not None:
            journal.metrics(number, values)
            callback.step(number, values)
        every, last = self._settings.validation.every, number == self._total
        if self._examples.validation and every and (last or number % every == 0):
            self._validate(number, journal, callback)
        if last or number % self._settings.keep.every == 0:
            callback.saved(self._learner.save(self._checkpoints, self._state))

    def _step(self, step: int, batches: Batches) -> dict[str, float | int]:
        """One update of the weights; its metrics."""
        began = time.perf_counter()
        torch.manual_seed(self._settings.seed * 1_000_003 + step)  # dropout, and nothing else
        rows = self._rows(step)
        learned = sum(int(row.trained.sum()) for row in rows)
        loss, right = 0.0, 0.0
        for item in batches:
            if item is None:
                self._learner.backward(None)
                continue
            with self._trained.autocast():
                batch, trained, weights = item
                found = token_loss(self._trained.model, batch, trained, self._trained.checkpoint.forbidden, weights)
            self._learner.backward(found.total)
            loss, right = loss + float(found.total.detach()), right + found.right
        norm = self._learner.gradient_norm(self._settings.optimizer.clip)
        loss, right = self._processes.all_sum([loss, right])
        if not (norm < float("inf") and loss < float("inf")):
            raise TrainingError(
                f"step {step + 1} gave a loss of {loss} and a gradient of norm {norm}; the weights are as "
                "they were before. Lower the learning rate, or train in float32."
            )
        fraction = rate_fraction(step, self._total, self._settings.optimizer)
        self._learner.step(fraction)
        tokens = sum(len(row) for row in rows)
        self._state = RunState(step + 1, self._state.tokens + tokens, self._state.data)
        seconds = time.perf_counter() - began
        return {
            "loss": loss,
            "accuracy": right / learned,
            "learning_rate": self._settings.optimizer.learning_rate * fraction,
            "gradient_norm": norm,
            "learned_tokens": learned,
            "tokens": self._state.tokens,
            "tokens_per_second": tokens / seconds,
            "epoch": (step + 1) * len(rows) / len(self._examples.train),
        }

    def _rows(self, step: int) -> list[BatchRow]:
        rows = self._examples.train
        return [rows[i] for i in step_rows(step, len(rows), self._settings.batch.trajectories, self._settings.seed)]

    def _batches(self, step: int) -> Batches:
        """This process's forward passes of a step."""
        rows = self._rows(step)
        weights = token_weights(rows, self._settings.loss.average)
        lengths = [len(row) for row in rows]
        groups = forward_passes(lengths, self._settings.batch.tokens, packed=self._packed)
        return [
            None if group is None else self._batch([rows[at] for at in group], [weights[at] for at in group])
            for group in self._processes.balanced_shares(groups, work(lengths, groups))
        ]

    def _batch(self, rows: Sequence[BatchRow], weights: Sequence[Weights]) -> tuple[Batch, torch.Tensor, torch.Tensor]:
        batch = self._collate(rows)
        return batch, batch.lay_out([row.trained for row in rows], False), batch.lay_out(weights, 0.0)

    def _validate(self, number: int, journal: TrainingJournal | None, callback: SftCallback) -> None:
        held: Sequence[BatchRow] = self._examples.validation
        values = held_out_loss(self._trained, held, self._collate_held, self._settings.batch.tokens, self._processes)
        if journal is None:
            return
        journal.metrics(number, values)
        callback.validated(number, values)
        shown = held[: self._settings.validation.samples]
        for sample in greedy_samples(self._trained, shown, self._collate_held, self._settings.validation.sample_tokens):
            journal.sample(number, sample)


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
