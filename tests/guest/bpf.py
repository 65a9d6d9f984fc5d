"""A small interpreter of classic BPF as seccomp runs it, to ask a filter about any call without making it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def decide(program: bytes, arch: int, nr: int, args: Sequence[int] = ()) -> int:
    """The action that the filter returns for one call."""
    words = [arg & (2**64 - 1) for arg in (*args, 0, 0, 0, 0, 0, 0)[:6]]
    data = struct.pack("<IIQ6Q", nr, arch, 0, *words)
    code = list(struct.iter_unpack("<HBBI", program))
    accumulator, at = 0, 0
    while True:
        operation, on_true, on_false, constant = code[at]
        at += 1
        if operation == 0x20:
            assert constant % 4 == 0
            (accumulator,) = struct.unpack_from("<I", data, constant)
        elif operation == 0x05:
            at += constant
        elif operation in (0x15, 0x35, 0x45):
            holds = {
                0x15: accumulator == constant,
                0x35: accumulator >= constant,
                0x45: bool(accumulator & constant),
            }[operation]
            at += on_true if holds else on_false
        elif operation == 0x54:
            accumulator &= constant
        elif operation == 0x06:
            return int(constant)
        else:
            raise AssertionError(f"unknown instruction {operation:#x}")
