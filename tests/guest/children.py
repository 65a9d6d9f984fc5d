"""Running a function in a forked child, with or without namespaces of its own, and bringing its answer back."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from saccade.guest import groups, inspection, privileges, wire
from saccade.guest.syscalls import syscall

NOBODY = 65534
_NAMESPACES = 0x10000000 | 0x20000 | 0x20000000 | 0x40000000 | 0x8000000 | 0x4000000


def fork() -> int:
    """`os.fork` without the warning that the test process has threads."""
    with warnings.catch_warnings():
        # A test process may have threads; the children here call no library that cares.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def answer_pipe() -> tuple[int, int]:
    """`os.pipe` whose writing end has a number that no session takes for something of its own."""
    read_end, low = os.pipe()
    write_end = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, wire.FIRST_FREE_FD)
    os.close(low)
    return read_end, write_end


def unmap_what_is_shared() -> None:
    """In a child: the memory that the test process shares with others is no doing of the child."""
    for found in inspection.shared_maps(os.getpid()):
        syscall("munmap", found.start, found.end - found.start)


def waiting_child() -> Iterator[int]:
    """For a fixture: a child that does nothing, and is killed at the end."""
    pid = fork()
    if pid == 0:
        while True:
            signal.pause()
    yield pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    groups.forget(pid)


def until(true: Callable[[], bool]) -> None:
    """Wait for something that is about to happen."""
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def in_child(function: Callable[[], Any], *, user: int | None = None) -> Any:
    """What `function` returns (as JSON) in a child; an exception there, or its death, fails the test.

    With `user` the child first becomes that user, if the tests run as root.
    """
    read_end, write_end = answer_pipe()
    pid = fork()
    if pid == 0:
        os.close(read_end)
        _answer(write_end, lambda: _as_user(user, function))
    os.close(write_end)
    return _collect(read_end, pid)


def _as_user(user: int | None, function: Callable[[], Any]) -> Any:
    if user is not None and os.geteuid() == 0:
        privileges.become_user(user, user)
        # /proc/self belongs to the user again, as it does in a program that the user has started.
        privileges.set_dumpable(1)
    return function()


def _answer(write_end: int, function: Callable[[], Any]) -> None:
    try:
        body = {"value": function()}
    except BaseException:
        body = {"failed": traceback.format_exc()}
    try:
        os.write(write_end, json.dumps(body).encode())
    finally:
        os._exit(0)


def _collect(read_end: int, pid: int) -> Any:
    with os.fdopen(read_end, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert text, f"the child died with {os.waitstatus_to_exitcode(status)}"
    body = json.loads(text)
    assert "failed" not in body, body["failed"]
    return body["value"]


def in_namespaces(function: Callable[[], Any], *, user: int | None = None) -> Any:
    """`in_child`, as the first process of new namespaces with our id mapped to 0 (and, for root, ids from 1 on).

    Skips the test where the machine gives no namespaces.
    """

    def unshared() -> Any:
        ready_read, ready_write = os.pipe()
        mapped_read, mapped_write = os.pipe()
        uid, gid = os.geteuid(), os.getegid()
        pid = fork()
        if pid == 0:
            try:
                syscall("unshare", _NAMESPACES)
            except OSError as error:
                os.write(ready_write, str(error).encode())
                os._exit(0)
            os.write(ready_write, b"ok")
            os.read(mapped_read, 1)
            _answer_as_first(answer_write, function)
        said = os.read(ready_read, 1000).decode()
        if said == "ok":
            more = "\n1 100000 1000" if uid == 0 else ""
            if uid != 0:
                _write(f"/proc/{pid}/setgroups", "deny")
            _write(f"/proc/{pid}/uid_map", f"0 {uid} 1{more}")
            _write(f"/proc/{pid}/gid_map", f"0 {gid} 1{more}")
            os.write(mapped_write, b"m")
        os.waitpid(pid, 0)
        return said

    answer_read, answer_write = answer_pipe()
    said = in_child(unshared, user=user)
    os.close(answer_write)
    with os.fdopen(answer_read, "rb") as pipe:
        text = pipe.read()
    if said != "ok":
        pytest.skip(f"no namespaces on this machine: {said}")
    body = json.loads(text or b'{"failed": "the child died"}')
    assert "failed" not in body, body["failed"]
    return body["value"]


def _answer_as_first(answer_write: int, function: Callable[[], Any]) -> None:
    pid = fork()
    if pid == 0:
        _answer(answer_write, function)
    os.waitpid(pid, 0)
    os._exit(0)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, text.encode())
    os.close(fd)


def open_to_all(folder: Path) -> None:
    """Let every user pass through to a temporary folder of a test."""
    for place in (folder, *folder.parents):
        if place != Path(tempfile.gettempdir()) and place.is_relative_to(tempfile.gettempdir()):
            place.chmod(0o755)


def outcome(function: Callable[[], Any]) -> str:
    """ "ok", or the name of the errno of the OSError that `function` raised."""
    import errno

    try:
        function()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "ok"
