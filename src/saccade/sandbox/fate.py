"""How processes of a session end, and whose doing it is: the program's, or somebody's outside.

Code in the jail cannot send a signal, but it can end itself, run against a limit, and patch what runs between calls.
Only a keeper that was killed by a signal which its session cannot have brought about is an outage of ours.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any, NamedTuple

from saccade.record.status import Status
from saccade.sandbox.cgroup import SessionCgroup
from saccade.sandbox.limits import Limits

KILLED_OUTSIDE = "the session's processes were killed from outside; its state is gone"


class Death(NamedTuple):
    """How the process of a call ended: its exit code (negative: a signal), and the CPU time it had used."""

    code: int
    cpu_seconds: float


class Memory:
    """Whether the kernel has killed processes of a session for want of memory."""

    def __init__(self, cgroup: SessionCgroup | None) -> None:
        self._cgroup = cgroup
        self._known = 0

    def ran_out(self) -> bool:
        """Whether it has since this was last asked; never without a control group."""
        before, self._known = self._known, self._cgroup.oom_kills() if self._cgroup is not None else 0
        return self._known > before


def whose_doing(message: Mapping[str, Any], limits: Limits, memory: Memory) -> str:
    """Why the end of a keeper that has run code is the program's own doing, or nothing. `message` is the zygote's."""
    if message.get("fault"):
        return f"the session was ended: {message['fault']}"
    code = message.get("code")
    if code is None:
        return ""
    if code == -signal.SIGKILL and float(message["cpu"]) < limits.cpu_seconds:
        return "the session's processes used more memory than allowed" if memory.ran_out() else ""
    return f"the process that kept the session's state ended {_how(code)}"


def how_it_died(death: Death, limits: Limits, memory: Memory) -> tuple[Status, str]:
    """What a call comes to whose process died while the session lives on."""
    if memory.ran_out():
        return Status.OUT_OF_MEMORY, "MemoryError: the code used more memory than allowed and was killed"
    code = death.code
    # A program that ignores SIGXCPU is killed a second later.
    if code == -signal.SIGXCPU or (code == -signal.SIGKILL and death.cpu_seconds >= limits.cpu_seconds):
        return Status.TIMEOUT, f"TimeoutError: the code used more than {limits.cpu_seconds} s of CPU time"
    return Status.KILLED, f"the Python process of the code ended {_how(code)}"


def _how(code: int) -> str:
    return f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
