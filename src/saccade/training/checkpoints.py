"""Checkpoints of a run: a folder each, which appears complete or not at all, also when the writer is killed.

    checkpoints/step-00000200/{weights.safetensors, optimiser.safetensors, state.json}

Only trained weights and the optimiser's state are stored: the order of the data and the learning rate follow from the
step, and random numbers are seeded anew in every step.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from saccade.errors import TrainingError

_NAME = re.compile(r"step-([0-9]{8})")


@dataclass(frozen=True, slots=True)
class State:
    """Where a run stands."""

    step: int
    """Steps done."""
    tokens: int
    """Tokens read so far."""
    data: str
    """Fingerprint of what is trained on."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What else a trainer must know to go on, as JSON has it."""


class Checkpoints:
    """The checkpoints under one folder."""

    def __init__(self, folder: Path, most: int) -> None:
        """`most` of them stay."""
        self._folder = folder
        self._most = most

    def save(self, state: State, weights: Mapping[str, torch.Tensor], optimiser: Mapping[str, torch.Tensor]) -> Path:
        """Write a checkpoint, then drop those that are too many."""
        target = self._folder / f"step-{state.step:08d}"
        partial = self._folder / f".{target.name}.part"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for name, tensors in (("weights", weights), ("optimiser", optimiser)):
            path = partial / f"{name}.safetensors"
            save_file({key: value.detach().cpu().contiguous() for key, value in tensors.items()}, path)
            _sync(path)
        (partial / "state.json").write_text(json.dumps(asdict(state)), encoding="utf-8")
        _sync(partial / "state.json")
        if target.exists():
            shutil.rmtree(target)
        partial.rename(target)
        _sync(self._folder)
        for old in self._found()[: -self._most]:
            shutil.rmtree(old)
        return target

    def latest(self) -> tuple[State, dict[str, Any], dict[str, Any]] | None:
        """State, weights and optimiser's tensors of the last checkpoint; None if there is none.

        Raises:
            TrainingError: it cannot be read.
        """
        found = self._found()
        if not found:
            return None
        try:
            state = State(**json.loads((found[-1] / "state.json").read_text(encoding="utf-8")))
            return state, load_file(found[-1] / "weights.safetensors"), load_file(found[-1] / "optimiser.safetensors")
        except Exception as error:  # safetensors has an exception type of its own, json and dataclasses others
            raise TrainingError(
                f"the checkpoint {found[-1]} cannot be read: {error}. Delete that folder to go on from the one before."
            ) from error

    def _found(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        return sorted(path for path in self._folder.iterdir() if _NAME.fullmatch(path.name))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
