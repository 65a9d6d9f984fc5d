"""A session inside the jail: a keeper that holds the state, and a leaf, forked from it, that runs the next call.

The leaf is forked before the call arrives. It reads one call from the socket, runs it and reports. Then the zygote
either makes it the new keeper (the old one is killed), or kills it and tells the keeper, whose state is unchanged, to
fork another. This file never decides what counts as success: a program that tampers with it spoils its own session.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import contextlib
import ctypes
import errno
import json
import mmap
import os
import signal
import socket
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

from . import descriptors, images, outbox, wire
from .cell import Interpreter, Mapped, run_cell
from .compact import give_back_memory
from .folders import open_anyhow
from .fork import ALL_SIGNALS, CLONE_PARENT, Forker
from .outbox import Outbox
from .preload import preload
from .privileges import die_with_parent
from .shown import ShownPictures, use
from .syscalls import syscall
from .wire import GuestConfig
from .workspace import Workspace, WorkspaceTooLarge

_READ, _WRITE, _EXECUTE = 1, 2, 4
_CHUNK, _PIECE = 64 * 1024, 1 << 20
"""Bytes that a pipe takes at least a part of, and that are copied at a time."""
_SHARED, _PRIVATE, _FIXED, _ANONYMOUS = 0x01, 0x02, 0x10, 0x20


def remap(maps: Sequence[Mapped]) -> None:
    """Replace shared mappings of files of the workspace by such of the files that have their names now.

    A mapping outlives the fork and shows the file that it was made of: in a branch that of the origin, and after a
    failed call one that was removed and brought back as another, or by a name that is none any more.
    """
    for start, end, mode, offset, path in maps:
        fd = open_anyhow(wire.WORKSPACE_FD, path, os.O_NOFOLLOW | (os.O_RDWR if "w" in mode else os.O_RDONLY))
        try:
            syscall("mmap", start, end - start, _protection(mode), _SHARED | _FIXED, fd, offset)
        finally:
            os.close(fd)


def _protection(mode: str) -> int:
    return sum(bit for letter, bit in (("r", _READ), ("w", _WRITE), ("x", _EXECUTE)) if letter in mode)


def make_own(maps: Sequence[Mapped]) -> None:
    """Replace private mappings of files by memory of the same bytes.

    A call that cuts the file off, and fails, would take away what was changed in them.
    """
    ends = read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        for start, end, mode, _offset, _path in maps:
            syscall("mprotect", start, end - start, _READ | _protection(mode))
            for at in range(start, end, _PIECE):
                length = min(_PIECE, end - at)
                data = _read_memory(read, write, at, length)
                syscall("mmap", at, length, _READ | _WRITE, _PRIVATE | _FIXED | _ANONYMOUS, -1, 0)
                if data.strip(b"\0"):
                    ctypes.memmove(at, data, length)
            syscall("mprotect", start, end - start, _protection(mode))
    finally:
        for fd in ends:
            os.close(fd)


def _read_memory(read: int, write: int, start: int, length: int) -> bytes:
    """Return what is in memory, by way of a pipe; zeros where a file has no page for it."""
    memory, data = memoryview((ctypes.c_char * length).from_address(start)), bytearray()
    while len(data) < length:
        try:
            data += os.read(read, os.write(write, memory[len(data) : len(data) + _CHUNK]))
        except OSError as error:
            if error.errno != errno.EFAULT:
                raise
            data += bytes(mmap.PAGESIZE - len(data) % mmap.PAGESIZE)
    return bytes(data)


# The C functions behind `signal`, which makes enums of every number and so writes to pages that sessions share.

FORK_A_LEAF, LEARN_MAPS = int(signal.SIGUSR1), int(signal.SIGUSR2)
"""What the zygote sends to a keeper; sent by nobody else, since `kill` is denied in the jail. After the second one it
reads from the host what it has mapped, which no process of the jail can look up."""

_kill = os.kill
_REHEARSAL = "(lambda these: [f'{this}' for this in these])(())\nNone"
"""Compiled and run as a cell is, it neither binds nor looks up a name."""


def new_interpreter(config: GuestConfig, forker: Forker) -> Interpreter:
    """Return a fresh `__main__` with the preloaded names, over the session's well-known descriptors."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    preload(module.__dict__, config.preload)
    workspace = Workspace(wire.WORKSPACE_FD, config.workspace_bytes, config.workspace_files)
    results = Outbox(wire.OUTBOX_FD, config)
    shown = ShownPictures(config, results)
    use(shown)
    return Interpreter(module, config, socket.socket(fileno=wire.SOCKET_FD), results, workspace, shown, forker)


def keep(state: Interpreter) -> None:
    """Hold the state: fork a leaf whenever the zygote says so. Never returns."""
    _signal.pthread_sigmask(_signal.SIG_BLOCK, ALL_SIGNALS)
    undo = called = False
    zygote = os.getppid()
    while True:
        order = _signal.sigwait((FORK_A_LEAF, LEARN_MAPS))
        if order == LEARN_MAPS:
            with or_end(state, "what it has mapped of files could not be kept"):
                learn_maps(state)
        if called:
            give_back_memory()
            called = False
        if undo:
            undo_traces(state)
        if state.forker.fork(CLONE_PARENT) == 0:
            die_with_parent(zygote)
            lead(state)
            undo, called = False, True
        else:
            undo = True


def learn_maps(state: Interpreter) -> None:
    """Hear from the host what the call that is kept has left mapped of files of the workspace."""
    os.set_blocking(wire.SOCKET_FD, True)
    while (request := wire.receive(state.sock)) is not None:
        message, fds = request
        for fd in fds:
            os.close(fd)
        if message["op"] == "maps" and message["to"] == os.getpid():
            break
    else:
        os._exit(0)
    shared, private = list[Mapped](), list[Mapped]()
    for each in message["maps"]:
        (shared if each[2].endswith("s") else private).append(each)
    state.maps = shared
    if private:
        make_own(private)
        state.workspace.restore()  # to look at a hole fills it


def undo_traces(state: Interpreter) -> None:
    """Undo what a discarded call has left outside its memory: files, and what is open."""
    with or_end(state, "what the last code did could not be undone"):
        drain(state.sock)
        descriptors.give_back_room(state.standing)
        rebuilt = state.workspace.restore()
        if rebuilt:
            remap(state.maps)
        if descriptors.put_back(state.standing) or rebuilt:
            state.workspace.take_note()


def drain(sock: socket.socket) -> None:
    """Pass over what the host has sent to a leaf that died without reading it: this one may have got its number."""
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while (unread := wire.receive(sock)) is not None:
            for fd in unread[1]:
                os.close(fd)


@contextlib.contextmanager
def or_end(state: Interpreter, what: str) -> Iterator[None]:
    """Tell the host why and end this process, if the block raises."""
    try:
        yield
    except BaseException as error:
        wire.send(state.sock, {"op": "failed", "error": f"{what}: {error!r}"[:500]})
        os._exit(1)


def lead(state: Interpreter) -> None:
    """Serve requests as the leaf until one call was run; return as the keeper that this process may become."""
    # Whether the socket blocks is no memory: a program may have changed it for all processes of the session.
    os.set_blocking(wire.SOCKET_FD, True)
    # By that the zygote knows it. Stops the keeper, too, which is of the same group.
    _kill(0, signal.SIGSTOP)
    while True:
        request = wire.receive(state.sock)
        if request is None:
            os._exit(0)
        message, fds = request
        if message["to"] != os.getpid():
            # For a leaf before this one, which died without reading it.
            for fd in fds:
                os.close(fd)
        elif message["op"] == "bind":
            if images.bind(state.module.__dict__, message["specs"], fds, state.sock, state.config.workspace):
                # Files that were given are there from the start: no call has written them.
                state.workspace.commit()
        elif message["op"] == "run":
            call(state, message)
            return
        elif message["op"] == "rehearse":
            rehearse(state)
        elif message["op"] == "branch":
            with or_end(state, "its files could not be made anew"):
                become_branch(state, fds)
            return


def rehearse(state: Interpreter) -> None:
    """Run an empty cell, for the memory that the next call will write: a fork copies each page at its first write.

    With it a call after a pause takes a third of the time. Nothing that a program can see changes.
    """
    report = run_cell(state, _REHEARSAL, 0)
    state.outbox.stdout.write("")
    descriptors.standing(descriptors.program_fds(state.standing.files))
    outbox.encode(report)
    json.loads(b'{"op":"run","call":0,"code":""}')


def call(state: Interpreter, message: dict[str, Any]) -> None:
    """Run one cell and report it."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    report = run_cell(state, message["code"], message["call"])
    _signal.pthread_sigmask(_signal.SIG_BLOCK, ALL_SIGNALS)
    try:
        kept = put_away(state, report, message["keep"])
    except BaseException as error:  # a program may have left anything, and its author must hear of it
        refuse(report, f"what the code left could not be kept: {error!r}")
        kept = False
    length = state.outbox.write_report(report)
    state.sock.send(b'{"op":"result","call":%d,"length":%d}' % (message["call"], length))
    if kept:
        # The zygote is told so by the kernel, and looks at this process while the host reads the report.
        with contextlib.suppress(OSError):
            _kill(0, signal.SIGSTOP)


def put_away(state: Interpreter, report: dict[str, Any], keep_errors: bool) -> bool:
    """Record what the call leaves outside its memory, if it may be kept; whether it may. Adds to its report."""
    fds = descriptors.program_fds(state.standing.files)
    report["notes"] += descriptors.close_what_cannot_be_kept(fds)
    if report["status"] != "ok" and not (keep_errors and report["status"] == "error"):
        return False
    try:
        state.workspace.commit(compared=True)
    except WorkspaceTooLarge as error:
        refuse(report, str(error))
    state.standing = descriptors.standing(fds)
    return True


def refuse(report: dict[str, Any], why: str) -> None:
    """Record that the call cannot be kept."""
    said = report["traceback"]
    report.update(status="refused", traceback=why if said is None else f"{said}\n\nBesides, {why}")


def become_branch(state: Interpreter, fds: list[int]) -> None:
    """Become the keeper of a new session, with copies of the files of the old one, and wait to be adopted.

    `fds`: socket, outbox, workspace, stdout, stderr of the new session, which no process of the old one has seen.
    """
    targets = (wire.SOCKET_FD, wire.OUTBOX_FD, wire.WORKSPACE_FD, wire.STDOUT_FD, wire.STDERR_FD)
    for source, target in zip(fds, targets, strict=True):
        os.dup2(source, target, inheritable=False)
        os.close(source)
    descriptors.put(wire.STDOUT_FD, 1)
    descriptors.put(wire.STDERR_FD, 2)
    state.workspace.switch(wire.WORKSPACE_FD)
    descriptors.take_along(state.standing)
    remap(state.maps)
    state.workspace.take_note()
    descriptors.stand_in(state.standing.folder)
    state.outbox.reset()
    forget_fonts()
    wire.send(state.sock, {"op": "adopt"})


def forget_fonts() -> None:
    """Drop matplotlib's open font files: processes that run side by side must not share a file position."""
    from matplotlib import font_manager, mathtext

    for cached in (font_manager._get_font, mathtext.MathTextParser._parse_cached):  # type: ignore[attr-defined]
        cached.cache_clear()
