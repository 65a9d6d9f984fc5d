"""Runs a program under a seccomp filter that refuses some system calls, as the engine of a container does.

python engine_profile.py CALL[,CALL] PROGRAM [ARGUMENT...]
"""

import ctypes
import os
import struct
import sys

from saccade.guest.syscalls import number

LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, EPERM = 0x7FFF0000, 0x00050001
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2

calls = [number(name) for name in sys.argv[1].split(",")]
program = [(LOAD, 0, 0, 0)]
for place, call in enumerate(calls):
    program.append((EQUAL, len(calls) - place, 0, call or 0))
program += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, EPERM)]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
head = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", len(program), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, FILTER, ctypes.addressof(head), 0, 0)):
    if libc.prctl(*map(ctypes.c_ulong, arguments)) != 0:
        raise OSError(ctypes.get_errno(), f"prctl{arguments[:2]}")
os.execv(sys.argv[2], sys.argv[2:])
