"""A session inside the jail: a keeper that holds the state, and a leaf, forked from it, that runs the next call.

The leaf is forked before the call arrives. It reads one call from the socket, runs it and reports. Then one of two
things happens, and neither is its own choice: the zygote makes it the new keeper (the old one is killed), or kills it
(and tells the keeper, which stands exactly where it stood, to fork another). So this file never decides what counts as
success; a program that tampers with it can spoil its own session and nothing else.
"""

from __future__ import annotations

# The C functions behind `signal`, which makes enums of every number and so writes to pages that sessions share.
import _signal  # type: ignore[import-not-found]
import contextlib
import json
import os
import signal
import socket
import sys
import types
from dataclasses import dataclass, field
from typing import Any

from . import descriptors, images, outbox, wire
from .adapted import adapt_packages
from .cell import run_cell
from .compact import give_back_memory
from .config import GuestConfig
from .descriptors import OpenState
from .fork import CLONE_PARENT, Forker
from .outbox import Outbox
from .preload import draw_unseen, preload
from .privileges import die_with_parent
from .remap import remap
from .shown import ShownPictures, use
from .threaded import hide_threaded
from .workspace import Workspace, WorkspaceTooLarge

ALL_SIGNALS = frozenset(int(number) for number in signal.valid_signals())
FORK_A_LEAF = (int(signal.SIGUSR1),)
"""What the zygote sends to a keeper; sent by nobody else, since `kill` is denied in the jail."""

_kill = os.kill
_REHEARSAL = "(lambda these: [f'{this}' for this in these])(())\nNone"
"""Compiled and run as a cell is, it neither binds nor looks up a name."""


@dataclass
class Interpreter:
    """All that a session's processes need; copied to each by `fork`."""

    module: types.ModuleType
    config: GuestConfig
    sock: socket.socket
    outbox: Outbox
    workspace: Workspace
    shown: ShownPictures
    forker: Forker
    standing: OpenState = field(default_factory=lambda: descriptors.standing([]))
    """What was open when the last kept call ended."""


def new_interpreter(config: GuestConfig, forker: Forker) -> Interpreter:
    """A fresh `__main__` with the preloaded names, over the session's well-known descriptors."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    hide_threaded()
    adapt_packages()
    preload(module.__dict__, config.preload)
    workspace = Workspace(wire.WORKSPACE_FD, config.workspace_bytes, config.workspace_files)
    results = Outbox(wire.OUTBOX_FD, config)
    shown = ShownPictures(config, results)
    use(shown)
    return Interpreter(
        module=module,
        config=config,
        sock=socket.socket(fileno=wire.SOCKET_FD),
        outbox=results,
        workspace=workspace,
        shown=shown,
        forker=forker,
    )


def keep(state: Interpreter) -> None:
    """Hold the state: fork a leaf whenever the zygote says so. Never returns."""
    _signal.pthread_sigmask(_signal.SIG_BLOCK, ALL_SIGNALS)
    undo = called = False
    zygote = os.getppid()
    while True:
        _signal.sigwait(FORK_A_LEAF)
        if called:
            give_back_memory()
            called = False
        if state.forker.fork(CLONE_PARENT) == 0:
            die_with_parent(zygote)
            if undo:
                undo_traces(state)
            lead(state)
            undo, called = False, True
        else:
            undo = True


def undo_traces(state: Interpreter) -> None:
    """Undo what a call that was thrown away has left outside its memory: files, and what is open."""
    state.workspace.restore()
    if descriptors.put_back(state.standing):
        state.workspace.take_note()


def lead(state: Interpreter) -> None:
    """Be the leaf: serve requests until one call was run; return as the keeper that this process may become."""
    # Whether the socket blocks is no memory: a program may have changed it for all processes of the session.
    os.set_blocking(wire.SOCKET_FD, True)
    # Not by way of `wire.send`: every function called here writes to pages that idle sessions would share.
    state.sock.send(b'{"op":"ready","pid":%d}' % os.getpid())
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
            rehearse(state, figure=message["figure"], error=message["error"])
        elif message["op"] == "remap":
            remap(message["maps"])
            state.workspace.take_note()
        elif message["op"] == "branch":
            become_branch(state, fds, message["maps"])
            return


def rehearse(state: Interpreter, *, figure: bool, error: bool) -> None:
    """Run a cell that does nothing while nobody waits, and with `figure` draw a small one, which nobody sees, and with
    `error` run one that fails.

    A fresh fork copies every page at the first write; a short call would have to wait for that, a drawing even more.
    """
    report = run_cell(state, _REHEARSAL, 0)
    state.outbox.stdout.write("")
    if error:
        report = run_cell(state, "0 / 0", 0)
    descriptors.standing(descriptors.program_fds(state.standing.files), state.standing)
    outbox.encode(report)
    json.loads(b'{"op":"run","call":0,"code":""}')
    if figure:
        # A program may have set options that cannot be drawn with; its own call will tell it.
        with contextlib.suppress(Exception):
            draw_unseen()


def call(state: Interpreter, message: dict[str, Any]) -> None:
    """Run one cell and report it."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    report = run_cell(state, message["code"], message["call"])
    _signal.pthread_sigmask(_signal.SIG_BLOCK, ALL_SIGNALS)
    fds = descriptors.program_fds(state.standing.files)
    report["notes"] += descriptors.close_what_cannot_be_kept(fds)
    kept = report["status"] == "ok" or (message["keep"] and report["status"] == "error")
    if kept:
        try:
            state.workspace.commit(compared=True)
        except WorkspaceTooLarge as error:
            report.update(status="refused", traceback=str(error))
        state.standing = descriptors.standing(fds, state.standing)
    length = state.outbox.write_report(report)
    state.sock.send(b'{"op":"result","call":%d,"length":%d}' % (message["call"], length))
    if kept:
        # The zygote is told so by the kernel, and looks at this process while the host reads the report.
        with contextlib.suppress(OSError):
            _kill(0, signal.SIGSTOP)


def become_branch(state: Interpreter, fds: list[int], maps: list[list[Any]]) -> None:
    """Become the keeper of a new session, with copies of the files of the old one, and wait to be adopted.

    `fds`: socket, outbox, workspace, stdout, stderr of the new session, which no process of the old one has seen.
    """
    sock, memory, workspace, stdout, stderr = fds
    for source, target in (
        (sock, wire.SOCKET_FD),
        (memory, wire.OUTBOX_FD),
        (workspace, wire.WORKSPACE_FD),
        (stdout, wire.STDOUT_FD),
        (stderr, wire.STDERR_FD),
    ):
        os.dup2(source, target, inheritable=False)
        os.close(source)
    os.dup2(wire.STDOUT_FD, 1)
    os.dup2(wire.STDERR_FD, 2)
    state.workspace.switch(wire.WORKSPACE_FD)
    descriptors.take_along(state.standing)
    remap(maps)
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
