"""Process groups of sessions: stopped, emptied, killed. For the zygote, whose children all of them are.

Nothing in the jail can continue a stopped process: `kill` is refused (but for stopping the caller's own group), and so
are timers that send a signal of choice.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time

_STATES = os.WSTOPPED | os.WCONTINUED | os.WNOHANG
_stops: dict[int, int] = {}
"""Child that stands still -> the number of its stop."""
_numbers = itertools.count(1)
_SCHEDULED = 2
"""With the bits of a process id, the kernel's number for the clock of its CPU time."""


def stop(pid: int) -> None:
    """Ask the kernel to stop a process; `stopped` tells when all its threads have."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)


def resume(pid: int) -> None:
    """Let a stopped process run."""
    forget(pid)
    os.kill(pid, signal.SIGCONT)


def stands_since(pid: int) -> int:
    """Return a number of the stop in which our child `pid` stands, another one for each; 0 if it runs, or has ended."""
    try:
        change = os.waitid(os.P_PID, pid, _STATES | os.WEXITED | os.WNOWAIT)
        if change is not None:
            forget(pid)
            if change.si_code in (os.CLD_STOPPED, os.CLD_CONTINUED):
                # Taken from the kernel, which tells each change once: what comes after it is told anew.
                change = os.waitid(os.P_PID, pid, _STATES)
                if change is not None and change.si_code == os.CLD_STOPPED:
                    note_stop(pid)
    except ChildProcessError:
        forget(pid)
    return _stops.get(pid, 0)


def was_killed(pid: int) -> bool:
    """Return whether our child `pid` was killed, which nothing in the jail can do to a process that stands still."""
    try:
        change = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return change is not None and change.si_code == os.CLD_KILLED and change.si_status == signal.SIGKILL


def note_stop(pid: int) -> None:
    """Note that our child `pid` stands still, which the kernel tells once."""
    _stops[pid] = next(_numbers)


def forget(pid: int) -> None:
    """Forget that it stands still: it runs again, or has ended."""
    _stops.pop(pid, None)


def stopped(pid: int) -> bool:
    """Return whether our child `pid` has stopped with all its threads; False for one that has ended."""
    return stands_since(pid) != 0


def kill_group(group: int) -> None:
    """Kill every process of a group; the kernel lets no fork slip through meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def join(pid: int, cgroups: list[int]) -> None:
    """Move our child `pid` into the control groups whose open `cgroup.procs` files are given. Raises OSError."""
    for fd in cgroups:
        os.write(fd, b"%d" % pid)


def empty(group: int) -> bool:
    """Tell whether none of our children, dead ones that nobody has collected included, is in the group."""
    try:
        os.waitid(os.P_PGID, group, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def purge(pid: int) -> bool:
    """Kill whoever is in the group of the stopped process `pid`, but for itself; whether there was anybody."""
    os.setpgid(pid, os.getpgrp())
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.setpgid(pid, pid)
    return True


def children() -> list[int]:
    """Return ids of our children; empty where the kernel does not list them."""
    try:
        with open("/proc/thread-self/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def group_of(pid: int) -> int:
    """Return the group of a process; 0 if it has ended."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def threads(pid: int) -> int:
    """Return the number of threads of one of our children; 0 if it has ended."""
    try:
        # A folder for each, besides "." and "..".
        return os.stat(f"/proc/{pid}/task").st_nlink - 2
    except (FileNotFoundError, ProcessLookupError):
        return 0


def asleep(pid: int) -> bool:
    """Tell whether a child of ours waits for something other than a processor or the disk, or stands still."""
    return _stat(pid)[:1] in ([b"S"], [b"T"])


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that one of our children has used; 0 if it has ended."""
    try:
        return time.clock_gettime(~pid << 3 | _SCHEDULED)
    except OSError:
        return 0.0


def _stat(pid: int) -> list[bytes]:
    """Return fields of /proc/PID/stat from the state on."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
