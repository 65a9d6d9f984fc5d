"""Plain `exec` in the caller's process: the floor for a call, with no isolation, no limits and no rollback at all."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any, Self

from saccade.bench.peer import Output, opening, quiet_show, saved_figures


class ExecSession:
    """One namespace that every cell shares."""

    def __init__(self, photo: Path | None) -> None:
        self._names: dict[str, Any] = {"__name__": "__main__"}
        exec(opening(photo), self._names)

    def run(self, code: str) -> Output:
        """Run one cell."""
        out = io.StringIO()
        failed = False
        with quiet_show(), contextlib.redirect_stdout(out):
            try:
                exec(code, self._names)
            except Exception:
                failed = True
            return Output(out.getvalue(), saved_figures(), failed)

    def close(self) -> None:
        """Drop the variables."""
        self._names.clear()


class Exec:
    """Namespaces in this process."""

    name = "exec"
    install = "(comes with Python)"
    slow = False
    parallel = False
    libraries_at_start = True
    keeps_state = True
    shows_images = False
    picture_setup = ""

    def start(self, photo: Path | None = None) -> ExecSession:
        """A new namespace."""
        return ExecSession(photo)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None
