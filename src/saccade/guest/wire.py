"""What host and guest must agree on: frames over a socket, and the places in shared memory.

A frame is one JSON object per SOCK_SEQPACKET message, with file descriptors.

A message that would not fit into one packet travels as a sealed memfd, whose descriptor then is the first of the
frame. Only the host makes such messages. The functions here trust the other side; what the host reads from a session
is checked in `saccade.sandbox.channel` instead.
"""

from __future__ import annotations

import array
import errno
import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_FRAME = 48 * 1024
"""Bytes of one packet; safely below the smallest default socket buffer."""
MAX_FDS = 200
"""Most descriptors of one packet (the kernel allows 253)."""

SEAL_ATTEMPTS = 5
"""Copies made of what is to be sealed before giving up; the kernel waits 0.15 s for its own work at each."""

WORKSPACE_FD = 100
SOCKET_FD = 101
OUTBOX_FD = 102
STDOUT_FD = 103
STDERR_FD = 104
FIRST_FREE_FD = 105
"""Descriptor numbers of a session; everything between 3 and 99 belongs to the program."""

FAMILY_SESSIONS = 256
"""Most sessions of one origin where there are no control groups: the kernel counts their processes together."""

_BY_THEIR_NAME = "base64 collections cv2 decord io itertools json math matplotlib numpy os random re string sys"
PRELOAD: dict[str, str] = {
    **{name: name for name in (*_BY_THEIR_NAME.split(), "uuid", "PIL")},
    **{name: f"PIL.{name}" for name in ("Image", "ImageDraw", "ImageEnhance", "ImageFilter", "ImageOps")},
    **{"VideoReader": "decord:VideoReader", "cpu": "decord:cpu", "np": "numpy", "plt": "matplotlib.pyplot"},
}
"""Name in a session -> the module that it stands for, or `module:name in it`. `decord` is `guest.video`."""

WireMessage = dict[str, Any]
_encode = json.JSONEncoder(separators=(",", ":")).encode


def sealed_memfd(name: str, *parts: bytes | memoryview) -> int:
    """Return a read-only memfd that holds `parts`; the caller owns the descriptor. Raises OSError."""
    return sealed_pieces(name, lambda: parts)


def sealed_pieces(name: str, parts: Callable[[], Iterable[bytes | memoryview]]) -> int:
    """Return a memfd like `sealed_memfd`, made from pieces that are never all there at the same time."""
    for _ in range(SEAL_ATTEMPTS - 1):
        try:
            return _write_and_seal(name, parts())
        except OSError as error:
            # The kernel refuses while it works on the pages itself (it moves them when memory is short).
            if error.errno != errno.EBUSY:
                raise
    return _write_and_seal(name, parts())


def _write_and_seal(name: str, parts: Iterable[bytes | memoryview]) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[os.write(fd, view) :]
        fcntl.fcntl(
            fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        )
    except BaseException:
        os.close(fd)
        raise
    return fd


def send(sock: socket.socket, message: WireMessage, fds: Sequence[int] = ()) -> None:
    """Send one message; blocking, if the socket does."""
    body, all_fds, big = _encode(message).encode("utf-8", "surrogatepass"), list(fds), None
    if len(body) > MAX_FRAME:
        big = sealed_memfd("saccade-message", body)
        body, all_fds = b'{"memfd":true}', [big, *fds]
    try:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", all_fds))] if all_fds else []
        sock.sendmsg([body], ancillary, getattr(socket, "MSG_NOSIGNAL", 0))
    finally:
        if big is not None:
            os.close(big)


def receive(sock: socket.socket) -> tuple[WireMessage, list[int]] | None:
    """Return the next message and its descriptors (the caller's own), blocking; None when the other side has closed."""
    ints = array.array("i")
    body, ancillary, _flags, _address = sock.recvmsg(
        MAX_FRAME + 1, socket.CMSG_SPACE((MAX_FDS + 1) * ints.itemsize), socket.MSG_CMSG_CLOEXEC
    )
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            ints.frombytes(data[: len(data) - len(data) % ints.itemsize])
    fds = list(ints)
    if not body:
        return None
    message: WireMessage = json.loads(body)
    if message.get("memfd") is True:
        big = fds.pop(0)
        with os.fdopen(big, "rb") as file:
            file.seek(0)
            message = json.loads(file.read().decode("utf-8", "surrogatepass"))
    return message, fds


MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class GuestConfig:
    """What the code that runs a cell must know; sizes in bytes, areas in pixels."""

    output_bytes: int = MIB
    """Most bytes kept of stdout, and again of stderr."""
    pictures: int = 16
    """Most pictures of one call."""
    picture_pixels: int = 12_800_000
    """Most pixels of one picture; a larger one is scaled down."""
    total_pixels: int = 64_000_000
    """Most pixels of all pictures of one call together."""
    file_bytes: int = 64 * MIB
    """Largest file of the workspace."""
    workspace_bytes: int = 128 * MIB
    """Most bytes of all files of the workspace together."""
    workspace_files: int = 2048
    """Most files and folders in the workspace."""
    repairs: tuple[str, ...] = ()
    """Names of the repair passes that are on, see `guest.repairs`."""
    path_aliases: dict[str, str] = field(default_factory=dict)
    """Path or prefix that the program may write -> the path that is meant."""
    preload: tuple[str, ...] = ()
    """Names that are bound from the start, see `guest.preload`."""
    last_expression: bool = True
    """Whether the value of a last expression is reported."""
    workspace: str = "/workspace"
    """Absolute path of the workspace as the program sees it; may be a symlink."""


RAW_MODES = {"L": "L", "RGB": "RGBX", "RGBA": "RGBA"}
"""How pixels of each mode are stored in shared memory; Pillow keeps RGB in four bytes a pixel, so that is mapped."""

REPORT_BYTES = 1 << 20
COUNTS_OFFSET = REPORT_BYTES - 64
REPORT_ROOM = 1 << 18
"""The host checks a report of this size in some milliseconds, whatever is in it."""

DATA_BYTES = 4 << 20
"""Largest array that is given to the host as the value of a call."""
ARRAY_TYPES = frozenset(
    ["|b1", "|i1", "|u1", "<i2", "<i4", "<i8", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16"]
)
"""Types of their numbers, as numpy spells them."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The places in the shared memory of a call's results: where each part starts, and the `size`, in bytes."""

    report: int
    stdout: int
    stderr: int
    pictures: int
    size: int


def layout(output_bytes: int, total_pixels: int) -> Layout:
    """Return the places of an outbox for these limits."""
    stdout = REPORT_BYTES
    stderr = stdout + output_bytes
    pictures = stderr + output_bytes
    return Layout(report=0, stdout=stdout, stderr=stderr, pictures=pictures, size=pictures + 4 * total_pixels)
