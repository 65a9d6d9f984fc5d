"""Write and read checkpoints of a run: one folder each, which appears complete or not at all, even after a kill.

    checkpoints/step-00000200/{weights.safetensors, optimiser.safetensors, state.json}

Only trained weights and optimizer state are stored: data order and learning rate follow from the step, and random
numbers are seeded in every step. Several processes may write files each (`weights-1.safetensors`), read as one set.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from saccade.core.disk import begin_folder, finish_folder, partial_folder, sync
from saccade.errors import TrainingError
from saccade.training.parallel import Processes
from saccade.training.settings import KeepSettings, ModelSettings
from saccade.training.weights import export, load_trainable

_log = logging.getLogger(__name__)

_NAME = re.compile(r"step-([0-9]{8})")
_OPTIMIZER = "optimiser"
"""Name of its files."""


@dataclass(frozen=True, slots=True)
class RunState:
    """Where a run stands."""

    step: int
    """Steps done."""
    tokens: int
    """Tokens read so far."""
    data: str
    """Fingerprint of what is trained on."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """More that a trainer needs to resume, as JSON."""


class StoredTensors(Mapping[str, Any]):
    """Tensors by name, each read on access."""

    def __init__(self, folder: Path, kind: str) -> None:
        """Open the files of one kind in a checkpoint; at least one exists."""
        paths = [folder / f"{kind}.safetensors", *sorted(folder.glob(f"{kind}-*.safetensors"))]
        files: list[Any] = [safe_open(path, "pt") for path in paths]
        self._files: dict[str, Any] = {name: file for file in files for name in file.keys()}  # noqa: SIM118 - no dict

    def __getitem__(self, name: str) -> Any:
        return self._files[name].get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


class Checkpoints:
    """The checkpoints under one folder, each written by a thread beside what follows."""

    def __init__(self, folder: Path, keep: KeepSettings, processes: Processes) -> None:
        """Keep the newest ones and the milestones of `keep`; every process makes one, alike."""
        self._folder = folder
        self._keep = keep
        self._processes = processes.aside()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._written: Future[Path] | None = None

    def save(self, state: RunState, weights: Mapping[str, torch.Tensor], optimizer: Mapping[str, torch.Tensor]) -> None:
        """Begin to write a checkpoint, once the last one is written, and to delete the oldest after that.

        Every process calls it, with the tensors that it writes: on the host, and not changed any more.
        """
        self.finish()
        self._written = self._thread.submit(self._save, state, weights, optimizer)

    def finish(self, *, wait: bool = True) -> Path | None:
        """Return the folder of the checkpoint that was begun, once; None where there is none (without `wait`: yet).

        Raises `OSError`: it could not be written; `TrainingError`: another process ended.
        """
        if self._written is None or not (wait or self._written.done()):
            return None
        written, self._written = self._written, None
        return written.result()

    def _save(
        self, state: RunState, weights: Mapping[str, torch.Tensor], optimizer: Mapping[str, torch.Tensor]
    ) -> Path:
        target = self._folder / f"step-{state.step:08d}"
        partial = partial_folder(target)
        if self._processes.is_main:
            begin_folder(target)
        self._processes.barrier()
        self._write(partial, weights, optimizer)
        self._processes.barrier()
        if self._processes.is_main:
            (partial / "state.json").write_text(json.dumps(asdict(state)), encoding="utf-8")
            sync(partial / "state.json")
            finish_folder(target)
            sync(self._folder)
            for old in self._saved()[: -self._keep.checkpoints]:
                if not self._keep.milestones or _step(old) % self._keep.milestones:
                    shutil.rmtree(old)
            _log.info("Checkpoint of step %d in %s.", state.step, target)
        return target

    def _write(self, folder: Path, weights: Mapping[str, torch.Tensor], optimizer: Mapping[str, torch.Tensor]) -> None:
        first = self._processes.is_main
        for name, tensors in (("weights", weights), (_OPTIMIZER, optimizer)):
            path = folder / (f"{name}.safetensors" if first else f"{name}-{self._processes.rank}.safetensors")
            if tensors or first:
                save_file({key: value.contiguous() for key, value in tensors.items()}, path)
                sync(path)

    def latest(self) -> tuple[RunState, StoredTensors, StoredTensors] | None:
        """Return state, weights and optimizer tensors of the last checkpoint; None if there is none.

        Raises `TrainingError`: it cannot be read.
        """
        folders, advice = self._saved(), "Delete that folder to resume from the one before."
        if not folders:
            return None
        state, weights = read_checkpoint(folders[-1], advice)
        _log.info("Resumes from %s, after step %d.", folders[-1], state.step)
        return state, weights, _stored(folders[-1], _OPTIMIZER, advice)

    def _saved(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        return sorted(path for path in self._folder.iterdir() if _NAME.fullmatch(path.name))


def _step(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))


def read_checkpoint(folder: Path, advice: str) -> tuple[RunState, StoredTensors]:
    """Read state and weights of a checkpoint. Raises `TrainingError` with `advice` if it cannot be read."""
    try:
        state = RunState(**json.loads((folder / "state.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise TrainingError(f"the checkpoint {folder} cannot be read: {error}. {advice}") from error
    return state, _stored(folder, "weights", advice)


def _stored(folder: Path, kind: str, advice: str) -> StoredTensors:
    try:
        return StoredTensors(folder, kind)
    except Exception as error:  # safetensors has an exception type of its own
        raise TrainingError(f"the checkpoint {folder} cannot be read: {error}. {advice}") from error


def export_checkpoint(
    checkpoint: Path, out: Path, settings: ModelSettings, dtype: str, dialects: Mapping[str, int]
) -> int:
    """Export a checkpoint of a run as a model folder, on the CPU; return the step that it was made after.

    Args:
        checkpoint: `OUT/checkpoints/step-...`; it holds trained weights only, all others are read from the model that
            the run began with.
        out: replaced if it exists.
        settings: of the model that the run trains.
        dtype: `float32`, `bfloat16`, or `auto`: that of the run's arithmetic on a CPU.
        dialects: those that it learned, in place of those that the checkpoint names.

    Raises:
        TrainingError: it cannot be read, or holds other weights than the run trains.
        ModelRefusedError: the model that the run began with cannot be loaded.
    """
    state, weights = read_checkpoint(checkpoint, "Name another one.")
    trained = load_trainable(settings, torch.device("cpu"), seed=0)
    parameters = trained.parameters()
    if parameters.keys() != weights.keys():
        odd = min(parameters.keys() ^ weights.keys())
        raise TrainingError(
            f"{checkpoint} does not fit the run's settings: only one of them has the weight {odd}. The model that the "
            f"run began with ({settings.source}) may have been replaced; put the old one back."
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])
    out.parent.mkdir(parents=True, exist_ok=True)
    export(trained, out, dtype, dialects or state.more.get("dialects", {}))
    return state.step
