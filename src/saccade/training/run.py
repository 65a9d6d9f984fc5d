"""Run a training, supervised or by reinforcement: begin or resume it, step by step, and export the checkpoint.

    OUT/settings.toml  metrics.jsonl  samples.jsonl  tensorboard/  checkpoints/  model/

    check_folder(settings, out, resume)            # refused where `out` holds another run
    processes = join_processes(settings.threads)
    ...                                            # the trainer reads its data and loads its checkpoint
    begin_run(settings, out, processes)
    run = ActiveRun(settings, out, learner, fingerprint, steps, callback)
    run.resume("the run was begun with other data. ...")
    with run.writing():
        for step in run.steps():
            ...                                    # one update
            run.record(state, metrics)
            run.save_if_due()
    return run.export(dialects)

What a step does is the trainer's. Imports torch; import this module late.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import torch

from saccade.core.disk import one_writer, write_atomic
from saccade.core.settings import Settings, save_settings
from saccade.errors import SettingsError, TrainingError, UnavailableError
from saccade.training.checkpoints import Checkpoints, RunState
from saccade.training.learner import Learner
from saccade.training.parallel import Processes
from saccade.training.settings import SETTINGS, KeepSettings, Metrics, TrainingCallback
from saccade.training.weights import export

Values = Mapping[str, float | int | str]


class TrainingJournal:
    """Writes metrics.jsonl and samples.jsonl, and TensorBoard and a tracker where they are set; in one process."""

    def __init__(self, out: Path, settings: KeepSettings, step: int, config: dict[str, Any]) -> None:
        """Continue after `step` steps: later lines, from before a kill, are removed.

        Raises `UnavailableError`: the tracker is not installed.
        """
        self._out = out
        for name in ("metrics.jsonl", "samples.jsonl"):
            _forget(out / name, step)
        self._board = _tensorboard(out / "tensorboard", step) if settings.tensorboard else None
        self._tracker = None if settings.tracker == "none" else _tracker(settings, out.name, config)

    def metrics(self, step: int, values: Mapping[str, float | int]) -> None:
        """Write the numbers of one step (from 1)."""
        _append(self._out / "metrics.jsonl", {"step": step, **values})
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)
        if self._tracker is not None:
            self._tracker.log(dict(values), step=step)

    def sample(self, step: int, values: Values) -> None:
        _append(self._out / "samples.jsonl", {"step": step, **values})

    def close(self) -> None:
        if self._board is not None:
            self._board.close()
        if self._tracker is not None:
            self._tracker.finish()


def _append(path: Path, values: Mapping[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(values, ensure_ascii=False) + "\n")


def _forget(path: Path, step: int) -> None:
    """Remove lines of later steps, and one that was cut short."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        try:
            if json.loads(line)["step"] <= step and line.endswith("\n"):
                kept.append(line)
        except ValueError:
            continue
    write_atomic(path, "".join(kept))


def _tensorboard(folder: Path, step: int) -> Any:
    if importlib.util.find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=step + 1)


def _tracker(settings: KeepSettings, name: str, config: dict[str, Any]) -> Any:
    try:
        module = importlib.import_module(settings.tracker)
    except ImportError as error:
        raise UnavailableError(
            f"keep.tracker = {settings.tracker!r}: the package is not installed. Run: pip install {settings.tracker}"
        ) from error
    module.init(project=settings.project, name=name, config=config)
    return module


def join_processes(threads: int, *, cpu: bool = False) -> Processes:
    """Join the processes of the run; on a CPU torch gets `threads` threads (0: one for each core).

    `cpu`: use no GPU.
    """
    processes = Processes(cpu=cpu)
    if processes.device.type == "cpu":
        torch.set_num_threads(threads or os.cpu_count() or 1)
    return processes


_SEEN_SECONDS = 60.0
"""How long a file may take to be seen on another host; NFS looks again after some."""


def check_shared(out: Path, processes: Processes) -> None:
    """Check that processes on several hosts see one folder `out`; every process calls it.

    Raises `SettingsError`: some do not; says which.
    """
    if not processes.several_hosts:
        return
    token, file = processes.all_gather(secrets.token_hex(8))[0], out / "shared"
    if processes.is_main:
        out.mkdir(parents=True, exist_ok=True)
        file.write_text(token, encoding="ascii")
    processes.barrier()
    end = time.monotonic() + _SEEN_SECONDS
    while not (seen := file.is_file() and file.read_text(encoding="ascii") == token) and time.monotonic() < end:
        time.sleep(0.5)
    blind = [str(rank) for rank, sees in enumerate(processes.all_gather(seen)) if not sees]
    if processes.is_main:
        file.unlink(missing_ok=True)
    if blind:
        raise SettingsError(
            f"the processes {', '.join(blind)} do not see what the first one writes to {out}. All hosts of a run need "
            "that folder, its data and the checkpoint under the same path, on a file system that they share."
        )


def begin_run(settings: Settings, out: Path, processes: Processes) -> None:
    """Save the settings, once every process has checked the folder and found data and checkpoint."""
    processes.barrier()
    if processes.is_main:
        out.mkdir(parents=True, exist_ok=True)
        save_settings(settings, out / SETTINGS)


class RunSettings(Protocol):
    """The settings that a run reads of any trainer."""

    @property
    def keep(self) -> KeepSettings:
        """Files that are written to the disk."""

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """Return all of them, for a tracker."""


class ActiveRun:
    """A run under way: its state, checkpoints and journal. Every process has one and calls it alike."""

    def __init__(
        self, settings: RunSettings, out: Path, learner: Learner, data: str, total: int, callback: TrainingCallback
    ) -> None:
        """`data` is the fingerprint of what is trained on; `total` is the number of steps."""
        self.state = RunState(0, 0, data)
        self.total = total
        self._settings = settings
        self._out = out
        self._learner = learner
        self._callback = callback
        self._journal: TrainingJournal | None = None
        self._checkpoints = Checkpoints(out / "checkpoints", settings.keep, learner.processes)

    def resume(self, refusal: str) -> None:
        """Continue from the last checkpoint, where there is one.

        Raises `TrainingError`: it was trained on other data (`refusal`), for more steps already, or it cannot be read.
        """
        checkpoint = self._checkpoints.latest()
        if checkpoint is None:
            return
        state, weights, tensors = checkpoint
        if state.data != self.state.data:
            raise TrainingError(refusal)
        if state.step > self.total:
            raise TrainingError(
                f"the run in {self._out} has done {state.step} steps, and {self.total} are asked for. Ask for more, or "
                f"make a model of an earlier checkpoint with `saccade export`."
            )
        self._learner.restore(weights, tensors)
        self.state = state

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the folder and open the journal, in the process that writes."""
        main = self._learner.processes.is_main
        with one_writer(self._out) if main else nullcontext():
            if main:
                config = self._settings.model_dump(mode="json")
                self._journal = TrainingJournal(self._out, self._settings.keep, self.state.step, config)
            self._callback.begins(self.state.step, self.total)
            try:
                yield
            finally:
                self._hear_of_checkpoint()
                if self._journal is not None:
                    self._journal.close()

    def steps(self) -> range:
        """Return the numbers (from 0) of the steps that are left."""
        return range(self.state.step, self.total)

    def due(self, every: int) -> bool:
        """Return whether something done every `every` steps is due: always after the last step, never for 0."""
        return bool(every) and (self.state.step == self.total or self.state.step % every == 0)

    def record(self, state: RunState, values: Metrics) -> None:
        self.state = state
        if self._journal is not None:
            self._journal.metrics(state.step, values)
            self._callback.step(state.step, values)
        self._hear_of_checkpoint(wait=False)

    def record_validation(self, values: Metrics, samples: Iterable[Mapping[str, str]]) -> None:
        """Record a validation; `samples` are consumed only in the process that writes."""
        if self._journal is None:
            return
        self._journal.metrics(self.state.step, values)
        self._callback.validated(self.state.step, values)
        for sample in samples:
            self._journal.sample(self.state.step, sample)

    def save_if_due(self) -> None:
        """Begin to write a checkpoint if one is due; the last steps' is there when `writing` ends."""
        if self.due(self._settings.keep.every):
            self._hear_of_checkpoint()
            self._learner.save(self._checkpoints, self.state)

    def _hear_of_checkpoint(self, *, wait: bool = True) -> None:
        if (folder := self._checkpoints.finish(wait=wait)) is not None:
            self._callback.saved(folder)

    def export(self, dialects: Mapping[str, int]) -> Path:
        """Export the checkpoint, which learned `dialects`; return its folder. The learner must not be used again."""
        folder = self._out / "model"
        finished = self._learner.finished()
        if finished is not None:
            export(finished, folder, self._settings.keep.dtype, dialects)
            self._callback.saved(folder)
        self._learner.processes.barrier()
        return folder
