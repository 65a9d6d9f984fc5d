"""The processes of a run: one for each GPU, started by `accelerate launch`; without it, one.

Each process computes its share of a step's forward passes, and gradients are summed once at its end: shares need not
be equal, and the sum is that of one process. Weights are whole in every process; nothing is sharded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class Processes:
    """This process among the others."""

    def __init__(self, *, cpu: bool = False) -> None:
        """`cpu` leaves GPUs alone."""
        from accelerate import PartialState

        self._state: Any = PartialState(cpu=cpu)
        self.device: torch.device = self._state.device

    @property
    def first(self) -> bool:
        """Whether this is the process that writes."""
        return bool(self._state.is_main_process)

    @property
    def count(self) -> int:
        """Processes."""
        return int(self._state.num_processes)

    def share(self, items: Sequence[Any]) -> list[Any]:
        """This process's share of `items`."""
        return list(items[self._state.process_index :: self.count])

    def wait(self) -> None:
        """Until every process is here."""
        self._state.wait_for_everyone()

    def summed(self, numbers: Sequence[float]) -> list[float]:
        """Each number, summed over the processes."""
        if self.count == 1:
            return list(numbers)
        dtype = torch.float32 if self.device.type == "mps" else torch.float64
        values = torch.tensor(list(numbers), dtype=dtype, device=self.device)
        torch.distributed.all_reduce(values)
        return [float(value) for value in values.tolist()]

    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Every gradient becomes the sum over the processes; one that is missing counts as zero."""
        if self.count == 1:
            return
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            torch.distributed.all_reduce(parameter.grad)
