"""The machine that is measured, the memory and time of processes on it, and the table of a benchmark's figures."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.table import Table

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the report."""

    name: str
    value: float
    unit: str
    beside: str = ""
    """What it is measured against."""
    other: float | None = None
    """That thing's value, in the same unit."""
    target: str = ""
    met: bool | None = None
    """None where there is no target, or this run is too small to judge it."""

    @property
    def ratio(self) -> float | None:
        """`value` to `other`."""
        return None if not self.other else self.value / self.other


def figure_table(figures: Sequence[Figure], title: str) -> Table:
    """Show the figures of a benchmark."""
    shown = Table(title=title, title_justify="left")
    for column in ("what", "value", "beside", "that", "ratio", "target", ""):
        shown.add_column(column, justify="right" if column in ("value", "that", "ratio") else "left")
    for figure in figures:
        shown.add_row(
            figure.name,
            f"{figure.value:.3g} {figure.unit}",
            figure.beside,
            "" if figure.other is None else f"{figure.other:.3g}",
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            figure.target,
            "" if not figure.target else "not judged" if figure.met is None else "met" if figure.met else "MISSED",
        )
    return shown


BUSY = 0.3
"""Load average per core from which on figures are not to be trusted."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a reader needs to know to compare figures."""

    processor: str
    cores: int
    """Cores that this process may use."""
    memory_gib: float
    system: str
    python: str
    load: float
    """Load average of the last minute, before anything was measured."""

    @property
    def busy(self) -> bool:
        """Whether other work disturbs the measurement."""
        return self.load > BUSY * self.cores

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "busy": self.busy}


def this_machine() -> Machine:
    """Describe the machine at this moment."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Machine(
        processor=_field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        cores=cores,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        load=os.getloadavg()[0],
    )


def cpu_of(pid: int) -> float:
    """Return the seconds of CPU that a process has used, in its own code and in the kernel (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def only_child(pid: int) -> int:
    """Return the one process that `pid`, which has a single thread, has started (Linux)."""
    [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return int(child)


def pss_bytes(pids: set[int]) -> int:
    """Return the proportional set size of all the processes: shared pages count once, divided among those who share.

    Processes that have ended meanwhile count nothing. Raises `PermissionError` if the kernel does not tell.
    """
    total = 0
    for pid in pids:
        try:
            value = _field(f"/proc/{pid}/smaps_rollup", "Pss")
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += int(value.split()[0]) * 1024 if value else 0
    return total


def own_memory() -> float:
    """Return the bytes that this process has for itself, after a collection of garbage.

    Without what is shared: the share of a library's pages grows when another process that uses it ends.
    """
    gc.collect()
    return memory_of(os.getpid())


def memory_of(pid: int) -> float:
    """Return the same of any process of this user's, without a collection of garbage; 0 if the kernel does not tell."""
    value = _field(f"/proc/{pid}/smaps_rollup", "Anonymous")
    return float(value.split()[0]) * 1024 if value else 0.0


def parent_of(pid: int) -> int | None:
    """Return the process that `pid` is a child of (Linux); None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in brackets, may hold anything; the parent is the second field after it.
    return int(stat.rpartition(")")[2].split()[1])


def _field(path: str, name: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


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
            import torch

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
            import torch

            self.mib = torch.cuda.max_memory_allocated() / 2**20 - self._before
        elif self._before == self._before:
            self.mib = max(0.0, _status("VmHWM") - self._before)


def _status(name: str) -> float:
    """Return MiB of this process."""
    fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines() if ":" in line)
    return int(fields[name].split()[0]) / 1024
