"""From rollouts with advantages to updates of the weights.

Log-probabilities are computed as they were sampled: over the ids that may be sampled, at the temperature of the
rollout, in float32. The first forward passes of a step, before any update, must give the behaviour's log-probabilities
again; the largest difference is returned. Imports torch; import this module late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from saccade.errors import TrainingError
from saccade.rl.losses.entropy import entropy
from saccade.rl.losses.settings import RlLossSettings
from saccade.rl.losses.total import LossInputs, Totals, policy_loss
from saccade.rl.recipe import RlOptimizerSettings
from saccade.tokens.batch import Batch, BatchRow, Collator
from saccade.training.learner import Learner
from saccade.training.passes import forward_passes, work
from saccade.training.weights import Trainable


@dataclass(frozen=True, slots=True)
class TrainingSample:
    """A rollout as the update sees it; arrays are (tokens,)."""

    row: BatchRow
    behaviour: NDArray[np.float32]
    """Log-probability of each sampled token under the policy that sampled it, else 0."""
    advantages: NDArray[np.float32]
    temperature: float


@dataclass(frozen=True, slots=True)
class ForwardOutput:
    """A forward pass: log-probabilities (rows, tokens), 0 where nothing was sampled, and what they came from."""

    logprobs: torch.Tensor
    logits: torch.Tensor
    """(sampled tokens, vocabulary), divided by the temperature, -inf where forbidden."""
    mask: torch.Tensor
    """bool (rows, tokens), on the model's device."""


@dataclass
class UpdateMetrics:
    """Sums over forward passes, and over the updates of a step."""

    loss: float = 0.0
    """Of a step: mean over updates."""
    gradient_norm: float = 0.0
    """Of a step: mean over updates."""
    tokens: float = 0.0
    clipped: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0
    max_logprob_diff: float = 0.0
    """Largest difference of log-probability between sampling and training; of a step: before any update."""
    updates: int = 0

    def add(self, other: UpdateMetrics) -> None:
        """These and those of `other`."""
        self.loss += other.loss
        self.gradient_norm += other.gradient_norm
        self.tokens += other.tokens
        self.clipped += other.clipped
        self.kl += other.kl
        self.entropy += other.entropy
        self.max_logprob_diff = max(self.max_logprob_diff, other.max_logprob_diff)
        self.updates += other.updates


def sampled_logprobs(trained: Trainable, batch: Batch, samples: Sequence[TrainingSample]) -> ForwardOutput:
    """Log-probabilities of the sampled tokens of `batch`, which holds the rows of `samples`, padded."""
    model, forbidden = trained.model, trained.checkpoint.forbidden
    device, dtype = forbidden.device, next(model.parameters()).dtype
    pictures = {
        name: value.to(device, dtype) if value.is_floating_point() else value.to(device)
        for name, value in batch.pictures.items()
    }
    mask = batch.lay_out([sample.row.trained for sample in samples], False).to(device)
    heat = torch.tensor([sample.temperature or 1.0 for sample in samples], device=device)
    with trained.autocast():
        hidden = model.model(
            input_ids=batch.ids.to(device), position_ids=batch.positions.to(device), use_cache=False, **pictures
        ).last_hidden_state
        before = mask[:, 1:]  # a token is predicted at the position in front of it
        logits = model.get_output_embeddings()(hidden[:, :-1][before]).float()
    logits = logits.masked_fill(forbidden, -torch.inf) / heat[:, None].expand(mask.shape)[:, 1:][before][:, None]
    targets = batch.ids[:, 1:].to(device)[before]
    chosen = torch.log_softmax(logits, dim=-1).gather(-1, targets[:, None])[:, 0]
    logprobs = torch.zeros(mask.shape, device=device)
    logprobs[mask] = chosen
    return ForwardOutput(logprobs, logits, mask)


@dataclass(frozen=True, slots=True)
class UpdateLimits:
    """What no update may pass."""

    max_tokens: int
    """Of a forward pass, padding included."""
    max_logprob_diff: float
    """Between the log-probabilities of sampling and training before any update, in nats."""


class Updater:
    """Updates one policy, step after step; every process has all samples, and computes its share of them."""

    def __init__(
        self,
        trained: Trainable,
        learner: Learner,
        collate: Collator,
        reference: Trainable | None,
        limits: UpdateLimits,
    ) -> None:
        """`reference` is the policy to stay near, where that is not the policy without its adapter."""
        self._trained = trained
        self._learner = learner
        self._collate = collate
        self._reference = reference
        self._limits = limits

    def step(
        self,
        samples: Sequence[TrainingSample],
        loss: RlLossSettings,
        settings: RlOptimizerSettings,
        number: int,
        seed: int,
    ) -> UpdateMetrics:
        """The updates of step `number` (from 0).

        Raises:
            TrainingError: the loss or the gradient is no number, or sampling and training disagree; the weights are
                as they were before that update.
        """
        sums = UpdateMetrics()
        for part in _minibatches(samples, settings, number, seed):
            metrics = self._gradient(part, loss, settings.clip)
            if sums.updates:
                metrics.max_logprob_diff = 0.0  # the policy is not the one that sampled any more
            self._check(metrics)
            self._learner.step(min(1.0, (number + 1) / max(1, settings.warmup_steps)))
            sums.add(metrics)
        sums.loss /= max(1, sums.updates)
        sums.gradient_norm /= max(1, sums.updates)
        return sums

    def _gradient(self, samples: Sequence[TrainingSample], loss: RlLossSettings, clip: float) -> UpdateMetrics:
        """Of one update, over all processes."""
        totals = Totals(float(sum(sample.row.trained.sum() for sample in samples)), float(len(samples)))
        lengths = [len(sample.row) for sample in samples]
        passes = forward_passes(lengths, self._limits.max_tokens, packed=False)
        own = UpdateMetrics()
        for group in self._learner.processes.balanced_shares(passes, work(lengths, passes)):
            value = None if group is None else self._loss([samples[index] for index in group], loss, totals, own)
            self._learner.backward(value)
        norm = self._learner.gradient_norm(clip)
        total = UpdateMetrics(gradient_norm=norm, updates=1)
        for sums in self._learner.processes.all_gather(own):
            total.add(sums)
        return total

    def _check(self, metrics: UpdateMetrics) -> None:
        if metrics.max_logprob_diff > self._limits.max_logprob_diff:
            self._learner.zero_grad()
            raise TrainingError(
                f"a token's log-probability differs by {metrics.max_logprob_diff:.2g} between sampling and training, "
                f"and at most {self._limits.max_logprob_diff:.2g} is allowed (max_logprob_diff): the policy that "
                "learns would not be the one that sampled. Nothing was updated."
            )
        if not (np.isfinite(metrics.gradient_norm) and np.isfinite(metrics.loss)):
            self._learner.zero_grad()
            raise TrainingError(
                f"an update had a loss of {metrics.loss} and a gradient of norm {metrics.gradient_norm}; the weights "
                "are as they were before. Lower the learning rate, or train in float32."
            )

    def _loss(
        self, samples: Sequence[TrainingSample], loss: RlLossSettings, totals: Totals, sums: UpdateMetrics
    ) -> torch.Tensor:
        """Of one forward pass; what is logged of it is added to `sums`."""
        batch = self._collate([sample.row for sample in samples])
        output = sampled_logprobs(self._trained, batch, samples)
        device = output.mask.device
        inputs = LossInputs(
            logprobs=output.logprobs,
            behaviour=batch.lay_out([sample.behaviour for sample in samples], 0.0).to(device),
            advantages=batch.lay_out([sample.advantages for sample in samples], 0.0).to(device),
            mask=output.mask.float(),
            reference=self._reference_logprobs(batch, samples) if loss.kl_weight else None,
            logits=_dense_logits(output) if loss.entropy_weight else None,
        )
        value, terms = policy_loss(inputs, loss, totals)
        with torch.no_grad():
            spread = float(entropy(output.logits.detach()).sum())
        sums.add(
            UpdateMetrics(
                float(value.detach()), 0.0, terms.tokens, terms.clipped, terms.kl, spread, terms.max_logprob_diff
            )
        )
        return value

    def _reference_logprobs(self, batch: Batch, samples: Sequence[TrainingSample]) -> torch.Tensor:
        """Log-probabilities under the reference: a copy of the first policy, or the policy without its adapter."""
        reference = self._reference or self._trained
        without: Any = nullcontext() if self._reference else self._trained.adapter.disable_adapter()
        with torch.no_grad(), without:
            return sampled_logprobs(reference, batch, samples).logprobs


def _minibatches(
    samples: Sequence[TrainingSample], settings: RlOptimizerSettings, number: int, seed: int
) -> Iterator[Sequence[TrainingSample]]:
    """The samples of each update; shuffled only where there is more than one."""
    if settings.updates == settings.epochs == 1:
        yield samples
        return
    for epoch in range(settings.epochs):
        order = np.random.default_rng([seed, number, epoch]).permutation(len(samples))
        for part in np.array_split(order, settings.updates):
            if len(part):
                yield [samples[index] for index in part]


def _dense_logits(output: ForwardOutput) -> torch.Tensor:
    """The logits (rows, tokens, vocabulary); 0 where nothing was sampled."""
    dense = output.logits.new_zeros((*output.mask.shape, output.logits.shape[-1]))
    dense[output.mask] = output.logits
    return dense
