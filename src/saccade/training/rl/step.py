"""Make a step of reinforcement learning (`Trainer.step`), and its update (`Updater.update`, `policy_loss`).

    tasks → rollouts → rewards → selection → advantages → rows → loss → update → metrics

A rollout is one frozen `Rollout`, which each stage replaces by one that knows more. Each process plays its share of the
tasks and computes its share of the forward passes; rollouts are gathered, so that each makes the same selection.
Log-probabilities before the first update must be those of the sampling. Imports torch; import this module late.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from saccade.core.seam import seam
from saccade.dialects.base import Dialect
from saccade.episode.flow import Plan
from saccade.errors import TrainingError
from saccade.grading.registry import grade_of
from saccade.record.task import Task
from saccade.rewards.reward import NoVerdict
from saccade.tasks.sources.settings import LEFT_OUT
from saccade.tokens.batch import Batch, BatchRow, Collator, forward_passes, in_low_precision, token_row, work
from saccade.tokens.decoder import Decoded, TransformersEngine
from saccade.training.efficiency import Meter, PassFlops
from saccade.training.learner import Learner, Pass
from saccade.training.parallel import Processes
from saccade.training.rl.engine import rest_servers, sync_weights
from saccade.training.rl.metrics import StepTiming, UpdateMetrics, step_metrics
from saccade.training.rl.recipe import Recipe, RlLossSettings, RlOptimizerSettings
from saccade.training.rl.rollout import Rollout, RolloutGroup, group_of
from saccade.training.rl.rollouts import RolloutResources, WatchedPlay, generate_rollouts, group_plans
from saccade.training.rl.scoring import Scorer
from saccade.training.rl.select import KL_ESTIMATORS, LARGEST_LOG_RATIO, Selection
from saccade.training.rl.settings import GenerationSettings
from saccade.training.rl.tasks import TaskList
from saccade.training.weights import Trainable


@dataclass(frozen=True, slots=True)
class ClipBounds:
    """Bounds of the ratio: PPO, with separate bounds as in DAPO, and dual-clip PPO."""

    low: float = 0.2
    """The ratio counts down to 1 - low."""
    high: float = 0.2
    """The ratio counts up to 1 + high."""
    dual: float | None = None
    """Largest ratio for negative advantages, above 1; None for no such bound."""

    def __post_init__(self) -> None:
        """Raise ValueError for bounds that bound nothing."""
        if not 0 <= self.low <= 1 or self.high < 0 or (self.dual is not None and self.dual <= 1):
            raise ValueError(f"clip needs 0 <= low <= 1, high >= 0 and dual > 1 or none; got {self}")


def log_ratio(logprobs: Tensor, behaviour: Tensor) -> Tensor:
    """Return the bounded log of policy over behaviour policy."""
    return torch.clamp(logprobs - behaviour, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)


def clipped_policy_loss(logprobs: Tensor, behaviour: Tensor, advantages: Tensor, clip: ClipBounds) -> Tensor:
    """Return the loss of each token, -min(r A, clip(r) A), at most -dual A for A < 0; `logprobs` has gradients."""
    ratio = torch.exp(log_ratio(logprobs, behaviour.detach()))
    fixed = advantages.detach()
    bounded = torch.clamp(ratio, 1.0 - clip.low, 1.0 + clip.high)
    loss = torch.maximum(-fixed * ratio, -fixed * bounded)
    if clip.dual is None:
        return loss
    return torch.where(fixed < 0, torch.minimum(loss, -fixed * clip.dual), loss)


def clipped(logprobs: Tensor, behaviour: Tensor, advantages: Tensor, clip: ClipBounds) -> Tensor:
    """Return whether a bound removed the gradient of each token (bool)."""
    ratio = torch.exp(log_ratio(logprobs, behaviour)).detach()
    above = (advantages > 0) & (ratio > 1.0 + clip.high)
    below = (advantages < 0) & (ratio < 1.0 - clip.low)
    far = (advantages < 0) & (ratio > clip.dual) if clip.dual is not None else torch.zeros_like(below)
    return above | below | far


@dataclass(frozen=True)
class LossInputs:
    """Tensors of a forward pass, (rows, tokens)."""

    logprobs: Tensor
    """Of the sampled ids under the policy; the only tensor but `entropy` that gradients flow through."""
    behaviour: Tensor
    """Of the same ids under the policy that sampled them."""
    advantages: Tensor
    mask: Tensor
    """Whether each token was sampled (bool or 0 and 1); the other tensors may hold anything where it was not."""
    reference: Tensor | None = None
    """Of the same ids under the reference policy; needed for a kl_weight above 0."""
    entropy: Tensor | None = None
    """Of the policy where each id was sampled, in nats; needed for an entropy_weight other than 0, else only logged."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts over the whole step."""

    tokens: float
    """Sampled tokens."""
    sequences: float
    """Rollouts with at least one of them."""


@dataclass(frozen=True, slots=True)
class LossSums:
    """Sums over sampled tokens, for the log."""

    tokens: float
    clipped: float
    """Tokens whose gradient a bound removed."""
    kl: float
    """Distance to the reference, as `RlLossSettings.kl` estimates it."""
    entropy: float
    max_logprob_diff: float
    """Largest absolute difference of log-probability between policy and behaviour; no sum."""


def policy_loss(inputs: LossInputs, settings: RlLossSettings, totals: Totals | None = None) -> tuple[Tensor, LossSums]:
    """Compute the loss of a forward pass, a scalar, and its sums for the log.

        loss = policy + kl_weight · kl(policy, reference) - entropy_weight · entropy

    is averaged over tokens or rollouts. The losses of several passes add up to that of the whole step if each gets the
    step's `totals`; without them the pass is the step. Raises ValueError for a missing reference or entropy.
    """
    clip = ClipBounds(settings.clip_low, settings.clip_high, settings.dual_clip or None)
    mask = inputs.mask.bool()
    # What was not sampled may be NaN or -inf, and 0 · NaN is NaN: in the loss and in its gradient.
    logprobs, behaviour, advantages = (
        tensor.masked_fill(~mask, 0.0) for tensor in (inputs.logprobs, inputs.behaviour, inputs.advantages)
    )
    values = clipped_policy_loss(logprobs, behaviour, advantages, clip)
    distance = torch.zeros_like(values)
    spread = distance if inputs.entropy is None else inputs.entropy.masked_fill(~mask, 0.0)
    if settings.kl_weight:
        if inputs.reference is None:
            raise ValueError("a kl_weight above 0 needs log-probabilities under a reference policy")
        distance = KL_ESTIMATORS.load(settings.kl)(logprobs, inputs.reference.masked_fill(~mask, 0.0))
        values = values + settings.kl_weight * distance
    if settings.entropy_weight:
        if inputs.entropy is None:
            raise ValueError("an entropy_weight other than 0 needs the policy's entropy")
        values = values - settings.entropy_weight * spread
    loss = _aggregate(values, mask, settings, totals)
    with torch.no_grad():
        held = clipped(logprobs, behaviour, advantages, clip)
        sums = LossSums(
            tokens=float(mask.sum()),
            clipped=float((held & mask).sum()),
            kl=float((distance * mask).sum()),
            entropy=float((spread * mask).sum()),
            max_logprob_diff=float((logprobs - behaviour).abs().max()) if mask.numel() else 0.0,
        )
    return loss, sums


def _aggregate(values: Tensor, mask: Tensor, settings: RlLossSettings, totals: Totals | None) -> Tensor:
    tokens, sequences = (None, None) if totals is None else (totals.tokens, totals.sequences)
    if settings.aggregate == "token-mean":
        return token_mean(values, mask, tokens)
    if settings.aggregate == "sequence-mean":
        return sequence_mean(values, mask, sequences)
    return sequence_sum(values, mask, settings.scale, sequences)


def token_mean(values: Tensor, mask: Tensor, tokens: float | None = None) -> Tensor:
    """Average over the step's `tokens` (None: those of `mask`): every token weighs the same."""
    count = mask.sum().clamp(min=1) if tokens is None else tokens
    return (values * mask).sum() / count


def sequence_mean(values: Tensor, mask: Tensor, sequences: float | None = None) -> Tensor:
    """Average the mean of each rollout over `sequences` (None: rows with a sampled token)."""
    lengths = mask.sum(dim=-1)
    means = (values * mask).sum(dim=-1) / lengths.clamp(min=1)
    count = (lengths > 0).sum().clamp(min=1) if sequences is None else sequences
    return means.sum() / count


def sequence_sum(values: Tensor, mask: Tensor, scale: float, sequences: float | None = None) -> Tensor:
    """Average the sum of each rollout over `sequences`, divided by a constant `scale` (Dr. GRPO)."""
    count = (mask.sum(dim=-1) > 0).sum().clamp(min=1) if sequences is None else sequences
    return (values * mask).sum() / count / scale


@dataclass(frozen=True, slots=True)
class ForwardOutput:
    """The output of a forward pass; tensors (rows, tokens) on the model's device."""

    logprobs: torch.Tensor
    """0 where nothing was sampled."""
    entropy: torch.Tensor
    """Of the distribution from which the token was sampled, in nats; 0 where nothing was."""
    mask: torch.Tensor
    """Whether the token was sampled (bool)."""


def in_rows(values: Sequence[NDArray[Any]], fill: float | bool) -> Tensor:
    """Lay out per-token values of trajectories as (rows, tokens), with `fill` behind the shorter ones."""
    return pad_sequence([torch.from_numpy(value) for value in values], batch_first=True, padding_value=fill)


def sampled_logprobs(
    trained: Trainable, batch: Batch, rows: Sequence[BatchRow], temperature: float | None
) -> ForwardOutput:
    """Return log-probabilities of the sampled tokens of `batch`, which holds `rows`; greedy counts as 1.

    In float32 over the ids that may be sampled: before any update they are those of the sampling. The result has a row
    for each trajectory, also where `batch` has them packed.
    """
    chosen = [row.trained for row in rows]
    with trained.autocast():
        scores = trained.scorer(batch, batch.lay_out(chosen, False), temperature)
    mask = in_rows(chosen, False).to(trained.checkpoint.device)
    logprobs, entropy = (
        torch.zeros(mask.shape, device=mask.device).masked_scatter(mask, values)
        for values in (scores.logprobs, scores.entropy)
    )
    return ForwardOutput(logprobs, entropy, mask)


def reference_logprobs(
    trained: Trainable, reference: Trainable | None, batch: Batch, rows: Sequence[BatchRow], temperature: float | None
) -> torch.Tensor:
    """Return the same (rows, tokens) under the reference policy: `reference`, or `trained` without its adapter."""
    without: Any = nullcontext() if reference else trained.adapter.disable_adapter()
    with torch.no_grad(), without:
        return sampled_logprobs(reference or trained, batch, rows, temperature).logprobs


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step."""

    rollouts: list[Rollout]
    """Every rollout in the order of the tasks, with its reward; those that were trained on with their advantage."""
    cursor: int
    """Of the next task in the sequence of epochs."""
    tokens: int
    """Sampled tokens that entered the update."""
    metrics: dict[str, float]


@dataclass(frozen=True)
class Trainer:
    """Makes steps. Every process has one and calls it alike."""

    recipe: Recipe
    dialect: Dialect
    resources: RolloutResources
    generation: GenerationSettings
    scorer: Scorer
    updater: Updater
    meter: Meter | None = None
    """None: steps do not say how near they are to the limits of the device."""

    @property
    def processes(self) -> Processes:
        """The processes that make a step together."""
        return self.updater.learner.processes

    async def step(self, number: int, tasks: TaskList, cursor: int) -> StepResult:
        """Make step `number` (from 0), whose first task is at `cursor` in the sequence of epochs.

        Raises `TrainingError`: every rollout was lost, no question to a judge had a verdict, or the update failed.
        """
        trained, limits, timing = self.updater.learner.trained, self.recipe.rounds, StepTiming()
        trained.model.eval()
        groups: list[RolloutGroup] = []
        selection, before = Selection(), self.decoded()
        rounds, last = 0, cursor + limits.rounds * limits.tasks + len(tasks.ids)
        while rounds < limits.rounds and cursor < last:
            places = range(cursor, cursor + limits.tasks)
            cursor = places.stop
            own = await self.take(tasks, places)
            played = await self.score(await self.roll_out(own, timing), timing)
            rounds += bool(played)  # a round whose tasks were all left out is none
            groups += played
            check_judged(groups)
            selection = seam(self.recipe.selection, Selection)(groups)
            if len(selection.kept) >= limits.groups:
                break
        check_lost(groups)
        compared = seam(self.recipe.advantage, list, each=(Rollout,))(selection)

        began = time.perf_counter()
        if compared:
            await rest_servers(self.resources.engine, self.updater.learner)
        sums = await asyncio.to_thread(self.updater.update, compared, number)
        updating = time.perf_counter() - began
        if sums.updates:
            await sync_weights(self.resources.engine, self.updater.learner)
        timing.update = time.perf_counter() - began

        timing.replayed = int(self.processes.all_sum([timing.replayed])[0])
        every = (item for group in groups for item in group.rollouts)
        rollouts = list({item.id: item for item in (*every, *compared)}.values())  # in the order of `played`
        metrics = step_metrics(rollouts, selection, sums, timing, self.updater.learner.learning_rate)
        if self.meter is not None:
            metrics |= self._near(self.meter, compared, updating, self.decoded() - before)
        return StepResult(rollouts, cursor, int(sums.tokens), metrics)

    def decoded(self) -> Decoded:
        """Return what the engine of this process has decoded since it was made; nothing of a server."""
        engine = self.resources.engine
        return engine.decoded if isinstance(engine, TransformersEngine) else Decoded()

    def _near(self, meter: Meter, compared: Sequence[Rollout], updating: float, decoded: Decoded) -> dict[str, float]:
        """Return how near updating and decoding were to the limits of the device, as shares of them."""
        values = {"bandwidth": meter.bandwidth(decoded.bytes, decoded.seconds)} if decoded.seconds else {}
        if compared:
            flops = meter.work.flops(token_row(item.trained_tokens()) for item in compared)
            values["mfu"] = meter.mfu(update_flops(flops, self.recipe), updating, self.processes.count)
        return values

    async def take(self, tasks: TaskList, places: Sequence[int]) -> dict[int, Task | None]:
        """Make this process's share of the tasks at `places` in the sequence of epochs; None for one left out."""
        own, seed, store = self.processes.share(places), self.recipe.seed, self.resources.store
        return await asyncio.to_thread(lambda: {place: tasks.made(tasks.at(place, seed), store) for place in own})

    async def roll_out(self, tasks: Mapping[int, Task | None], timing: StepTiming) -> list[list[Rollout]]:
        """Roll out a group of each task by its place, those of this process; an empty one of a task left out."""
        size = self.recipe.rollout.group_size
        plans = [
            plan
            for place, task in tasks.items()
            if task is not None
            for plan in await self.plans(task, range(place * size, (place + 1) * size), f"{task.id}@{place}")
        ]
        with self.sampling():
            played, took = await generate_rollouts(plans, self.resources, self.generation, self.recipe.seed)
        timing.decoding += took.decoding
        timing.sandbox += took.waiting
        timing.replayed += took.replayed
        left = iter(played)
        return [[] if task is None else list(islice(left, size)) for task in tasks.values()]

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Make the model ready where the engine of this process samples with it: whole, and in its arithmetic's
        precision. Every process enters it alike.
        """
        learner = self.updater.learner
        if not self.resources.engine.in_process:
            yield
            return
        with learner.gathered(), in_low_precision(learner.trained.model, low=learner.trained.low_precision):
            yield
        if learner.processes.device.type == "cuda":
            torch.cuda.empty_cache()  # caches of sampling are in pieces that an update could not use

    async def score(
        self, own: Sequence[Sequence[Rollout]], timing: StepTiming, *, trained_on: bool = True
    ) -> list[RolloutGroup]:
        """Score the groups of this process, and return those of every process."""
        began = time.perf_counter()
        scored = await asyncio.gather(*(self._scored(group, trained_on) for group in own))
        ended = time.perf_counter()
        timing.scoring += ended - began
        everyones = await asyncio.to_thread(self.processes.gather_shares, scored)
        timing.others += time.perf_counter() - ended
        return [group_of(group) for group in everyones if group]

    async def _scored(self, group: Sequence[Rollout], trained_on: bool) -> list[Rollout]:
        return list(await self.scorer(group, trained_on=trained_on)) if group else []

    async def plans(self, task: Task, numbers: range, group: str, watched: WatchedPlay | None = None) -> list[Plan]:
        store = self.resources.store
        return await asyncio.to_thread(group_plans, self.recipe, self.dialect, task, numbers, group, store, watched)


@dataclass(frozen=True)
class Updater:
    """Updates the weights with rollouts that have their advantages."""

    learner: Learner
    collate: Collator
    recipe: Recipe
    reference: Trainable | None
    """The reference policy, where it is not the policy without its adapter."""
    max_tokens: int
    """Most tokens of a forward pass, padding included where there is any."""
    max_logprob_diff: float
    """Largest difference of a log-probability between sampling and training before any update, in nats."""
    train_mode: bool = False
    """Mode of the model in forward passes: transformers recomputes activations only in train mode."""

    def update(self, rollouts: Sequence[Rollout], number: int) -> UpdateMetrics:
        """Make the updates of step `number`; none without rollouts.

        Raises `TrainingError`: the loss or the gradient is no number, or sampling and training disagree; the weights
        are as they were before that update.
        """
        self.learner.trained.model.train(self.train_mode)
        sums, optimizer = UpdateMetrics(), self.recipe.optimizer
        old = self.old_logprobs(rollouts) if recomputes(self.recipe) and rollouts else {}
        for minibatch in _minibatches(rollouts, optimizer, (self.recipe.seed, number)):
            metrics = self.gradient(minibatch, old)
            if sums.updates:
                metrics.max_logprob_diff = 0.0  # the policy is not the one that sampled any more
            self.check(metrics)
            self.learner.step(min(1.0, (number + 1) / max(1, optimizer.warmup_steps)))
            sums.add(metrics)
        sums.loss /= max(1, sums.updates)
        sums.gradient_norm /= max(1, sums.updates)
        return sums

    def _passes(self, rows: Sequence[BatchRow]) -> list[Pass]:
        lengths = [len(row) for row in rows]
        passes = forward_passes(lengths, self.max_tokens, packed=self.learner.trained.packs)
        return self.learner.share_passes(passes, work(lengths, passes))

    def old_logprobs(self, rollouts: Sequence[Rollout]) -> dict[str, NDArray[np.float32]]:
        """Return log-probabilities of each rollout's tokens under the policy as it is, by its id."""
        rows, own = [token_row(item.trained_tokens()) for item in rollouts], {}
        trained, temperature = self.learner.trained, self.recipe.rollout.sampling.temperature
        with torch.no_grad():
            for item in self._passes(rows):
                chosen = [rows[at] for at in item.rows]
                found = sampled_logprobs(trained, self.collate(chosen), chosen, temperature)
                for at, row, logprobs in zip(item.rows, chosen, found.logprobs.cpu().numpy(), strict=True):
                    own[rollouts[at].id] = logprobs[: len(row)]
        return {name: found for part in self.learner.processes.all_gather(own) for name, found in part.items()}

    def gradient(self, rollouts: Sequence[Rollout], old: Mapping[str, NDArray[np.float32]]) -> UpdateMetrics:
        """Compute the gradient of one update, summed over forward passes and processes; `old` as `loss` takes it."""
        rows = [token_row(item.trained_tokens()) for item in rollouts]
        totals = Totals(float(sum(row.trained.sum() for row in rows)), float(len(rows)))
        own = UpdateMetrics()
        for item in self._passes(rows):
            chosen = [rollouts[at] for at in item.rows]
            loss, metrics = self.loss(chosen, [rows[at] for at in item.rows], totals, old)
            if item.counts:
                own.add(metrics)
            self.learner.backward(loss, counts=item.counts)
        total = UpdateMetrics(gradient_norm=self.learner.gradient_norm(self.recipe.optimizer.clip), updates=1)
        for metrics in self.learner.processes.all_gather(own):
            total.add(metrics)
        return total

    def loss(
        self,
        rollouts: Sequence[Rollout],
        rows: Sequence[BatchRow],
        totals: Totals,
        old: Mapping[str, NDArray[np.float32]],
    ) -> tuple[torch.Tensor, UpdateMetrics]:
        """Compute the loss of one forward pass.

        Args:
            rollouts: those of the pass.
            rows: the same as tokens.
            totals: of the whole update.
            old: recomputed log-probabilities by rollout; empty where the only update's own forward pass gives them.
        """
        trained, settings = self.learner.trained, self.recipe.loss
        temperature = self.recipe.rollout.sampling.temperature
        batch = self.collate(rows)
        output = sampled_logprobs(trained, batch, rows, temperature)
        reference, device = None, output.mask.device
        if settings.kl_weight:
            reference = reference_logprobs(trained, self.reference, batch, rows, temperature)
        behaviour = sampled = in_rows([item.behaviour_logprobs() for item in rollouts], 0.0).to(device)
        if settings.old_logprobs == "recompute":
            again = in_rows([old[item.id] for item in rollouts], 0.0) if old else output.logprobs.detach()
            behaviour = again.to(device)
        inputs = LossInputs(
            logprobs=output.logprobs,
            behaviour=behaviour,
            advantages=in_rows([item.token_advantages() for item in rollouts], 0.0).to(device),
            mask=output.mask.float(),
            reference=reference,
            entropy=output.entropy,
        )
        loss, sums = policy_loss(inputs, settings, totals)
        value = float(loss.detach())
        gap = float((output.logprobs.detach() - sampled).masked_fill(~output.mask, 0.0).abs().max())
        return loss, UpdateMetrics(value, 0.0, sums.tokens, sums.clipped, sums.kl, sums.entropy, gap)

    def check(self, metrics: UpdateMetrics) -> None:
        """Raise `TrainingError` for an update that must not be made, after dropping its gradient."""
        if metrics.max_logprob_diff > self.max_logprob_diff:
            self.learner.zero_grad()
            raise TrainingError(
                f"a token's log-probability differs by {metrics.max_logprob_diff:.2g} between sampling and training, "
                f"and at most {self.max_logprob_diff:.2g} is allowed (max_logprob_diff): the policy that "
                "learns would not be the one that sampled. Nothing was updated."
            )
        if not (np.isfinite(metrics.gradient_norm) and np.isfinite(metrics.loss)):
            self.learner.zero_grad()
            raise TrainingError(
                f"an update had a loss of {metrics.loss} and a gradient of norm {metrics.gradient_norm}; the weights "
                "are as they were before. Lower the learning rate, or train in float32."
            )


def recomputes(recipe: Recipe) -> bool:
    """Return whether old log-probabilities take a pass of their own: that of an only update gives them."""
    return recipe.loss.old_logprobs == "recompute" and recipe.optimizer.updates * recipe.optimizer.epochs > 1


def update_flops(flops: PassFlops, recipe: Recipe) -> float:
    """Return model FLOPs of updates: `flops` and a pass of the reference in each epoch, and old ones once."""
    reference = flops.forward if recipe.loss.kl_weight else 0.0
    old = flops.forward if recomputes(recipe) else 0.0
    return recipe.optimizer.epochs * (flops.both + reference) + old


def _minibatches(
    rollouts: Sequence[Rollout], settings: RlOptimizerSettings, seed: tuple[int, int]
) -> Iterator[Sequence[Rollout]]:
    """Yield the rollouts of each update; shuffled only where there is more than one."""
    if not rollouts:
        return
    if settings.updates == settings.epochs == 1:
        yield rollouts
        return
    for epoch in range(settings.epochs):
        order = np.random.default_rng([*seed, epoch]).permutation(len(rollouts))
        for part in np.array_split(order, settings.updates):
            if len(part):
                yield [rollouts[index] for index in part]


def check_lost(groups: Sequence[RolloutGroup]) -> None:
    """Raise `TrainingError` if every rollout was lost."""
    rollouts = [item for group in groups for item in group.rollouts]
    if not rollouts:
        raise TrainingError(f"no task of a step could be made; {LEFT_OUT} in the run's folder says why.")
    if all(item.lost for item in rollouts):
        detail = rollouts[0].trajectory.stop_detail
        raise TrainingError(f"every rollout of a step was lost to outages, the first to this one: {detail}")


def check_judged(groups: Sequence[RolloutGroup]) -> None:
    """Raise `TrainingError` if a judge was asked about the rollouts of a step, and gave no verdict on any."""
    rollouts = [item for group in groups for item in group.rollouts]
    details = [part.detail for item in rollouts for part in item.reward.parts if part.value is None]
    details += [grade_of(score.detail).invalid for item in rollouts for score in item.trajectory.scores]
    failed = {NoVerdict.OUTAGE.value, NoVerdict.REFUSED.value, NoVerdict.MALFORMED.value} & set(details)
    if failed and all(item.reward.total is None for item in rollouts):
        raise TrainingError(
            f"no rollout of a step has a reward, for the judge gave no verdict ({', '.join(sorted(failed))}); the "
            "warnings above say why. Correct the cause, and continue with --resume."
        )
