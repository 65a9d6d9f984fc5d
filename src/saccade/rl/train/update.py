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
from saccade.rl.losses.settings import LossSettings
from saccade.rl.losses.total import LossInputs, Totals, policy_loss
from saccade.rl.recipe import OptimiserSettings
from saccade.tokens.batch import Batch, Collator, Row
from saccade.training.optimiser import set_rate
from saccade.training.passes import forward_passes
from saccade.training.weights import Trainable


@dataclass(frozen=True, slots=True)
class Sample:
    """A rollout as the update sees it; arrays are (tokens,)."""

    row: Row
    behaviour: NDArray[np.float32]
    """Log-probability of each sampled token under the policy that sampled it, else 0."""
    advantages: NDArray[np.float32]
    temperature: float


@dataclass(frozen=True, slots=True)
class Found:
    """A forward pass: log-probabilities (rows, tokens), 0 where nothing was sampled, and what they came from."""

    logprobs: torch.Tensor
    logits: torch.Tensor
    """(sampled tokens, vocabulary), divided by the temperature, -inf where forbidden."""
    mask: torch.Tensor
    """bool (rows, tokens), on the model's device."""


@dataclass
class UpdateSums:
    """Of all updates of a step."""

    loss: float = 0.0
    """Mean over updates."""
    gradient_norm: float = 0.0
    """Mean over updates."""
    tokens: float = 0.0
    clipped: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0
    gap: float = 0.0
    """Largest difference of log-probability before any update."""
    updates: int = 0


def sampled_logprobs(trained: Trainable, batch: Batch, samples: Sequence[Sample]) -> Found:
    """Log-probabilities of the sampled tokens of `batch`, which holds the rows of `samples`, padded."""
    model, forbidden = trained.model, trained.checkpoint.forbidden
    device, dtype = forbidden.device, next(model.parameters()).dtype
    pictures = {
        name: value.to(device, dtype) if value.is_floating_point() else value.to(device)
        for name, value in batch.pictures.items()
    }
    mask = batch.place([sample.row.trained for sample in samples], False).to(device)
    heat = torch.tensor([sample.temperature or 1.0 for sample in samples], device=device)
    with trained.autocast():
        hidden = model.model(
            input_ids=batch.ids.to(device), position_ids=batch.positions.to(device), use_cache=False, **pictures
        ).last_hidden_state
        before = mask[:, 1:]  # a token is predicted at the position in front of it
        logits = model.get_output_embeddings()(hidden[:, :-1][before]).float()
    logits = logits.masked_fill(forbidden, -torch.inf) / heat[:, None].expand(mask.shape)[:, 1:][before][:, None]
    wanted = batch.ids[:, 1:].to(device)[before]
    chosen = torch.log_softmax(logits, dim=-1).gather(-1, wanted[:, None])[:, 0]
    logprobs = torch.zeros(mask.shape, device=device)
    logprobs[mask] = chosen
    return Found(logprobs, logits, mask)


@dataclass(frozen=True, slots=True)
class UpdateLimits:
    """What no update may pass."""

    tokens: int
    """Of a forward pass, padding included."""
    gap: float
    """Between the log-probabilities of sampling and training before any update, in nats."""


class Updater:
    """Updates one policy, step after step."""

    def __init__(
        self,
        trained: Trainable,
        optimiser: torch.optim.Optimizer,
        collate: Collator,
        reference: Trainable | None,
        limits: UpdateLimits,
    ) -> None:
        """`reference` is the policy to stay near, where that is not the policy without its adapter."""
        self._trained = trained
        self._optimiser = optimiser
        self._collate = collate
        self._reference = reference
        self._limits = limits
        self._parameters = list(trained.parameters().values())

    def step(
        self, samples: Sequence[Sample], loss: LossSettings, settings: OptimiserSettings, number: int, seed: int
    ) -> UpdateSums:
        """The updates of step `number` (from 0).

        Raises:
            TrainingError: the loss or the gradient is no number, or sampling and training disagree; the weights are
                as they were before that update.
        """
        sums = UpdateSums()
        set_rate(self._optimiser, min(1.0, (number + 1) / max(1, settings.warmup_steps)))
        for part in _parts(samples, settings, number, seed):
            self._update(part, loss, settings.clip, sums)
        sums.loss /= max(1, sums.updates)
        sums.gradient_norm /= max(1, sums.updates)
        return sums

    def _update(self, samples: Sequence[Sample], loss: LossSettings, clip: float, sums: UpdateSums) -> None:
        totals = Totals(float(sum(sample.row.trained.sum() for sample in samples)), float(len(samples)))
        passes = forward_passes([len(sample.row) for sample in samples], self._limits.tokens, packed=False)
        amount = 0.0
        for group in passes:
            amount += self._backward([samples[index] for index in group], loss, totals, sums)
        norm = float(torch.nn.utils.clip_grad_norm_(self._parameters, clip or float("inf")))
        if sums.gap > self._limits.gap:
            self._optimiser.zero_grad(set_to_none=True)
            raise TrainingError(
                f"a token's log-probability differs by {sums.gap:.2g} between sampling and training, and at most "
                f"{self._limits.gap:.2g} is allowed (largest_gap): the policy that learns would not be the one that "
                "sampled. Nothing was updated."
            )
        if not (np.isfinite(norm) and np.isfinite(amount)):
            self._optimiser.zero_grad(set_to_none=True)
            raise TrainingError(
                f"an update had a loss of {amount} and a gradient of norm {norm}; the weights are as they were before. "
                "Lower the learning rate, or train in float32."
            )
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        sums.loss += amount
        sums.gradient_norm += norm
        sums.updates += 1

    def _backward(self, samples: Sequence[Sample], loss: LossSettings, totals: Totals, sums: UpdateSums) -> float:
        batch = self._collate([sample.row for sample in samples])
        found = sampled_logprobs(self._trained, batch, samples)
        device = found.mask.device
        inputs = LossInputs(
            logprobs=found.logprobs,
            behaviour=batch.place([sample.behaviour for sample in samples], 0.0).to(device),
            advantages=batch.place([sample.advantages for sample in samples], 0.0).to(device),
            mask=found.mask.float(),
            reference=self._referred(batch, samples) if loss.kl_weight else None,
            logits=_laid(found) if loss.entropy_weight else None,
        )
        value, told = policy_loss(inputs, loss, totals)
        torch.autograd.backward(value)
        sums.tokens += told.tokens
        sums.clipped += told.clipped
        sums.kl += told.kl
        with torch.no_grad():
            sums.entropy += float(entropy(found.logits.detach()).sum())
        if not sums.updates:
            sums.gap = max(sums.gap, told.largest_gap)
        return float(value.detach())

    def _referred(self, batch: Batch, samples: Sequence[Sample]) -> torch.Tensor:
        """Log-probabilities under the reference: a copy of the first policy, or the policy without its adapter."""
        reference = self._reference or self._trained
        without: Any = nullcontext() if self._reference else self._trained.adapter.disable_adapter()
        with torch.no_grad(), without:
            return sampled_logprobs(reference, batch, samples).logprobs


def _parts(
    samples: Sequence[Sample], settings: OptimiserSettings, number: int, seed: int
) -> Iterator[Sequence[Sample]]:
    """The samples of each update; shuffled only where there is more than one."""
    if settings.updates == settings.epochs == 1:
        yield samples
        return
    for epoch in range(settings.epochs):
        order = np.random.default_rng([seed, number, epoch]).permutation(len(samples))
        for part in np.array_split(order, settings.updates):
            if len(part):
                yield [samples[index] for index in part]


def _laid(found: Found) -> torch.Tensor:
    """The logits (rows, tokens, vocabulary); 0 where nothing was sampled."""
    laid = found.logits.new_zeros((*found.mask.shape, found.logits.shape[-1]))
    laid[found.mask] = found.logits
    return laid
