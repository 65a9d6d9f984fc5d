"""What the zygote does before its first session: imports, a root, a rehearsal, and what it tells the host."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.guest.children import NOBODY, fork, in_child, open_to_all

from saccade.guest import groups, nursery, wire
from saccade.guest.fork import Forker
from saccade.guest.jail import JailPlan
from saccade.guest.nursery import Nursery
from saccade.guest.root import Standing
from saccade.guest.workspaces import PlainWorkspaces

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
LIMITS = {
    **{"output_bytes": 1, "pictures": 2, "picture_pixels": 3, "total_pixels": 4, "file_bytes": 5 << 20},
    **{"workspace_bytes": 6 << 20, "workspace_files": 7},
    **{"cpu_seconds": 8, "memory_bytes": 1 << 33, "open_files": 256, "processes": 9},
}
ALONE = Standing((), 0, 0, {})
WITH_USERS = Standing((), 7000, 9, {})
ROOTED = Standing(("mount_namespace",), 7000, 9, {})
LEFT_OUT = ["inspection", "seccomp"]
Look = Callable[[Nursery, dict[str, Any], Any], Any]


def prepared(folder: Path, standing: Standing, look: Look, **replaced: Any) -> list[Any]:
    """What `look` says, in a process of its own, of what `prepare` gives there, and the steps that cost time."""
    (folder / "package" / "guest").mkdir(parents=True)
    (folder / "workspaces").mkdir()
    settings = {
        **{"modules": ["one", "two"], "without": LEFT_OUT, "limits": LIMITS, "leftover_cgroups": []},
        "folder": str(folder / "workspaces"),
    }

    def run() -> list[Any]:
        steps: list[str] = []
        for name in ("warm_up", "fill_gaps", "use_large_pages"):
            setattr(nursery, name, lambda name=name: steps.append(name))
        nursery.session.forget_fonts = lambda: steps.append("forget_fonts")
        nursery.importlib.import_module = steps.append  # type: ignore[assignment]
        for name, other in replaced.items():
            setattr(nursery, name, other)
        sys.path[:0] = ["", str(folder / "package")]
        return [look(*nursery.prepare(settings, standing, Forker())), steps]

    found: list[Any] = in_child(run)
    return found


def layers(hello: dict[str, Any]) -> dict[str, Any]:
    return {layer["layer"]: layer["on"] or layer["detail"] for layer in hello["layers"]}


def test_what_sessions_are_given_and_the_host_is_told(tmp_path: Path) -> None:
    def look(made: Nursery, hello: dict[str, Any], become: Any) -> list[Any]:
        plan, forker, workspace, zygote = become.args
        assert zygote == os.getpid()
        assert plan is made.plan
        assert isinstance(forker, Forker)
        family = made.places.new_family()
        return [hello, made.sees, made.limits == LIMITS, family, become.func.__name__, workspace, plan.left_out]

    (hello, sees, limited, family, does, workspace, left_out), _ = prepared(tmp_path, ALONE, look)
    said = layers(hello)
    assert {name: said[name] for name in LEFT_OUT} == dict.fromkeys(LEFT_OUT, "left out on purpose")
    assert {name: why for name, why in left_out.items() if name in LEFT_OUT} == dict.fromkeys(
        LEFT_OUT, "left out on purpose"
    )
    assert said["session_user"] == left_out["session_user"], "what the rehearsal could not do is left out"
    assert said["session_user"].startswith("OSError: this process may not hand out")
    assert (said["rlimits"], said["no_new_privs"]) == (True, True)
    assert said["workspace"].startswith("a folder without a size cap")
    assert hello["versions"]["numpy"] == np.__version__
    assert (sees, limited, does, workspace) == (False, True, "become_session", nursery.PLAIN_WORKSPACE)
    assert os.path.dirname(family) == str(tmp_path / "workspaces")


def test_a_private_root_is_read_but_for_processes_and_workspaces(tmp_path: Path) -> None:
    planned: list[Any] = []

    def look(made: Nursery, hello: dict[str, Any], become: Any) -> list[Any]:
        return [planned, made.plan.read_paths, os.environ["HOME"], become.args[2], layers(hello)["workspace"]]

    def plan_root(paths: list[str], workspace_fd: int) -> str:
        planned.append([bool(paths) and paths == nursery.interpreter_paths(), workspace_fd])
        return "the plan"

    def build(plan: str) -> PlainWorkspaces:
        planned.append(plan)
        return PlainWorkspaces(str(tmp_path / "workspaces"))

    def unreadable(*_: object) -> bool:
        raise AssertionError("in a private root everybody reads everything")

    (planned, paths, home, workspace, on), _ = prepared(
        tmp_path, ROOTED, look, plan_root=plan_root, build_private_root=build, _readable_for=unreadable
    )
    assert planned == [[True, wire.WORKSPACE_FD], "the plan"]
    top = [f"/{name}" for name in os.listdir("/") if not os.path.islink(f"/{name}")]
    assert sorted(paths) == sorted(set(top) - {"/proc", "/w"})
    assert (home, workspace, on) == ("/workspace", "/workspace", True)


@as_root
@pytest.mark.parametrize("readable", [True, False])
def test_sessions_have_a_user_of_their_own_only_where_it_can_read_the_interpreter(
    readable: bool, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def may_read(uid: int, paths: list[str], forker: Forker) -> bool:
        asked.append([uid, paths == nursery.interpreter_paths()])
        return readable

    def look(made: Nursery, hello: dict[str, Any], become: Any) -> list[Any]:
        return [asked, made.plan.users, layers(hello)["session_user"]]

    (asked, users, said), _ = prepared(tmp_path, WITH_USERS, look, _readable_for=may_read)
    assert (asked, users) == ([[7000, True]], "range")
    assert said == (readable or "the interpreter lies in a folder that only the current user may enter")


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
    return [theirs.detach(), *memory, os.open(folder, os.O_RDONLY), setup], ours


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


def test_a_session_has_its_own_descriptors_at_their_places_and_no_others(tmp_path: Path) -> None:
    def run() -> dict[str, Any]:
        fds, _ours = given(tmp_path)
        nodes = [os.fstat(fd).st_ino for fd in fds]
        free = [os.dup(0) for _ in range(200)]
        assert max(free) > wire.FIRST_FREE_FD
        if fork() == 0:
            nursery.take_descriptors(fds[:5])
            numbers = [fd for fd in range(2 * max(free)) if there(fd)]
            mask = os.umask(0)
            found = {
                "numbers": numbers,
                "nodes": [os.fstat(fd).st_ino for fd in (wire.SOCKET_FD, wire.OUTBOX_FD, 103, 104, wire.WORKSPACE_FD)],
                "printed": [os.fstat(fd).st_ino for fd in (1, 2)],
                "null": os.path.samestat(os.fstat(0), os.stat(os.devnull)),
                "inherited": [fd for fd in numbers if os.get_inheritable(fd)],
                "folder": os.getcwd(),
                "mask": mask,
            }
            os.write(wire.STDOUT_FD, json.dumps(found).encode())
            os._exit(0)
        os.wait()
        found = json.loads(os.pread(fds[2], 9999, 0))
        return {**found, "expected": nodes}

    found = in_child(run)
    nodes = found.pop("expected")
    assert found == {
        "numbers": [0, 1, 2, *range(wire.WORKSPACE_FD, wire.FIRST_FREE_FD)],
        "nodes": nodes[:5],
        "printed": nodes[2:4],
        "null": True,
        "inherited": [],
        "folder": str(tmp_path),
        "mask": 0o077,
    }


def there(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
