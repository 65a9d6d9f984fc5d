"""Runs a server and ends it, with everything that it started, when whoever started this is gone.

    python -I guard.py vllm serve ...

Its standard input is a pipe that nobody writes to: when the process at the other end ends, however it ends, the pipe
closes. Then, or after a SIGTERM, the server's process group gets SIGTERM, and SIGKILL when that was not enough. A
Ctrl-C is not heard here: the starter hears it. Imports the standard library alone.
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
"""Seconds between two looks at the server."""


def guard(command: Sequence[str]) -> int:
    """Run `command` until it ends or is to end; its exit code."""
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
    """The server leads its group; its workers may outlive it there."""
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
