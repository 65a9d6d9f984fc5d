"""A program as a process of our own, which a guard ends with everything that it started, however this process ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from saccade.errors import UnavailableError
from saccade.rl.engines import guard

_LAST_LINES = 5


class GuardedProcess:
    """A program that was started here. If this process ends without `stop`, even by SIGKILL, the guard ends it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start it.

        Args:
            command: the program and its arguments.
            environment: variables over those of this process.
            log: file for what it prints; what is there already stays.

        Raises:
            UnavailableError: the program cannot be started.
        """
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as written:
            try:
                self._guard = subprocess.Popen(
                    [sys.executable, "-I", guard.__file__, *command],
                    stdin=subprocess.PIPE,
                    stdout=written,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **environment},
                    start_new_session=True,  # a Ctrl-C is for us, and we end it
                )
            except OSError as error:
                raise UnavailableError(f"{command[0]} cannot be started: {error}") from error

    def ended(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._guard.poll()

    def stop(self) -> None:
        """End it and wait until it has ended; idempotent."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()

    def last_words(self) -> str:
        """The last lines that it printed, as a sentence."""
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            last = " | ".join(line.strip() for line in deque(lines, _LAST_LINES) if line.strip())
        return f"{self.log} ends with: {last or 'nothing'}."
