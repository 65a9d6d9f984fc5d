"""A learner whose weights, gradients and optimizer's state are divided among the processes.

For models whose training does not fit one GPU: 16 bytes a weight, for its value in float32, its gradient and AdamW's
two moments; of each, one of N processes keeps an N-th (`divide`). What a GPU holds besides is said by `--plan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import torch

from saccade.training.checkpoints import Checkpoints, RunState
from saccade.training.divide import DividedModel, full_tensor, own_part
from saccade.training.learner import Learner, Pass
from saccade.training.optimizer import optimizer_tensors
from saccade.training.parallel import Processes
from saccade.training.settings import OptimizerSettings
from saccade.training.weights import Trainable


class ShardedLearner(Learner):
    """Makes the same updates as `Learner`, with everything divided."""

    def __init__(self, trained: Trainable, settings: OptimizerSettings, processes: Processes) -> None:
        """The weights of `trained` are from now on divided; all must call it together."""
        self._divided = DividedModel(trained, processes)
        super().__init__(trained, settings, processes)

    def share_passes(self, passes: Sequence[Sequence[int]], sizes: Sequence[float]) -> list[Pass]:
        """Every process has equally many, for all compute together: where one has less, a row that does not count."""
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

    def save(self, checkpoints: Checkpoints, state: RunState) -> Path:
        """Each process writes some tensors, whole."""
        tensors = optimizer_tensors(self._optimizer, self._weights)
        keeper = keepers({name: weight.numel() for name, weight in self._weights.items()}, self.processes.count)
        owners = {name: keeper[name.rpartition("/")[0]] for name in tensors}
        return checkpoints.save(state, self._taken(self._weights, keeper), self._taken(tensors, owners))

    def _taken(self, tensors: Mapping[str, torch.Tensor], owners: Mapping[str, int]) -> dict[str, torch.Tensor]:
        """Of `tensors` those of this process, put together; all process them in one order."""
        own = {}
        for name, tensor in tensors.items():
            full = full_tensor(tensor.detach())
            if owners[name] == self.processes.rank:
                own[name] = full.cpu()
        return own


def make_learner(trained: Trainable, settings: OptimizerSettings, processes: Processes, shard: bool) -> Learner:
    """The learner of a run; one process has nothing to divide."""
    kind = ShardedLearner if shard and processes.count > 1 else Learner
    return kind(trained, settings, processes)


def keepers(sizes: Mapping[str, int], processes: int) -> dict[str, int]:
    """Which process writes each weight: the largest first, each to the process that has least."""
    taken = [0] * processes
    keeper_of = {}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        keeper_of[name] = taken.index(min(taken))
        taken[keeper_of[name]] += sizes[name]
    return keeper_of
