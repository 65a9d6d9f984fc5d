"""The process that runs a session's next call: it stands still until then."""

from __future__ import annotations

import contextlib
import os
import signal


class Leaf:
    """One leaf, known by a descriptor of it (`pidfd`, owned from here on), so that no other can be meant."""

    def __init__(self, pid: int = 0, pidfd: int = -1) -> None:
        self.pid = pid
        self._pidfd = pidfd

    def wake(self) -> None:
        """Let it run."""
        self._send(signal.SIGCONT)

    def rest(self) -> None:
        """Let it stand still."""
        self._send(signal.SIGSTOP)

    def forget(self) -> None:
        """Give the descriptor back; idempotent."""
        pidfd, self._pidfd = self._pidfd, -1
        if pidfd >= 0:
            os.close(pidfd)

    def _send(self, number: signal.Signals) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)
