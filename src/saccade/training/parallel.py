"""Exchange tensors and objects between the processes of a run, one for each GPU.

`accelerate launch`, torchrun and `--processes` start them; without these there is one. Every process runs the same
program, on one machine or, with torchrun, on several that share a file system. When one of them dies, the others notice
at their next exchange and end with an error.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch

from saccade.errors import SettingsError, TrainingError

T = TypeVar("T")
_TIMEOUT = timedelta(hours=6)
"""How long a process waits for another, which may be playing slow episodes."""

_BUNDLE = 2**24
"""Numbers exchanged at once."""


class Processes:
    """This process among the others."""

    def __init__(self, *, cpu: bool = False) -> None:
        """`cpu` leaves GPUs alone. Raises `SettingsError` for more processes on this machine than it has GPUs."""
        from accelerate import PartialState

        if not cpu:
            _check_gpus(int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count())

        state: Any = PartialState(cpu=cpu or not torch.accelerator.is_available(), timeout=_TIMEOUT)
        self.device: torch.device = state.device
        self.count = int(state.num_processes)
        self.rank = int(state.process_index)
        self.several_hosts = self.count > int(os.environ.get("LOCAL_WORLD_SIZE", self.count))
        self._light: Any = None
        """The group that exchanges objects, on the CPU."""
        if self.count > 1:
            self._light = torch.distributed.new_group(backend="gloo", timeout=_TIMEOUT)

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def aside(self) -> Processes:
        """Return the same processes, whose exchanges a thread may make beside others'; all of them call it together."""
        other = copy.copy(self)
        if self.count > 1:
            other._light = torch.distributed.new_group(backend="gloo", timeout=_TIMEOUT)
        return other

    def share(self, items: Sequence[T]) -> list[T]:
        """Return this process's share of `items`."""
        return list(items[self.rank :: self.count])

    def balanced_shares(self, items: Sequence[T], sizes: Sequence[float]) -> list[T | None]:
        """Return this process's share, padded with None until every process has equally many.

        Work is balanced: the largest item left goes to the process with the least so far.
        """
        shares: list[list[T]] = [[] for _ in range(self.count)]
        loads = [0.0] * self.count
        for at in sorted(range(len(items)), key=lambda at: -sizes[at]):
            least = min(range(self.count), key=lambda process: loads[process])
            shares[least].append(items[at])
            loads[least] += sizes[at]
        own = shares[self.rank]
        return own + [None] * (max(map(len, shares)) - len(own))

    def gather_shares(self, shared: Sequence[T]) -> list[T]:
        """Return the results of every process's share, in the order in which the items were shared out."""
        parts = self.all_gather(list(shared))
        total = sum(len(part) for part in parts)
        return [parts[place % self.count][place // self.count] for place in range(total)]

    def all_gather(self, item: T) -> list[T]:
        """Return the item of each process, by rank; items are pickled.

        Raises `TrainingError`: another process ended.
        """
        if self.count == 1:
            return [item]
        gathered: list[Any] = [None] * self.count
        with _exchange():
            torch.distributed.all_gather_object(gathered, item, group=self._light)
        return gathered

    def barrier(self) -> None:
        """Wait for every process. Raises as `all_gather`."""
        self.all_gather(None)

    def all_sum(self, numbers: Sequence[float]) -> list[float]:
        """Sum each number over the processes. Raises as `all_gather`."""
        return [sum(values) for values in zip(*self.all_gather(list(numbers)), strict=True)]

    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Sum every gradient over the processes; a missing one counts as zero. Raises as `all_gather`."""
        if self.count == 1:
            return
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        for several in _bundles([parameter.grad for parameter in parameters]):
            flat = torch.cat([gradient.flatten() for gradient in several])
            with _exchange():
                torch.distributed.all_reduce(flat)
            for gradient, total in zip(several, flat.split([item.numel() for item in several]), strict=True):
                gradient.copy_(total.view_as(gradient))


def _check_gpus(processes: int, gpus: int) -> None:
    """Refuse two processes on one GPU, which NCCL would only do at their first exchange."""
    if 0 < gpus < processes:
        raise SettingsError(
            f"{processes} processes are to train here, each on a GPU of its own, and torch sees {gpus}. "
            f"Start as many, --processes {gpus}, or train on the CPU with CUDA_VISIBLE_DEVICES= (empty)."
        )


def leave_group() -> None:
    """Leave the group of processes, if there is one, once all of them are done.

    A group that lasts until Python ends may abort the process then: threads of gloo still hold tensors.
    """
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _bundles(tensors: Iterable[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Bundle neighbours of one dtype and device up to a size: each exchange costs, and a copy of all would be large."""
    bundle: list[torch.Tensor] = []
    for tensor in tensors:
        if bundle and (
            sum(item.numel() for item in bundle) + tensor.numel() > _BUNDLE
            or (tensor.dtype, tensor.device) != (bundle[0].dtype, bundle[0].device)
        ):
            yield bundle
            bundle = []
        bundle.append(tensor)
    if bundle:
        yield bundle


@contextmanager
def _exchange() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # torch has no narrower type for a peer that is gone
        raise TrainingError(
            "another process of this run ended, or cannot be reached; what it said is above or in its own log. The "
            f"same command with --resume continues from the last checkpoint. ({str(error).splitlines()[0]})"
        ) from error
