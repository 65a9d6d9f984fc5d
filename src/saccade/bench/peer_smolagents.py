"""smolagents' LocalPythonExecutor: Python interpreted node by node in the caller's own process.

It has no process of its own, so there is no isolation from C code and no time limit for it; figures are saved after
each cell, as a user would have to do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from saccade.bench.peer import PHOTO_NAME, Output, quiet_show, saved_figures
from saccade.errors import UnavailableError

INSTALL = "pip install smolagents"


class SmolagentsSession:
    """One executor of smolagents, which keeps its names between cells."""

    def __init__(self, photo: Path | None) -> None:
        try:
            from smolagents.local_python_executor import LocalPythonExecutor
        except ModuleNotFoundError as error:
            raise UnavailableError(f"smolagents is not installed: {INSTALL}") from error
        self._executor: Any = LocalPythonExecutor(additional_authorized_imports=["*"])
        self._executor.send_tools({})
        if photo is not None:
            from PIL import Image

            image = Image.open(photo)
            image.load()
            self._executor.send_variables({PHOTO_NAME: image})

    def run(self, code: str) -> Output:
        """Run one cell."""
        from smolagents.local_python_executor import InterpreterError

        with quiet_show():
            try:
                output = self._executor(code)
            except InterpreterError:
                return Output("", saved_figures(), failed=True)
            return Output(str(output.logs), saved_figures())

    def close(self) -> None:
        """No process has to be ended."""


class Smolagents:
    """Executors in this process."""

    name = "smolagents"
    install = INSTALL
    slow = False
    parallel = False
    libraries_at_start = True
    keeps_state = True
    shows_images = False
    picture_setup = ""

    def start(self, photo: Path | None = None) -> SmolagentsSession:
        """A new executor."""
        return SmolagentsSession(photo)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None
