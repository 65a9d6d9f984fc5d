"""Update trained weights: gradients and optimizer, over the processes of a run.

    for item in learner.share_passes(passes, sizes):
        learner.backward(loss(item.rows), counts=item.counts)
    norm = learner.gradient_norm(clip)
    learner.step(fraction)                   # or zero_grad(), and nothing has happened

Losses are parts of a sum over all processes, and the gradient is that of the sum: the same as that of one process, but
for the order in which floats are added.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch

from saccade.training.checkpoints import Checkpoints, RunState
from saccade.training.optimizer import (
    DividedModel,
    full_tensor,
    like,
    make_optimizer,
    optimizer_tensors,
    own_part,
    restore_optimizer,
    set_rate,
)
from saccade.training.parallel import Processes
from saccade.training.settings import OptimizerSettings
from saccade.training.weights import Trainable


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass of a process."""

    rows: Sequence[int]
    counts: bool = True
    """False: the pass is made only because the other processes make one; its loss counts as 0."""


class Learner:
    """Makes the same update in every process; each holds all weights, gradients and optimizer state."""

    def __init__(self, trained: Trainable, settings: OptimizerSettings, processes: Processes) -> None:
        self.trained = trained
        self.processes = processes
        self._weights = trained.parameters()
        self._optimizer = make_optimizer(trained, settings, self._weights)

    @property
    def learning_rate(self) -> float:
        """That of the last update."""
        return float(self._optimizer.param_groups[0]["lr"]) if self._optimizer.param_groups else 0.0

    def share_passes(self, passes: Sequence[Sequence[int]], sizes: Sequence[float]) -> list[Pass]:
        """Return this process's share of the forward passes of an update, at least one in all."""
        return [Pass(rows) for rows in self.processes.balanced_shares(passes, sizes) if rows is not None]

    def backward(self, loss: torch.Tensor, *, counts: bool = True) -> None:
        """Add the gradient of a part of the loss."""
        torch.autograd.backward(loss if counts else loss * 0.0)

    def gradient_norm(self, clip: float) -> float:
        """Return the norm of the whole gradient, then clip it to `clip` (0: no limit)."""
        parameters = list(self._weights.values())
        self.processes.sum_gradients(parameters)
        return float(torch.nn.utils.clip_grad_norm_(parameters, clip or float("inf")))

    def step(self, fraction: float) -> None:
        """Update the weights at `fraction` of the full learning rate, and drop the gradient."""
        set_rate(self._optimizer, fraction)
        self._optimizer.step()
        self.zero_grad()

    def zero_grad(self) -> None:
        """Drop the gradient."""
        for parameter in self._weights.values():
            parameter.grad = None

    def gathered(self) -> AbstractContextManager[None]:
        """Let every process use the whole model by itself; all enter and leave together."""
        return nullcontext()

    def snapshot(self) -> Trainable | None:
        """Return a copy of the policy for export, in the first process only; every process calls it."""
        if not self.processes.is_main:
            return None
        trained = self.trained
        model, adapter = copy.deepcopy((trained.model, trained.adapter))
        return replace(trained, checkpoint=replace(trained.checkpoint, model=model), adapter=adapter)

    def finished(self) -> Trainable | None:
        """Return the policy itself where `snapshot` returns a copy; the learner must not be used again."""
        return self.trained if self.processes.is_main else None

    def save(self, checkpoints: Checkpoints, state: RunState) -> None:
        """Copy everything to the host, and begin to write a checkpoint of it; every process calls it."""
        checkpoints.finish()  # or the host would hold two
        kept = (self._weights, optimizer_tensors(self._optimizer, self._weights))
        own: list[dict[str, torch.Tensor]] = [
            {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
            if self.processes.is_main
            else {}
            for tensors in kept
        ]
        checkpoints.save(state, *own)

    def restore(self, weights: Mapping[str, torch.Tensor], optimizer: Mapping[str, torch.Tensor]) -> None:
        """Restore a checkpoint, whatever number of processes wrote it."""
        with torch.no_grad():
            for name, parameter in self._weights.items():
                parameter.copy_(like(parameter, weights[name].to(parameter.device)))
        restore_optimizer(self._optimizer, self._weights, optimizer)


class ShardedLearner(Learner):
    """Makes the same updates with weights, gradients and optimizer state divided among the processes.

    For models whose training does not fit one GPU: of the 16 bytes of a weight (float32 value, gradient and AdamW's two
    moments) one of N processes keeps an N-th. `--plan` prints what a GPU holds besides.
    """

    def __init__(self, trained: Trainable, settings: OptimizerSettings, processes: Processes) -> None:
        """Divide the weights of `trained`; all processes call it together."""
        self._divided = DividedModel(trained, processes)
        super().__init__(trained, settings, processes)

    def share_passes(self, passes: Sequence[Sequence[int]], sizes: Sequence[float]) -> list[Pass]:
        """Return equally many passes in every process, as all compute together; fillers do not count."""
        least = min(range(len(passes)), key=lambda at: sizes[at])
        filler = Pass(passes[least][-1:], counts=False)
        own = self.processes.balanced_shares(passes, sizes)
        return [filler if rows is None else Pass(rows) for rows in own]

    def gradient_norm(self, clip: float) -> float:
        parts = [own_part(weight.grad) for weight in self._weights.values() if weight.grad is not None]
        own = float(torch.nn.utils.get_total_norm(parts)) if parts else 0.0
        norm = self.processes.all_sum([own**2])[0] ** 0.5
        if clip and norm > clip:
            for part in parts:
                part.mul_(clip / (norm + 1e-6))
        return float(norm)

    def gathered(self) -> AbstractContextManager[None]:
        return self._divided.gathered()

    def snapshot(self) -> Trainable | None:
        return self._divided.full_model()

    def finished(self) -> Trainable | None:
        return self._divided.full_model()

    def save(self, checkpoints: Checkpoints, state: RunState) -> None:
        """Copy whole tensors to the host, some of them in each process, and begin to write them."""
        checkpoints.finish()
        tensors = optimizer_tensors(self._optimizer, self._weights)
        keeper = keepers({name: weight.numel() for name, weight in self._weights.items()}, self.processes.count)
        owners = {name: keeper[name.rpartition("/")[0]] for name in tensors}
        checkpoints.save(state, self._taken(self._weights, keeper), self._taken(tensors, owners))

    def _taken(self, tensors: Mapping[str, torch.Tensor], owners: Mapping[str, int]) -> dict[str, torch.Tensor]:
        """Return the whole tensors that this process writes; all processes gather in the same order."""
        own = {}
        for name, tensor in tensors.items():
            full = full_tensor(tensor.detach())
            if owners[name] == self.processes.rank:
                own[name] = full.to("cpu", copy=True)
        return own


def make_learner(trained: Trainable, settings: OptimizerSettings, processes: Processes, shard: bool) -> Learner:
    """Make the learner of a run, divided where `shard` and several processes ask for it."""
    kind = ShardedLearner if shard and processes.count > 1 else Learner
    return kind(trained, settings, processes)


def keepers(sizes: Mapping[str, int], processes: int) -> dict[str, int]:
    """Assign each weight to the process that writes it: the largest first, each to the process with least."""
    taken = [0] * processes
    keeper_of = {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        keeper_of[name] = taken.index(min(taken))
        taken[keeper_of[name]] += sizes[name]
    return keeper_of
