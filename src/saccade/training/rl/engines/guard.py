"""Run a server, and end it with everything that it started when the parent process is gone.

    python -I guard.py vllm serve ...

Standard input is a pipe that the parent never writes to; it closes when the parent ends, however that happens. Then, or
after a SIGTERM, the server's process group gets SIGTERM, then SIGKILL. Ctrl-C is ignored: the parent handles it.
Standard library only.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

GRACE = 15.0
"""Seconds from SIGTERM to SIGKILL."""
_LOOK = 0.2
"""Seconds between two checks of the server."""


def guard(command: Sequence[str]) -> int:
    """Run `command` until it ends or must end; return its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ending = False

    def end(number: int, frame: object) -> None:
        nonlocal ending
        ending = True

    signal.signal(signal.SIGTERM, end)
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    while server.poll() is None and not ending:
        readable, _, _ = select.select([sys.stdin], [], [], _LOOK)
        ending = ending or (bool(readable) and not os.read(sys.stdin.fileno(), 1))
    _end_group(server)
    return server.wait()


def _end_group(server: subprocess.Popen[bytes]) -> None:
    """End the group that the server leads; its workers may outlive it there."""
    _signal(server.pid, signal.SIGTERM)
    end = time.monotonic() + GRACE
    while server.poll() is None and time.monotonic() < end:
        time.sleep(_LOOK)
    _signal(server.pid, signal.SIGKILL)


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # nobody is left
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(guard(sys.argv[1:]))
