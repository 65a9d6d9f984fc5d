"""What learns: the trained weights with their gradients and their optimizer, over the processes of a run.

    for loss in losses_of_this_process:      # None behind them where other processes have one more
        learner.backward(loss)
    norm = learner.gradient_norm(clip)
    learner.step(fraction)                   # or zero_grad(), and nothing has happened

Losses are parts of a sum over all processes, and the gradient is that of the sum: the same as of one process, but for
the order in which floats are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from saccade.training.checkpoints import Checkpoints, RunState
from saccade.training.optimizer import make_optimizer, optimizer_tensors, restore_optimizer, set_rate
from saccade.training.parallel import Processes
from saccade.training.settings import OptimizerSettings
from saccade.training.weights import Trainable


class Learner:
    """Every process holds all weights, gradients and optimizer's state, and makes the same update."""

    def __init__(self, trained: Trainable, settings: OptimizerSettings, processes: Processes) -> None:
        self.trained = trained
        self.processes = processes
        """Those that learn together."""
        self._weights = trained.parameters()
        self._kept: Mapping[str, torch.nn.Parameter] = self._taken(trained)
        self._optimizer = make_optimizer(trained, settings, self._kept)

    @property
    def learning_rate(self) -> float:
        """Of the last update."""
        return float(self._optimizer.param_groups[0]["lr"]) if self._optimizer.param_groups else 0.0

    def backward(self, loss: torch.Tensor | None) -> None:
        """Add the gradient of a part of the loss. Processes call it equally often, with None where one has no part."""
        if loss is not None:
            torch.autograd.backward(loss)

    def gradient_norm(self, clip: float) -> float:
        """The norm of the whole gradient, which is then made at most `clip` long; 0 for no limit."""
        parameters = list(self._weights.values())
        self.processes.sum_gradients(parameters)
        return float(torch.nn.utils.clip_grad_norm_(parameters, clip or float("inf")))

    def step(self, fraction: float) -> None:
        """Update the weights, at `fraction` of the full learning rate; the gradient is used up."""
        set_rate(self._optimizer, fraction)
        self._optimizer.step()
        self.zero_grad()

    def zero_grad(self) -> None:
        """Forget the gradient."""
        for parameter in self._weights.values():
            parameter.grad = None

    def save(self, checkpoints: Checkpoints, state: RunState) -> Path:
        """Write a checkpoint, and where; every process calls it."""
        is_main = self.processes.is_main
        tensors = optimizer_tensors(self._optimizer, self._kept)
        return checkpoints.save(state, self._weights if is_main else {}, tensors if is_main else {})

    def restore(self, weights: Mapping[str, torch.Tensor], optimizer: Mapping[str, torch.Tensor]) -> None:
        """Put back what a checkpoint holds, by however many processes it was written."""
        with torch.no_grad():
            for parameters in (self._weights, self._kept):
                for name, parameter in parameters.items():
                    parameter.copy_(weights[name])
        restore_optimizer(self._optimizer, self._kept, optimizer)

    def finalize(self) -> None:
        """After the last update, before weights are exported: the model holds them in full precision."""

    def _taken(self, trained: Trainable) -> Mapping[str, torch.nn.Parameter]:
        """What this process's optimizer updates."""
        return self._weights
