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
import itertools
import struct
from collections.abc import Sequence

from .syscalls import number, syscall

# Not listed means refused. Left out on purpose, besides everything that needs privileges: exec; ordinary fork; every
# way to signal or inspect another process, its clocks included (a process may stop its own group); leaving that group;
# sockets other than a pair, and who holds the other end of one; anonymous shared memory in every form (it would survive
# a rollback); waking whoever waits in memory that processes share; locked memory; extended attributes (no quota counts
# them); watching files, and asking what of them is in memory (others read the same ones); timers that send any signal
# (they would wake a stopped process); raising or lowering limits and priorities; how busy the machine is (sysinfo);
# further filters, namespaces, mounts.

Instruction = tuple[int, int, int, int]
"""code, jump if true, jump if false (both relative to the next instruction), constant."""
Block = list[Instruction]
"""Falls through where what it checks holds, and returns an outcome where not."""

_LOAD, _JUMP, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x54, 0x06
# Offsets in struct seccomp_data: int nr; u32 arch; u64 instruction_pointer; u64 args[6].
_NR, _ARCH, _ARGS = 0, 4, 16
_ALLOW = (_RETURN, 0, 0, 0x7FFF0000)
_KILL_PROCESS = (_RETURN, 0, 0, 0x80000000)
_EPERM, _ENOSYS, _NOTHING = ((_RETURN, 0, 0, 0x00050000 | code) for code in (errno.EPERM, errno.ENOSYS, 0))
"""An error of number 0 is success: the call is skipped and returns 0."""


def _low(argument: int) -> Instruction:
    """Load the low 32 bits of an argument (both machines are little-endian)."""
    return (_LOAD, 0, 0, _ARGS + 8 * argument)


def any_of(argument: int, values: Sequence[int], ignore: int = 0) -> Block:
    """Require that an argument's low 32 bits, without the bits of `ignore`, are one of `values`."""
    mask = [(_AND, 0, 0, 0xFFFFFFFF & ~ignore)] if ignore else []
    tests = [(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [_low(argument), *mask, *tests, _EPERM]


def refuse(argument: int, bits: int) -> Block:
    """Require that an argument has not all of `bits` set."""
    return [_low(argument), (_AND, 0, 0, bits), (_EQUAL, 0, 1, bits), _EPERM]


def zero(argument: int) -> Block:
    """Require that an argument is 0 in all its 64 bits (a null pointer)."""
    high = (_LOAD, 0, 0, _ARGS + 8 * argument + 4)
    return [_low(argument), (_EQUAL, 1, 0, 0), _EPERM, high, (_EQUAL, 1, 0, 0), _EPERM]


def at_most(argument: int, value: int) -> Block:
    """Require that an argument's low 32 bits, as a number without sign, are at most `value`."""
    return [_low(argument), (_AT_LEAST, 0, 1, value + 1), _EPERM]


def none_of(argument: int, values: Sequence[int], outcome: Instruction = _EPERM) -> Block:
    """Require that an argument's low 32 bits are none of `values`, or return `outcome` instead of EPERM."""
    tests = [(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [_low(argument), *tests, (_JUMP, 0, 0, 1), outcome]


def only(when: int, value: int) -> Block:
    """Require that the second argument is `value` if the first is `when`."""
    return [_low(0), (_EQUAL, 0, 3, when), _low(1), (_EQUAL, 1, 0, value), _EPERM]


def all_bits(argument: int, required: int, optional: int) -> Block:
    """Require that an argument has all `required` bits, and no others than these and `optional` ones."""
    has = [_low(argument), (_AND, 0, 0, required), (_EQUAL, 1, 0, required), _EPERM]
    return [*has, _low(argument), (_ANY_BIT, 0, 1, 0xFFFFFFFF & ~(required | optional)), _EPERM]


def fork(flags: int, optional: int, threads: Block) -> Block:
    """Allow a first argument of exactly `flags` (with or without the `optional` bits), or else what `threads` does."""
    return [_low(0), (_AND, 0, 0, 0xFFFFFFFF & ~optional), (_EQUAL, 0, 1, flags), _ALLOW, *threads]


_FILES = (
    "read write readv writev pread64 pwrite64 preadv pwritev lseek open openat creat close "
    "close_range dup dup2 dup3 fsync fdatasync sync_file_range truncate ftruncate fallocate sendfile "
    "copy_file_range fadvise64 readahead stat lstat fstat newfstatat statx statfs fstatfs access faccessat "
    "faccessat2 readlink readlinkat getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir rename renameat "
    "renameat2 link linkat symlink symlinkat unlink unlinkat chmod fchmod fchmodat fchmodat2 umask utime utimes "
    "utimensat futimesat getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr"
)
_MEMORY = "munmap mremap mprotect msync brk membarrier get_mempolicy"
_THREADS = "gettid sched_yield sched_get_priority_max sched_get_priority_min getcpu"
_SIGNALS = (
    "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack "
    "restart_syscall pause"
)
_PROCESS = (
    "exit exit_group wait4 waitid getpid getppid getuid geteuid getgid getegid getresuid getresgid getgroups getpgrp "
    "getrlimit getrusage times uname getrandom"
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

PRETENDED: tuple[str, ...] = ("flock", "set_robust_list", "rseq")
"""Calls that return 0 and do nothing. A session is alone in its workspace, and a lock on a file that many sessions can
read would be a word between them. The other two have the kernel write to memory of the caller's choice, a mapped file
perhaps, when a process ends or moves to another processor: between calls, or after one that was undone."""

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

_CHILD_IDS = CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID
_THREAD = all_bits(
    0,
    required=CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD,
    optional=CLONE_SYSVSEM | CLONE_SETTLS | _CHILD_IDS | CLONE_DETACHED,
)

_RWF_NOWAIT = 8
_MAP_SHARED_ANONYMOUS = 0x01 | 0x20


def _values(table: str) -> tuple[int, ...]:
    """Return the numbers in a table of `NAME:number`."""
    return tuple(int(entry.split(":")[1], 0) for entry in table.split())


_PR_SET_PDEATHSIG = 1
_PRCTL = _values(
    "PR_SET_PDEATHSIG:1 PR_GET_PDEATHSIG:2 PR_GET_DUMPABLE:3 PR_SET_NAME:15 PR_GET_NAME:16 PR_GET_SECCOMP:21 "
    "PR_CAPBSET_READ:23 PR_GET_SECUREBITS:27 PR_GET_TIMERSLACK:30 PR_GET_NO_NEW_PRIVS:39 "
    "PR_GET_TID_ADDRESS:40 PR_GET_THP_DISABLE:42 PR_SET_VMA:0x53564D41"
)

_IOCTL = _values("TCGETS:0x5401 TCGETS2:0x802C542A FIONREAD:0x541B FIONBIO:0x5421 FIONCLEX:0x5450 FIOCLEX:0x5451")

# Not here: owners and numbers of signals (F_SETOWN, F_SETSIG, F_NOTIFY), leases, seals, and the size of pipes.
_FCNTL = _values(
    "F_DUPFD:0 F_GETFD:1 F_SETFD:2 F_GETFL:3 F_SETFL:4 F_GETLK:5 F_OFD_GETLK:36 F_DUPFD_QUERY:1027 "
    "F_DUPFD_CLOEXEC:1030 F_GETPIPE_SZ:1032 F_GET_SEALS:1034"
)

# A leaf is a fork of its keeper: what is not inherited whole would be gone at the next call. And memory that is merged
# with that of others tells by its times what theirs holds.
_NOT_INHERITED = _values("MADV_DONTFORK:10 MADV_MERGEABLE:12 MADV_WIPEONFORK:18")

_LOCKS = _values("F_SETLK:6 F_SETLKW:7 F_OFD_SETLK:37 F_OFD_SETLKW:38")

_LAST_CLOCK = 15
"""Clock ids above it, taken as numbers without sign, name the clocks of other processes, or devices."""

_SOL_SOCKET = 1
# Not here: who made the other end (SO_PEERCRED, SO_PEERGROUPS, SO_PEERPIDFD, SO_PEERSEC).
_GETSOCKOPT = _values(
    "SO_TYPE:3 SO_ERROR:4 SO_SNDBUF:7 SO_RCVBUF:8 SO_RCVTIMEO:20 SO_SNDTIMEO:21 SO_ACCEPTCONN:30 "
    "SO_PROTOCOL:38 SO_DOMAIN:39"
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

ARGUMENT_RULES: dict[str, tuple[Block, ...]] = {
    "clone": (fork(FORK_FLAGS, CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID, _THREAD),),
    "futex": (any_of(1, _FUTEX, _FUTEX_CLOCK_REALTIME),),
    **dict.fromkeys(("preadv2", "pwritev2"), (refuse(5, _RWF_NOWAIT),)),
    "madvise": (none_of(2, _NOT_INHERITED),),
    "mmap": (refuse(3, _MAP_SHARED_ANONYMOUS),),
    "prctl": (any_of(0, _PRCTL), only(_PR_SET_PDEATHSIG, SIGKILL)),
    # Reading the caller's own limits.
    "prlimit64": (any_of(0, (0,)), zero(2)),
    "ioctl": (any_of(1, _IOCTL),),
    "fcntl": (none_of(1, _LOCKS, _NOTHING), any_of(1, _FCNTL)),
    "getsockopt": (any_of(1, (_SOL_SOCKET,)), any_of(2, _GETSOCKOPT)),
    **dict.fromkeys(("clock_gettime", "clock_getres", "clock_nanosleep"), (at_most(0, _LAST_CLOCK),)),
    # To stop the caller's own group, as every process does at the end of its call.
    "kill": (zero(0), any_of(1, (SIGSTOP,))),
    # About the caller only, which is named by 0: an answer for another id would tell that it exists.
    **dict.fromkeys(_OF_ANY_PROCESS, (zero(0),)),
    "getpriority": (zero(0), zero(1)),
    # No datagram pair: its sendto reaches any socket by name, whatever it is connected to.
    "socketpair": (any_of(0, (_AF_UNIX,)), any_of(1, (_SOCK_STREAM, _SOCK_SEQPACKET), _SOCK_NONBLOCK | _SOCK_CLOEXEC)),
}
"""Calls allowed if all their rules hold, refused with EPERM if not."""

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_FIRST_UNKNOWN = 463
"""Calls from this number on are newer than this list; ENOSYS lets a newer libc fall back."""
_SECCOMP_SET_MODE_FILTER = 1

SyscallSpan = tuple[int, Block]
"""First number of a run of calls that share one outcome, and the block that decides it."""


def _spans(machine: str) -> list[SyscallSpan]:
    """Return all numbers from 0 on as runs of equal outcome, in ascending order."""
    blocks: dict[int, Block] = {}
    outcomes: list[tuple[Sequence[str], Block]] = [
        (ALLOWED, [_ALLOW]),
        (NOT_IMPLEMENTED, [_ENOSYS]),
        (PRETENDED, [_NOTHING]),
    ]
    outcomes += [((name,), [*itertools.chain(*rules), _ALLOW]) for name, rules in ARGUMENT_RULES.items()]
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


def _tree(spans: Sequence[SyscallSpan]) -> Block:
    """Return a balanced search: the accumulator holds the call's number."""
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
    """Return the filter for a machine, as an array of struct sock_filter (8 bytes each). Raises KeyError."""
    program: Block = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, _AUDIT_ARCH[machine]), _KILL_PROCESS]
    program.append((_LOAD, 0, 0, _NR))
    if machine == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32_BIT), _KILL_PROCESS]
    program += _tree(_spans(machine))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def install(program: bytes) -> None:
    """Put the filter on the calling thread and all that it starts; nothing can take it off again.

    Raises OSError: EACCES without `privileges.no_new_privs`, ENOSYS or EINVAL where there are no seccomp filters.
    """
    buffer = ctypes.create_string_buffer(program, len(program))
    syscall("seccomp", _SECCOMP_SET_MODE_FILTER, 0, _Program(len(program) // 8, ctypes.addressof(buffer)))
