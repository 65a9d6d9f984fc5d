"""What the zygote does before its first session: imports, a root, a rehearsal, and what it tells the host."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.guest.children import NOBODY, fork, in_child, open_to_all

from saccade.guest import groups, nursery, wire
from saccade.guest.fork import Forker
from saccade.guest.jail import JailPlan
from saccade.guest.root import Standing

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
WITH_USERS = Standing((), 7000, 9, {})


@as_root
def test_whether_a_user_may_read(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    for name, mode in (("open", 0o755), ("closed", 0o700)):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name).chmod(mode)
    free, shut = str(tmp_path / "open" / "inner"), str(tmp_path / "closed" / "inner")

    def ask() -> list[Any]:
        asked = ([], [free], [free, shut], [shut, free])
        return [*(nursery._readable_for(NOBODY, paths, Forker()) for paths in asked), groups.children()]

    assert in_child(ask) == [True, True, False, False, []]
    assert in_child(lambda: nursery._readable_for(7, [free], Forker()), user=NOBODY) is False, "nobody can ask for 7"


@pytest.mark.parametrize(
    ("users", "left_out", "user", "sees"),
    [
        ("none", {}, None, True),
        ("none", {}, NOBODY, True),
        pytest.param("none", {"landlock": "old"}, NOBODY, False, marks=as_root),
        pytest.param("namespace", {}, NOBODY, False, marks=as_root),
        pytest.param("range", {}, None, True, marks=as_root),
        ("none", {"inspection": "left out on purpose"}, None, False),
    ],
)
def test_whether_the_zygote_sees_what_sessions_hold(
    users: str, left_out: dict[str, str], user: int | None, sees: bool
) -> None:
    """Root sees everybody; others only those of their own user that let themselves be seen."""
    plan = JailPlan(users, {}, (), b"", left_out)

    def look() -> list[Any]:
        before = len(os.listdir("/proc/self/fd"))
        saw, why = nursery._sight(plan, WITH_USERS, Forker())
        return [saw, why, groups.children(), len(os.listdir("/proc/self/fd")) - before]

    saw, why, left, opened = in_child(look, user=user)
    assert (saw, left, opened) == (sees, [], 0)
    blind = "this process may not look at its own processes without a user namespace or Landlock"
    assert why == ("" if sees else left_out.get("inspection", blind))


PLAN = JailPlan("none", {}, (), b"")
SETUP = {"uid": 7, "family": "/f", "config": {"pictures": 3, "preload": ["math"]}}


def given(folder: Path) -> tuple[list[int], socket.socket]:
    """Descriptors as `become_session` gets them, and the host's end of the socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    setup = os.memfd_create("setup")
    os.write(setup, json.dumps(SETUP).encode())
    memory = [os.memfd_create(name) for name in ("outbox", "stdout", "stderr")]
    low = [theirs.detach(), *memory, os.open(folder, os.O_RDONLY), setup]
    # A template's numbers are never those of a session; here others may have left theirs just below.
    fds = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10 * wire.FIRST_FREE_FD) for fd in low]
    for fd in low:
        os.close(fd)
    return fds, ours


@pytest.mark.parametrize("listens", [True, False])
def test_one_that_cannot_be_had_says_why_and_ends(listens: bool, tmp_path: Path) -> None:
    fds, ours = given(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError("x" * 1000)

    pid = fork()
    if pid == 0:
        try:
            nursery.enter = refuse
            if not listens:
                ours.shutdown(socket.SHUT_RDWR)
            nursery.become_session(PLAN, Forker(), "/workspace", os.getppid(), fds)
        finally:
            os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    for fd in fds:
        os.close(fd)
    said = ours.recv(9999)
    ours.close()
    if listens:
        assert json.loads(said) == {"op": "failed", "error": ("OSError('" + "x" * 1000)[:500]}
