"""Giving up privileges, for good: identity, capabilities, limits, environment of the calling process.

`jail.steps` has the order. Meant for a process with one thread, which none of this confines by itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import signal
from collections.abc import Mapping

from .syscalls import syscall

_PR_SET_PDEATHSIG, _PR_GET_DUMPABLE, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 3, 4, 38
_PR_CAPBSET_DROP, _PR_GET_SECUREBITS, _PR_SET_SECUREBITS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 24, 27, 28, 47, 4
# NOROOT and its lock, lock of KEEP_CAPS, NO_CAP_AMBIENT_RAISE and its lock: user id 0 gives no capabilities any more.
_SECUREBITS = 0x01 | 0x02 | 0x20 | 0x40 | 0x80
_CAPABILITY_VERSION_3 = 0x20080522
_CLONE_NEWUSER = 0x10000000

STACK_BYTES = 8 * 1024 * 1024
ADDRESS_SLACK_BYTES = 4 * 1024 * 1024 * 1024
"""Address space beyond the memory limit: libc reserves, but does not use, up to 128 MiB for each thread."""


def no_new_privs() -> None:
    """Let no exec give privileges (set-uid programs, file capabilities); seccomp and Landlock need this."""
    syscall("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def set_dumpable(value: int) -> None:
    """Set the flag. With 0 nobody of the same user may trace this process, and root owns its /proc."""
    syscall("prctl", _PR_SET_DUMPABLE, value, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Ask for SIGKILL when the parent ends; end now if `parent` is gone. A fork or another user clears it."""
    syscall("prctl", _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def oom_first() -> None:
    """Ask the kernel to kill this process first when memory runs out. Raises OSError where /proc cannot be written."""
    _write("/proc/self/oom_score_adj", b"1000")


def _write(path: str, text: bytes) -> None:
    with open(path, "wb", 0) as file:
        file.write(text)


def _held() -> tuple[int, int]:
    """Return bytes that this process has mapped: address space, and private writable memory."""
    with open("/proc/self/statm", "rb", 0) as file:
        fields = file.read().split()
    page = resource.getpagesize()
    return int(fields[0]) * page, int(fields[5]) * page


def _limit(which: int, soft: int, hard: int | None = None) -> None:
    """Set a limit, lowered to the hard limit that the process has already."""
    _, ceiling = resource.getrlimit(which)
    top = soft if hard is None else hard
    if ceiling != resource.RLIM_INFINITY:
        top, soft = min(top, ceiling), min(soft, ceiling)
    resource.setrlimit(which, (soft, top))


def set_limits(limits: Mapping[str, int]) -> None:
    """Set kernel resource limits, for this process and those it forks. Raises OSError where one cannot be set.

    `cpu_seconds` (SIGXCPU then, SIGKILL one second later), `memory_bytes` (allocated beyond what the process
    holds now), `processes` (and threads, of this user id in its user namespace), `open_files`, `file_bytes`. And none
    of: core dumps, locked memory, message queues, raised priority.
    """
    for name in ("CORE", "MEMLOCK", "MSGQUEUE", "NICE", "RTPRIO"):
        _limit(getattr(resource, f"RLIMIT_{name}"), 0)
    _limit(resource.RLIMIT_SIGPENDING, 256)
    _limit(resource.RLIMIT_STACK, STACK_BYTES)
    _limit(resource.RLIMIT_CPU, limits["cpu_seconds"], limits["cpu_seconds"] + 1)
    _limit(resource.RLIMIT_NPROC, limits["processes"])
    _limit(resource.RLIMIT_NOFILE, limits["open_files"])
    _limit(resource.RLIMIT_FSIZE, limits["file_bytes"])
    # DATA counts every private writable page when it is mapped, touched or not: numpy fails with MemoryError.
    space, data = _held()
    _limit(resource.RLIMIT_DATA, data + limits["memory_bytes"])
    _limit(resource.RLIMIT_AS, space + limits["memory_bytes"] + ADDRESS_SLACK_BYTES)


def own_user_namespace() -> None:
    """Enter a new user namespace in which the current user and group ids stay what they are.

    For a session whose zygote is not root: the number of processes is then counted for this session only. The
    process holds all capabilities inside it until `drop_capabilities`. Raises OSError (EPERM, ENOSPC, EACCES) where
    user namespaces cannot be had or /proc cannot be written.
    """
    uid, gid = os.geteuid(), os.getegid()
    syscall("unshare", _CLONE_NEWUSER)
    dumpable = syscall("prctl", _PR_GET_DUMPABLE)
    # The maps belong to root while the process is not dumpable.
    set_dumpable(1)
    try:
        _write("/proc/self/setgroups", b"deny")
        _write("/proc/self/uid_map", b"%d %d 1" % (uid, uid))
        _write("/proc/self/gid_map", b"%d %d 1" % (gid, gid))
    finally:
        set_dumpable(1 if dumpable == 1 else 0)


def become_user(uid: int, gid: int) -> None:
    """Become another user for good, without supplementary groups. Raises OSError (EPERM, EINVAL)."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid) or os.getgroups():
        raise OSError(errno.EPERM, f"the process did not become user {uid}, group {gid}")


def limit_capabilities() -> bool:
    """Empty the bounding and ambient sets and lock the secure bits, keeping the capabilities in use for now.

    True if done; False if the process lacks CAP_SETPCAP. Under `no_new_privs` these sets give nothing anyway.
    """
    try:
        for capability in range(64):
            try:
                syscall("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
            except OSError as error:
                # EINVAL: past the last capability that this kernel knows.
                if error.errno != errno.EINVAL:
                    raise
                break
        syscall("prctl", _PR_SET_SECUREBITS, _SECUREBITS, 0, 0, 0)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
        return False
    with contextlib.suppress(OSError):
        syscall("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    return True


def drop_capabilities() -> None:
    """Give up every capability: effective, permitted, inheritable, ambient, and bounding where that can be had."""
    if syscall("prctl", _PR_GET_SECUREBITS, 0, 0, 0, 0) != _SECUREBITS:
        limit_capabilities()
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    syscall("capset", ctypes.addressof(header), ctypes.addressof(data))
