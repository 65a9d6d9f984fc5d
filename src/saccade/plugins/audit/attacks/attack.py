"""Define an attack: a hostile program as data, with what it tries and how to tell whether it got through.

Attacks prove access and do no damage: where a sandbox holds nothing back they print `BREACH: ...` and stop, and every
bomb is bounded, so that running them on a machine without isolation is unpleasant but not dangerous.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from saccade.sandbox.isolation import Promise
from saccade.sandbox.result import RunResult

BREACH = "BREACH:"
"""A line of stdout that begins with this says that the attack got through."""
STOPPED = "stopped:"
"""A line of stdout that begins with this says what stopped an attempt."""

PREAMBLE = '''
import ctypes, errno, os, platform, socket, stat, sys

_libc = ctypes.CDLL(None, use_errno=True)
_NUMBERS = {
    "x86_64": dict(shmget=29, shmat=30, ptrace=101, mount=165, unshare=272, clone=56, personality=135, keyctl=250,
        add_key=248, mknodat=259, process_vm_readv=310, process_vm_writev=311, kcmp=312, finit_module=313, bpf=321,
        userfaultfd=323, perf_event_open=298, io_uring_setup=425, clone3=435, pidfd_open=434, pidfd_getfd=438,
        openat2=437, open_by_handle_at=304, setns=308, pivot_root=155, chroot=161, reboot=169, swapon=167,
        init_module=175, kexec_load=246, quotactl=179, acct=163, iopl=172, ioperm=173, modify_ldt=154, setuid=105,
        setresuid=117, capset=126, fanotify_init=300, name_to_handle_at=303, move_mount=429, fsopen=430,
        open_tree=428, memfd_secret=447, tkill=200, tgkill=234, rt_sigqueueinfo=129, vmsplice=278, execveat=322,
        memfd_create=319, msgget=68, semget=64, mq_open=240, socket=41, seccomp=317, syslog=103, settimeofday=164),
    "aarch64": dict(shmget=194, shmat=196, ptrace=117, mount=40, unshare=97, clone=220, personality=92, keyctl=219,
        add_key=217, mknodat=33, process_vm_readv=270, process_vm_writev=271, kcmp=272, finit_module=273, bpf=280,
        userfaultfd=282, perf_event_open=241, io_uring_setup=425, clone3=435, pidfd_open=434, pidfd_getfd=438,
        openat2=437, open_by_handle_at=265, setns=268, pivot_root=41, chroot=51, reboot=142, swapon=224,
        init_module=105, kexec_load=104, quotactl=60, acct=89, setuid=146, setresuid=147, capset=91,
        fanotify_init=262, name_to_handle_at=264, move_mount=429, fsopen=430, open_tree=428, memfd_secret=447,
        tkill=130, tgkill=131, rt_sigqueueinfo=138, vmsplice=75, execveat=281, memfd_create=279, msgget=186,
        semget=190, mq_open=180, socket=198, seccomp=277, syslog=116, settimeofday=170),
}[platform.machine()]

def raw(name, *args):
    """A system call by number; raises OSError."""
    if name not in _NUMBERS:
        raise OSError(errno.ENOSYS, name + " does not exist on this machine")
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = _libc.syscall(ctypes.c_long(_NUMBERS[name]), *args)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()) + " (" + name + ")")
    return result

def breach(what):
    print("BREACH:", what, flush=True)

def attempt(what, function, *args, **kwargs):
    """Run it: a breach if it succeeds, else say what stopped it. Returns (True, value) or (False, error)."""
    try:
        value = function(*args, **kwargs)
    except BaseException as error:
        print("stopped:", what + ":", type(error).__name__, str(error)[:200], flush=True)
        return False, error
    breach(what + " gave " + repr(value)[:200])
    return True, value

def try_quietly(function, *args, **kwargs):
    """The value, or None if it fails."""
    try:
        return function(*args, **kwargs)
    except BaseException as error:
        name = getattr(function, "__name__", "call")
        print("stopped:", name + ":", type(error).__name__, str(error)[:200], flush=True)
        return None

def read(path, size=4096):
    with open(path, "rb") as f:
        return f.read(size)

def descriptors():
    """Every open descriptor above 2."""
    found = []
    for fd in range(3, 1024):
        try:
            os.fstat(fd)
        except OSError:
            continue
        found.append(fd)
    return found

def sockets():
    """Every open descriptor that is a socket, as socket objects over a duplicate."""
    found = []
    for fd in descriptors():
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            copy = socket.socket(fileno=os.dup(fd))
            copy.setblocking(False)
            found.append(copy)
    return found
'''
"""Put in front of every program of an attack. `target` is bound to what the host laid out, see `surroundings`."""


def nothing_more(result: RunResult) -> str | None:
    """Return the extra check of most attacks: none."""
    return None


def kept_with_its_thread(result: RunResult) -> str | None:
    """Check an attack that leaves a thread of C, which a later call cannot see: it is a fork of one thread."""
    return "a call was kept with its thread" if result.committed and "gave 0" in result.text else None


OF_GROUP = {
    **dict.fromkeys(("files", "network", "kernel"), Promise.CONFINED),
    **dict.fromkeys(("processes", "resources", "floods"), Promise.BOUNDED),
    **dict.fromkeys(("forging", "wire", "reports"), Promise.CHECKED),
    **dict.fromkeys(("secrets", "facts"), Promise.SILENT),
    "rollback": Promise.UNDONE,
    "branches": Promise.SEPARATE,
    "rest": Promise.AT_REST,
}
"""Group of attacks -> the promise that they test."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One hostile program, or several in a row.

    `tries` says in a few words what it tries. `check` looks at the result for a breach that the general evidence does
    not show, and returns what it found or None. `may_lose_session` marks attacks on the session's own wire, after
    which the host may drop that session (and nothing else). `wall_seconds` shortens the limit for programs that
    only wait.

    `before` is a call that is kept, made before `code`. After it, `branch` runs in a branch of the session and
    `sibling` in another one, and at last `after` in the session again: these look for what must not be there, and
    print a breach.
    """

    name: str
    group: str
    tries: str
    code: str
    check: Callable[[RunResult], str | None] = nothing_more
    may_lose_session: bool = False
    wall_seconds: float | None = None
    before: str = ""
    branch: str = ""
    sibling: str = ""
    after: str = ""
    must_look: bool = False
    """Whether what looks must end well: it sees something that is gone if it does not."""

    @property
    def promise(self) -> Promise:
        """The promise that this attack tests."""
        return OF_GROUP.get(self.group, Promise.CONFINED)

    @property
    def program(self) -> str:
        """The code with the preamble in front."""
        return PREAMBLE + self.code


_ATTACK: Final = re.compile(r"^== (\w+)(?:, ([\d.]+) s)?(, may lose its session)?: (.+(?:\n==   .+)*)\n", re.MULTILINE)


def attacks(group: str, text: str, begin: str = "") -> tuple[Attack, ...]:
    """Return the attacks of a text: each a line with its name and what it tries, then its program.

    The line is `== name: tries`, or `== name, 2.0 s, may lose its session: tries`, and may go on in lines that begin
    with `==` and three spaces. `begin` is put in front of every program.
    """
    parts = iter(_ATTACK.split(text)[1:])
    return tuple(
        Attack(
            *(name, group, tries.replace("\n==  ", ""), begin + program),
            may_lose_session=bool(loses),
            wall_seconds=float(seconds) if seconds else None,
        )
        for name, seconds, loses, tries, program in zip(*[parts] * 5, strict=True)
    )
