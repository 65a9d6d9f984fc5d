"""A learner whose memory is divided: each weight has one process that keeps its float32 value and optimizer's state.

For models whose training does not fit one GPU: 16 bytes a weight, for its value, its gradient and AdamW's two moments.
Every process still holds the model itself, its matrices in the precision of the arithmetic, so rollouts and forward
passes need no other process. After each backward pass a weight's gradient goes to its keeper, which adds it up in
float32; after an update every process gets the new weights. (The second stage of ZeRO, Rajbhandari et al., 2020, with
whole tensors as shards, so that an optimizer that needs whole matrices works too.)

With N processes and P trained weights, bytes of each process: 2 P for the model, 2 P for the gradients of a backward
pass, 16 P / N for the rest. What does not fit so is not for this trainer.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from saccade.training.checkpoints import Checkpoints, RunState
from saccade.training.learner import Learner
from saccade.training.optimizer import optimizer_tensors
from saccade.training.parallel import Processes
from saccade.training.settings import OptimizerSettings
from saccade.training.weights import Trainable


class ShardedLearner(Learner):
    """Makes the same updates as `Learner`, with gradients and optimizer's state split over the processes."""

    def __init__(self, trained: Trainable, settings: OptimizerSettings, processes: Processes) -> None:
        """In low precision the model's matrices, but for embeddings, are from now on in bfloat16."""
        self._keepers = keepers({name: value.numel() for name, value in trained.parameters().items()}, processes.count)
        self._gradients: dict[str, torch.Tensor] = {}
        super().__init__(trained, settings, processes)

    def backward(self, loss: torch.Tensor | None) -> None:
        """Each process adds up the gradients of the weights that it keeps; all must call it together."""
        super().backward(loss)
        for name, weight in self._weights.items():
            gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
            weight.grad = None
            part = gradient.float()
            self.processes.sum_at(self._keepers[name], part)
            if name not in self._kept:
                continue
            if name in self._gradients:
                self._gradients[name] += part
            else:
                self._gradients[name] = part

    def gradient_norm(self, clip: float) -> float:
        for name, kept in self._kept.items():
            kept.grad = self._gradients.pop(name, None)
        parts = [kept.grad for kept in self._kept.values() if kept.grad is not None]
        own = float(torch.nn.utils.get_total_norm(parts)) if parts else 0.0
        norm = self.processes.all_sum([own**2])[0] ** 0.5
        if clip:
            torch.nn.utils.clip_grads_with_norm_(self._kept.values(), clip, torch.tensor(norm))
        return float(norm)

    def step(self, fraction: float) -> None:
        """Each process updates the weights that it keeps and sends them to the others; all must call it together."""
        super().step(fraction)
        with torch.no_grad():
            for name, weight in self._weights.items():
                if name in self._kept:
                    weight.copy_(self._kept[name])
                self.processes.copy_from(self._keepers[name], weight.data)

    def zero_grad(self) -> None:
        super().zero_grad()
        self._gradients.clear()
        for kept in self._kept.values():
            kept.grad = None

    def save(self, checkpoints: Checkpoints, state: RunState) -> Path:
        """Each process writes what it keeps."""
        return checkpoints.save(state, self._kept, optimizer_tensors(self._optimizer, self._kept))

    def finalize(self) -> None:
        """Give every process all weights in float32; all must call it together."""
        for name, weight in self._weights.items():
            kept = self._kept.get(name)
            value = torch.empty_like(weight, dtype=torch.float32) if kept is None else kept.data
            self.processes.copy_from(self._keepers[name], value)
            weight.data = value

    def _taken(self, trained: Trainable) -> Mapping[str, torch.nn.Parameter]:
        own = {name: value for name, value in self._weights.items() if self._keepers[name] == self.processes.rank}
        if not trained.low_precision:
            return own
        low = {name for name, value in self._weights.items() if _is_multiplied(trained, value)}
        kept = {
            name: torch.nn.Parameter(value.detach().clone()) if name in low else value for name, value in own.items()
        }
        for name in low:
            self._weights[name].data = self._weights[name].data.bfloat16()
        return kept


def make_learner(trained: Trainable, settings: OptimizerSettings, processes: Processes, shard: bool) -> Learner:
    """The learner of a run; one process has nothing to divide."""
    kind = ShardedLearner if shard and processes.count > 1 else Learner
    return kind(trained, settings, processes)


def keepers(sizes: Mapping[str, int], processes: int) -> dict[str, int]:
    """Which process keeps each weight: the largest first, each to the process that has least."""
    taken = [0] * processes
    found = {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        found[name] = taken.index(min(taken))
        taken[found[name]] += sizes[name]
    return found


def _is_multiplied(trained: Trainable, weight: torch.nn.Parameter) -> bool:
    """Whether every use of `weight` is one that autocast makes in bfloat16 anyway."""
    embeddings = (module for module in trained.model.modules() if isinstance(module, torch.nn.Embedding))
    return weight.ndim > 1 and all(weight is not module.weight for module in embeddings)
