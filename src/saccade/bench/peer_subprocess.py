"""A fresh Python process per cell: no state between cells, and no isolation beyond being another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Self

from saccade.bench.peer import SAVE_IN_CHILD, Output, opening

CELL_SECONDS = 120.0


class SubprocessSession:
    """Only remembers which photo to open first."""

    def __init__(self, photo: Path | None) -> None:
        self._prologue = opening(photo)

    def run(self, code: str) -> Output:
        """Start a process, run the cell, wait for its end."""
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", f"{self._prologue}{code}\n{SAVE_IN_CHILD}"],
            capture_output=True,
            text=True,
            timeout=CELL_SECONDS,
            env={**os.environ, "MPLBACKEND": "Agg"},
            check=False,
        )
        pictures = sum(line.startswith("picture ") for line in ended.stderr.splitlines())
        return Output(ended.stdout, pictures, failed=ended.returncode != 0)

    def close(self) -> None:
        """No process has to be ended."""


class Subprocess:
    """A process per cell."""

    name = "subprocess"
    install = "(comes with Python)"
    slow = True
    parallel = True
    libraries_at_start = False
    keeps_state = False
    shows_images = False
    picture_setup = ""

    def start(self, photo: Path | None = None) -> SubprocessSession:
        """The process starts with the first cell."""
        return SubprocessSession(photo)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None
