"""How much memory a piece of work takes at its peak."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path
from typing import Self

import torch

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


class Peak:
    """A context around the work; `mib` is then what it took above what there was before, None where nobody can tell.

    On a GPU that is what torch allocated there, else memory of this process.
    """

    def __init__(self, device: torch.device) -> None:
        self._gpu = device.type == "cuda"
        self._before = 0.0
        self.mib: float | None = None

    def __enter__(self) -> Self:
        gc.collect()
        if self._gpu:
            torch.cuda.reset_peak_memory_stats()
            self._before = torch.cuda.memory_allocated() / 2**20
            return self
        try:
            ctypes.CDLL(None).malloc_trim(0)  # freed memory that is kept would hide what the work takes
            _RESET.write_text("5")
            self._before = _status("VmRSS")
        except (OSError, AttributeError, KeyError):
            self._before = float("nan")
        return self

    def __exit__(self, *exc: object) -> None:
        if self._gpu:
            self.mib = torch.cuda.max_memory_allocated() / 2**20 - self._before
        elif self._before == self._before:
            self.mib = max(0.0, _status("VmHWM") - self._before)


def _status(name: str) -> float:
    """MiB of this process."""
    fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines() if ":" in line)
    return int(fields[name].split()[0]) / 1024
