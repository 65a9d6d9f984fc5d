"""Tiny checkpoints with random weights: one folder of each family for all tests of a process; none changes it."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path


@cache
def tiny_folder(family: str = "qwen2_5_vl", seed: int = 0) -> Path:
    from saccade.plugins.worlds.random_checkpoint import save_tiny

    folder = Path(_root().name) / f"{seed}" / family
    save_tiny(folder, family, seed=seed)
    return folder


@cache
def _root() -> tempfile.TemporaryDirectory[str]:
    """It is deleted with the process."""
    return tempfile.TemporaryDirectory(prefix="tiny-")
