"""The one helper process that compares formulas: started when first needed, restarted when it gave up.

A comparison that takes too long kills the process, and has no result. What is sent must have passed `latex`.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import os
import select
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

from saccade.errors import UnavailableError

START_SECONDS = 120.0
"""Longest wait for the imports of the process."""
REPLY_SECONDS = 30.0
"""Longest wait for a reply; its own limit of processor time ends it long before, unless the machine stands still."""


class FormulaComparer:
    """Compares formulas in a process of its own. Safe to use from several threads, and after a fork."""

    def __init__(self, worker: Path) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def same(self, gold: str, answer: str) -> bool | None:
        """Whether two formulas are equal; None if that was not found out within the limits.

        Raises:
            UnavailableError: math-verify is not installed, or the process cannot be started.
        """
        request = json.dumps({"gold": gold, "answer": answer}).encode() + b"\n"
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            try:
                process.stdin.write(request)
                process.stdin.flush()
            except BrokenPipeError:
                reply = b""
            else:
                reply = _line(process, REPLY_SECONDS)
            if not reply:
                self._stop()
                return None
            return bool(json.loads(reply)["same"])

    def close(self) -> None:
        """End the process; the next comparison starts another."""
        with self._lock:
            self._stop()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._owner == os.getpid() and self._process.poll() is None:
            return self._process
        self._stop()
        if importlib.util.find_spec("math_verify") is None:
            raise UnavailableError("the package `math-verify` is not installed. Run: pip install 'saccade[math]'")
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(self._worker)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._owner = os.getpid()
        if not _line(self._process, START_SECONDS):
            self._stop()
            raise UnavailableError(
                f"the process that compares formulas did not start. Run {self._worker} by hand to see why."
            )
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        if self._owner == os.getpid():
            process.kill()
            process.wait()


def _line(process: subprocess.Popen[bytes], seconds: float) -> bytes:
    """The next short line of the process, or nothing if it ended or took longer."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    return process.stdout.readline() if ready else b""


@cache
def shared_comparer() -> FormulaComparer:
    """The comparer of this program; its process ends with it."""
    comparer = FormulaComparer(Path(__file__).with_name("math_worker.py"))
    atexit.register(comparer.close)
    return comparer
