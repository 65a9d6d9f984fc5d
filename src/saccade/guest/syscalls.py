"""Raw Linux system calls through libc, by name, on x86_64 and aarch64.

For calls that Python's standard library does not offer. Does not promise that a call exists on the running kernel:
an unknown one raises OSError with ENOSYS.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from functools import lru_cache

from .syscall_table import NUMBERS

MACHINES = ("x86_64", "aarch64")
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}

Argument = int | bytes | ctypes.Array[ctypes.c_char] | ctypes.Structure | None
"""What a call takes: a number, bytes (as a pointer to them, NUL-terminated), a buffer or structure (as a pointer)."""


@lru_cache(maxsize=1)
def machine() -> str:
    """The architecture of this process: "x86_64" or "aarch64".

    Raises OSError (ENOSYS) on any other, and in a 32-bit process.
    """
    name = platform.machine().lower()
    name = _ALIASES.get(name, name)
    if name not in MACHINES or ctypes.sizeof(ctypes.c_void_p) != 8:
        raise OSError(errno.ENOSYS, f"system calls are known for 64-bit {' and '.join(MACHINES)} only, not {name}")
    return name


def number(name: str, machine_name: str | None = None) -> int | None:
    """The number of a call on a machine (this one by default); None where that machine has no such call.

    Raises KeyError if the name is not in the table.
    """
    return NUMBERS[name][MACHINES.index(machine_name or machine())]


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def _word(argument: Argument) -> object:
    """One argument as a full machine word: a plain int would be passed by ctypes as 32 bits."""
    if argument is None:
        return ctypes.c_long(0)
    if isinstance(argument, int):
        return ctypes.c_long(argument)
    if isinstance(argument, bytes):
        return ctypes.c_char_p(argument)
    return ctypes.byref(argument)


def syscall(call: str | int, *arguments: Argument) -> int:
    """Make a system call, named or by number, with up to six arguments; returns its result (0 or more).

    Raises OSError with the call's errno; ENOSYS if this machine has no call of that name.
    """
    nr = number(call) if isinstance(call, str) else call
    if nr is None:
        raise OSError(errno.ENOSYS, f"no system call {call} on {machine()}")
    result = int(_libc().syscall(ctypes.c_long(nr), *(_word(argument) for argument in arguments)))
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"system call {call}: {os.strerror(code)}")
    return result
