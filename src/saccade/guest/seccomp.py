"""The system call filter of the jail: an allow-list, as a classic BPF program.

`build_filter` is a pure function of the machine; `install` puts its result on the calling thread, for good. A call
that is not listed fails with EPERM, one that a libc probes and can do without fails with ENOSYS, one that is pretended
returns 0, and a call of another architecture (32-bit, x32) kills the process.

Does not promise to confine files (that is Landlock and the private root), nor to judge what pointers point at:
a filter sees numbers only.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from .syscalls import number, syscall

# What the jail's system call filter allows: lists of names, and rules on arguments. Data of `seccomp`.
#
# Not listed means refused. Left out on purpose, beside everything that needs privileges: exec; ordinary fork; every way
# to signal or inspect another process, its clocks included (a process may stop its own group); leaving that group;
# sockets other than a pair, and who holds the other end of one; anonymous shared memory in every form (it would survive
# a rollback); waking whoever waits in memory that processes share; locked memory; extended attributes (no quota counts
# them); watching files, and asking what of them is in memory (others read the same ones); timers that send any signal
# (they would wake a stopped process); raising or lowering limits and priorities; further filters, namespaces, mounts.
#
# Locks on files are answered with success and not taken: a session is alone in its workspace, and a lock on a file that
# many sessions can read would be a word between them.


@dataclass(frozen=True)
class AnyOf:
    """An argument's low 32 bits, without the bits of `ignore`, must be one of `values`."""

    argument: int
    values: tuple[int, ...]
    ignore: int = 0


@dataclass(frozen=True)
class Refuse:
    """An argument must not have all of `bits` set."""

    argument: int
    bits: int


@dataclass(frozen=True)
class Zero:
    """An argument must be 0 in all its 64 bits (a null pointer)."""

    argument: int


@dataclass(frozen=True)
class AtMost:
    """An argument's low 32 bits, as a number without sign, must not be greater than `value`."""

    argument: int
    value: int


@dataclass(frozen=True)
class Pretend:
    """If an argument's low 32 bits are one of `values`, the call returns 0 and does nothing."""

    argument: int
    values: tuple[int, ...]


@dataclass(frozen=True)
class Only:
    """If the first argument is `when`, the second must be `value`."""

    when: int
    value: int


@dataclass(frozen=True)
class AllBits:
    """An argument must have all `required` bits, may have `optional` ones, and no others."""

    argument: int
    required: int
    optional: int


@dataclass(frozen=True)
class Fork:
    """The first argument is exactly `flags` (with or without the `optional` bits), or else `threads` must hold."""

    flags: int
    optional: int
    threads: AllBits


SyscallRule = AnyOf | Refuse | Zero | AtMost | Pretend | Only | AllBits | Fork

_FILES = (
    "read write readv writev pread64 pwrite64 preadv pwritev lseek open openat creat close "
    "close_range dup dup2 dup3 fsync fdatasync sync_file_range truncate ftruncate fallocate sendfile "
    "copy_file_range fadvise64 readahead stat lstat fstat newfstatat statx statfs fstatfs access faccessat "
    "faccessat2 readlink readlinkat getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir rename renameat "
    "renameat2 link linkat symlink symlinkat unlink unlinkat chmod fchmod fchmodat fchmodat2 umask utime utimes "
    "utimensat futimesat getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr"
)
_MEMORY = "munmap mremap mprotect madvise msync brk membarrier get_mempolicy"
_THREADS = "set_robust_list rseq gettid sched_yield sched_get_priority_max sched_get_priority_min getcpu"
_SIGNALS = (
    "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack "
    "restart_syscall pause"
)
_PROCESS = (
    "exit exit_group wait4 waitid getpid getppid getuid geteuid getgid getegid getresuid getresgid getgroups getpgrp "
    "getrlimit getrusage times sysinfo uname getrandom"
)
_TIME = "time gettimeofday nanosleep alarm getitimer setitimer timerfd_create timerfd_settime timerfd_gettime"
_WAITING = (
    "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd "
    "eventfd2 signalfd signalfd4 pipe pipe2"
)
_SOCKETS = "sendmsg sendmmsg sendto recvmsg recvmmsg recvfrom getsockname getpeername"

ALLOWED: tuple[str, ...] = tuple(
    " ".join((_FILES, _MEMORY, _THREADS, _SIGNALS, _PROCESS, _TIME, _WAITING, _SOCKETS)).split()
)
"""Calls allowed with any arguments."""

PRETENDED: tuple[str, ...] = ("flock",)
"""Calls that return 0 and do nothing."""

NOT_IMPLEMENTED: tuple[str, ...] = (
    *("clone3", "cachestat", "map_shadow_stack", "mseal"),
    "openat2",
    *("futex_waitv", "futex_wake", "futex_wait", "futex_requeue"),
)
"""Calls answered with ENOSYS: a libc that tries them falls back, as from clone3 to clone, whose flags are visible."""

SIGKILL, SIGCHLD, SIGSTOP = 9, 17, 19
CLONE_VM, CLONE_FS, CLONE_FILES, CLONE_SIGHAND = 0x100, 0x200, 0x400, 0x800
CLONE_PARENT, CLONE_THREAD, CLONE_SYSVSEM, CLONE_SETTLS = 0x8000, 0x10000, 0x40000, 0x80000
CLONE_PARENT_SETTID, CLONE_CHILD_CLEARTID, CLONE_DETACHED = 0x100000, 0x200000, 0x400000
CLONE_CHILD_SETTID = 0x1000000

FORK_FLAGS = CLONE_PARENT | SIGCHLD
"""The only fork there is in the jail: the child's parent is the caller's parent."""

_THREAD = AllBits(
    0,
    required=CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD,
    optional=CLONE_SYSVSEM
    | CLONE_SETTLS
    | CLONE_PARENT_SETTID
    | CLONE_CHILD_SETTID
    | CLONE_CHILD_CLEARTID
    | CLONE_DETACHED,
)

_RWF_NOWAIT = 8
_MAP_SHARED_ANONYMOUS = 0x01 | 0x20

_PR_SET_PDEATHSIG = 1
_PRCTL = (
    _PR_SET_PDEATHSIG,
    2,  # PR_GET_PDEATHSIG
    3,  # PR_GET_DUMPABLE
    15,  # PR_SET_NAME
    16,  # PR_GET_NAME
    21,  # PR_GET_SECCOMP
    23,  # PR_CAPBSET_READ
    27,  # PR_GET_SECUREBITS
    30,  # PR_GET_TIMERSLACK
    39,  # PR_GET_NO_NEW_PRIVS
    40,  # PR_GET_TID_ADDRESS
    42,  # PR_GET_THP_DISABLE
    0x53564D41,  # PR_SET_VMA: names of anonymous mappings, set by malloc
)

_IOCTL = (
    0x5401,  # TCGETS (isatty)
    0x802C542A,  # TCGETS2 (isatty of newer libcs)
    0x541B,  # FIONREAD
    0x5421,  # FIONBIO
    0x5450,  # FIONCLEX
    0x5451,  # FIOCLEX
)

# Not here: owners and numbers of signals (F_SETOWN, F_SETSIG, F_NOTIFY), leases, seals, and the size of pipes.
_FCNTL = (
    0,  # F_DUPFD
    1,  # F_GETFD
    2,  # F_SETFD
    3,  # F_GETFL
    4,  # F_SETFL
    5,  # F_GETLK
    36,  # F_OFD_GETLK
    1027,  # F_DUPFD_QUERY
    1030,  # F_DUPFD_CLOEXEC
    1032,  # F_GETPIPE_SZ
    1034,  # F_GET_SEALS
)

_LOCKS = (
    6,  # F_SETLK
    7,  # F_SETLKW
    37,  # F_OFD_SETLK
    38,  # F_OFD_SETLKW
)

_LAST_CLOCK = 15
"""Clock ids above it, taken as numbers without sign, name the clocks of other processes, or devices."""

_SOL_SOCKET = 1
# Not here: who made the other end (SO_PEERCRED, SO_PEERGROUPS, SO_PEERPIDFD, SO_PEERSEC).
_GETSOCKOPT = (
    3,  # SO_TYPE
    4,  # SO_ERROR
    7,  # SO_SNDBUF
    8,  # SO_RCVBUF
    20,  # SO_RCVTIMEO
    21,  # SO_SNDTIMEO
    30,  # SO_ACCEPTCONN
    38,  # SO_PROTOCOL
    39,  # SO_DOMAIN
)

_FUTEX_WAIT, _FUTEX_WAIT_BITSET, _FUTEX_PRIVATE, _FUTEX_CLOCK_REALTIME, _FUTEX_KINDS = 0, 9, 128, 256, 14
# The page of a library is one for all sessions: who waits there could be woken by another. A thread that is joined is
# waited for as if processes shared it, so this much is allowed; the kernel does the waking then.
_FUTEX = (_FUTEX_WAIT, _FUTEX_WAIT_BITSET, *range(_FUTEX_PRIVATE, _FUTEX_PRIVATE + _FUTEX_KINDS))

_OF_ANY_PROCESS = (
    *("getpgid", "getsid", "sched_getaffinity", "sched_getparam", "sched_getscheduler", "sched_getattr"),
    "sched_rr_get_interval",
)

_AF_UNIX = 1
_SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_NONBLOCK, _SOCK_CLOEXEC = 1, 5, 0x800, 0x80000

ARGUMENT_RULES: dict[str, tuple[SyscallRule, ...]] = {
    "clone": (Fork(FORK_FLAGS, CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID, _THREAD),),
    "futex": (AnyOf(1, _FUTEX, _FUTEX_CLOCK_REALTIME),),
    **dict.fromkeys(("preadv2", "pwritev2"), (Refuse(5, _RWF_NOWAIT),)),
    "mmap": (Refuse(3, _MAP_SHARED_ANONYMOUS),),
    "prctl": (AnyOf(0, _PRCTL), Only(_PR_SET_PDEATHSIG, SIGKILL)),
    # Reading the caller's own limits.
    "prlimit64": (AnyOf(0, (0,)), Zero(2)),
    "ioctl": (AnyOf(1, _IOCTL),),
    "fcntl": (Pretend(1, _LOCKS), AnyOf(1, _FCNTL)),
    "getsockopt": (AnyOf(1, (_SOL_SOCKET,)), AnyOf(2, _GETSOCKOPT)),
    **dict.fromkeys(("clock_gettime", "clock_getres", "clock_nanosleep"), (AtMost(0, _LAST_CLOCK),)),
    # To stop the caller's own group, as every process does at the end of its call.
    "kill": (Zero(0), AnyOf(1, (SIGSTOP,))),
    # About the caller only, which is named by 0: an answer for another id would tell that it exists.
    **dict.fromkeys(_OF_ANY_PROCESS, (Zero(0),)),
    "getpriority": (Zero(0), Zero(1)),
    # No datagram pair: its sendto reaches any socket by name, whatever it is connected to.
    "socketpair": (AnyOf(0, (_AF_UNIX,)), AnyOf(1, (_SOCK_STREAM, _SOCK_SEQPACKET), _SOCK_NONBLOCK | _SOCK_CLOEXEC)),
}
"""Calls allowed if all their rules hold, refused with EPERM if not."""


Instruction = tuple[int, int, int, int]
"""code, jump if true, jump if false (both relative to the next instruction), constant."""

_LOAD, _JUMP, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x54, 0x06
# Offsets in struct seccomp_data: int nr; u32 arch; u64 instruction_pointer; u64 args[6].
_NR, _ARCH, _ARGS = 0, 4, 16

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_FIRST_UNKNOWN = 463
"""Calls from this number on are newer than this list; ENOSYS lets a newer libc fall back."""

_ALLOW = (_RETURN, 0, 0, 0x7FFF0000)
_KILL_PROCESS = (_RETURN, 0, 0, 0x80000000)
_SECCOMP_SET_MODE_FILTER = 1
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2


def _fail(code: int) -> Instruction:
    return (_RETURN, 0, 0, 0x00050000 | code)


_EPERM = _fail(errno.EPERM)
_ENOSYS = _fail(errno.ENOSYS)
_NOTHING = _fail(0)
"""An error of number 0 is success: the call is skipped and returns 0."""


def _low(argument: int) -> Instruction:
    """Load the low 32 bits of an argument (both machines are little-endian)."""
    return (_LOAD, 0, 0, _ARGS + 8 * argument)


def _high(argument: int) -> Instruction:
    return (_LOAD, 0, 0, _ARGS + 8 * argument + 4)


def _match_any(values: Sequence[int]) -> list[Instruction]:
    """Go on after this block if the accumulator is one of `values`, else fail with EPERM."""
    block: list[Instruction] = []
    for index, value in enumerate(values):
        block.append((_EQUAL, len(values) - index, 0, value))
    block.append(_EPERM)
    return block


def _check(rule: SyscallRule) -> list[Instruction]:
    """The block of one rule: falls through if it holds, returns EPERM if not."""
    if isinstance(rule, AnyOf):
        mask = [(_AND, 0, 0, 0xFFFFFFFF & ~rule.ignore)] if rule.ignore else []
        return [_low(rule.argument), *mask, *_match_any(rule.values)]
    if isinstance(rule, Refuse):
        # Not all bits of the mask at once.
        return [_low(rule.argument), (_AND, 0, 0, rule.bits), (_EQUAL, 0, 1, rule.bits), _EPERM]
    if isinstance(rule, Zero):
        return [_low(rule.argument), (_EQUAL, 1, 0, 0), _EPERM, _high(rule.argument), (_EQUAL, 1, 0, 0), _EPERM]
    if isinstance(rule, AtMost):
        return [_low(rule.argument), (_AT_LEAST, 0, 1, rule.value + 1), _EPERM]
    if isinstance(rule, Pretend):
        count = len(rule.values)
        tests = [(_EQUAL, count - index, 0, value) for index, value in enumerate(rule.values)]
        return [_low(rule.argument), *tests, (_JUMP, 0, 0, 1), _NOTHING]
    if isinstance(rule, Only):
        # If the first argument is `when`, the second must be `value`.
        return [_low(0), (_EQUAL, 0, 3, rule.when), _low(1), (_EQUAL, 1, 0, rule.value), _EPERM]
    if isinstance(rule, AllBits):
        return [
            _low(rule.argument),
            (_AND, 0, 0, rule.required),
            (_EQUAL, 1, 0, rule.required),
            _EPERM,
            _low(rule.argument),
            (_ANY_BIT, 0, 1, 0xFFFFFFFF & ~(rule.required | rule.optional)),
            _EPERM,
        ]
    return _check_fork(rule)


def _check_fork(rule: Fork) -> list[Instruction]:
    """Either a fork with exactly the given flags (return ALLOW) or what `rule.threads` asks for."""
    fork = [_low(0), (_AND, 0, 0, 0xFFFFFFFF & ~rule.optional), (_EQUAL, 0, 1, rule.flags), _ALLOW]
    return fork + _check(rule.threads)


def _leaf(rules: Sequence[SyscallRule]) -> list[Instruction]:
    return [instruction for rule in rules for instruction in _check(rule)] + [_ALLOW]


SyscallSpan = tuple[int, list[Instruction]]
"""First number of a run of calls that share one outcome, and the block that decides it."""


def _spans(machine: str) -> list[SyscallSpan]:
    """All numbers from 0 on as runs of equal outcome, in ascending order."""
    blocks: dict[int, list[Instruction]] = {}
    outcomes: list[tuple[Sequence[str], list[Instruction]]] = [
        (ALLOWED, [_ALLOW]),
        (NOT_IMPLEMENTED, [_ENOSYS]),
        (PRETENDED, [_NOTHING]),
    ]
    outcomes += [((name,), _leaf(rules)) for name, rules in ARGUMENT_RULES.items()]
    for names, block in outcomes:
        for name in names:
            nr = number(name, machine)
            if nr is not None:
                blocks[nr] = block
    spans: list[SyscallSpan] = []
    for nr in range(_FIRST_UNKNOWN):
        block = blocks.get(nr, [_EPERM])
        if not spans or spans[-1][1] != block:
            spans.append((nr, block))
    spans.append((_FIRST_UNKNOWN, [_ENOSYS]))
    return spans


def _tree(spans: Sequence[SyscallSpan]) -> list[Instruction]:
    """A balanced search: the accumulator holds the call's number."""
    if len(spans) == 1:
        return spans[0][1]
    middle = len(spans) // 2
    below, above = _tree(spans[:middle]), _tree(spans[middle:])
    pivot = spans[middle][0]
    if len(below) <= 255:
        return [(_AT_LEAST, len(below), 0, pivot), *below, *above]
    # Conditional jumps reach 255 instructions only; an unconditional one reaches any.
    return [(_AT_LEAST, 0, 1, pivot), (_JUMP, 0, 0, len(below)), *below, *above]


def build_filter(machine: str) -> bytes:
    """The filter for "x86_64" or "aarch64", as an array of struct sock_filter (8 bytes each).

    Raises KeyError for any other machine.
    """
    program: list[Instruction] = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, _AUDIT_ARCH[machine]), _KILL_PROCESS]
    program.append((_LOAD, 0, 0, _NR))
    if machine == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32_BIT), _KILL_PROCESS]
    program += _tree(_spans(machine))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def install(program: bytes) -> None:
    """Put the filter on the calling thread and all that it starts; nothing can take it off again.

    Needs no_new_privs, see `privileges.no_new_privs`. Raises OSError: EACCES without no_new_privs, ENOSYS or EINVAL
    where the kernel has no seccomp filters.
    """
    buffer = ctypes.create_string_buffer(program, len(program))
    header = _Program(len(program) // 8, ctypes.addressof(buffer))
    try:
        syscall("seccomp", _SECCOMP_SET_MODE_FILTER, 0, header)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        syscall("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(header))
