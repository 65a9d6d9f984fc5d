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

from .syscall_rules import (
    ALLOWED,
    ARGUMENT_RULES,
    NOT_IMPLEMENTED,
    PRETENDED,
    AllBits,
    AnyOf,
    AtMost,
    Fork,
    Only,
    Pretend,
    Refuse,
    SyscallRule,
    Zero,
)
from .syscalls import number, syscall

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
