from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.guest.children import NOBODY, fork, in_child, in_namespaces, outcome

from saccade.guest import jail, nursery, privileges, root, seccomp
from saccade.guest.syscalls import machine
from saccade.guest.workspaces import Workspaces

BOTH_USERS = pytest.mark.parametrize("user", [None, NOBODY], ids=["as-started", "plain-user"])
FD = 100


@pytest.fixture(scope="module")
def plan() -> root.RootPlan:
    return root.plan_root(nursery.interpreter_paths(), FD)


def visible_to(user: int | None, plan: root.RootPlan) -> root.RootPlan:
    """The plan without what that user cannot reach (an interpreter in root's home)."""
    readable = in_child(lambda: [path for path in plan.binds if os.access(path, os.R_OK)], user=user)
    return root.RootPlan(tuple(readable), plan.links)


def rooted(plan: root.RootPlan, user: int | None, function: Callable[[Workspaces], Any]) -> Any:
    shown = visible_to(user, plan)
    return in_namespaces(lambda: function(root.build_private_root(shown)), user=user)


@BOTH_USERS
def test_only_what_was_planned_is_there(plan: root.RootPlan, user: int | None) -> None:
    def look(_: Workspaces) -> dict[str, Any]:
        return {
            "top": sorted(os.listdir("/")),
            "dev": sorted(os.listdir("/dev")),
            "etc": sorted(os.listdir("/etc")),
            "proc": sorted(os.listdir("/proc")),
            "random": len(open("/dev/urandom", "rb").read(8)),
            "write": outcome(lambda: os.mkdir("/new")),
            "write lib": outcome(lambda: os.mkdir("/usr/lib/new")),
            "write w": outcome(lambda: os.mkdir("/w/new")),
            "links": {path: os.readlink(path) for path, _text in plan.links if path in ("/tmp", "/workspace")},
            "lib": sorted(os.listdir("/usr/lib"))[:3],
        }

    found = rooted(plan, user, look)
    for folder in ("bin", "home", "var", "run", "sys", "boot", "mnt", "opt", "sbin"):
        needed = any(path.startswith(f"/{folder}/") for path in plan.binds)
        assert needed or folder not in found["top"]
    assert {"usr", "dev", "etc", "proc", "w", "tmp", "workspace"} <= set(found["top"])
    assert found["dev"] == sorted(("fd", "full", "null", "random", "stderr", "stdin", "stdout", "urandom", "zero"))
    assert not {"passwd", "shadow", "group", "hosts", "hostname", "ssl"} & set(found["etc"])
    # Processes only, and none from outside.
    assert [name for name in found["proc"] if name.isdigit()] == ["1"]
    assert "sys" not in found["proc"]
    assert found["random"] == 8
    assert {found["write"], found["write lib"], found["write w"]} == {"EROFS"}
    # An interpreter in /tmp takes the place of the link.
    wanted = {"/tmp": "/workspace"} if "/tmp" in found["links"] else {}
    assert found["links"] == {**wanted, "/workspace": f"/proc/self/fd/{FD}"}
    assert found["lib"] == sorted(os.listdir("/usr/lib"))[:3]


@BOTH_USERS
def test_the_old_root_is_out_of_reach(plan: root.RootPlan, user: int | None, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")

    def look(_: Workspaces) -> list[str]:
        with open("/proc/self/mountinfo") as file:
            points = [line.split()[4] for line in file]
        return [
            outcome(lambda: os.stat(secret)),
            outcome(lambda: os.stat(f"/proc/1/root{secret}")),
            outcome(lambda: os.stat(f"../../../..{secret}")),
            *points,
        ]

    direct, by_process, by_parent, *points = rooted(plan, user, look)
    # ENOTDIR: `/tmp` leads to a descriptor, which may be a file where the test's own process has many open.
    assert {direct, by_process, by_parent} <= {"ENOENT", "ENOTDIR"}
    assert not [point for point in points if point.startswith(("/home", "/sys", "/run", "/var"))]


@BOTH_USERS
def test_a_session_lives_in_its_workspace(plan: root.RootPlan, user: int | None) -> None:
    """All layers together, as a session uses them."""
    program = seccomp.build_filter(machine())

    def session(fd: int, family: str, uid: int) -> dict[str, str]:
        os.dup2(fd, FD)
        if uid:
            privileges.become_user(uid, uid)
        else:
            privileges.own_user_namespace()
        more = {"cpu_seconds": 100, "file_bytes": 1 << 40}
        privileges.set_limits({"memory_bytes": 1 << 30, "processes": 8, "open_files": 256, **more})
        privileges.drop_capabilities()
        privileges.no_new_privs()
        privileges.set_dumpable(0)
        jail.restrict(plan.binds, [family], confine_files=True)
        seccomp.install(program)
        os.fchdir(FD)

        def write() -> None:
            with open("/workspace/a", "w") as file:
                file.write("hello")
            os.mkdir("inner")
            os.rename("/workspace/a", "inner/b")

        return {
            "write": outcome(write),
            "list": ",".join(os.listdir("/workspace/inner")),
            "mounts": outcome(lambda: os.open("/proc/self/mountinfo", os.O_RDONLY)),
            "first": outcome(lambda: os.open("/proc/1/environ", os.O_RDONLY)),
            "list w": outcome(lambda: os.listdir("/w")),
            "list family": outcome(lambda: os.listdir(family)),
            "open family": outcome(lambda: os.chmod(family, 0o777)),
            "full": outcome(lambda: _fill("big")),
            "library": outcome(lambda: os.listdir("/usr/lib")),
        }

    def run(workspaces: Workspaces) -> dict[str, str]:
        uid = 5 if os.path.exists("/proc/self/uid_map") and _mapped() > 1 else 0
        family = workspaces.new_family()
        fd, path = workspaces.make(family, 1 << 20, 20, uid)
        answer = in_child(lambda: session(fd, family, uid))
        os.close(fd)
        workspaces.release(path)
        return dict(answer) | {"released": outcome(lambda: os.stat(path))}

    if jail.abi() < 2:
        pytest.skip("Landlock 2 or newer is needed to move files between folders")
    found = rooted(plan, user, run)
    assert found["write"] == "ok"
    assert found["list"] == "b"
    assert found["library"] == "ok"
    assert found["full"] == "ENOSPC"
    assert found["released"] == "ENOENT"
    assert found["open family"] in ("EPERM", "EROFS")
    assert {found[name] for name in ("mounts", "list w", "list family")} == {"EACCES"}
    assert found["first"] in ("EACCES", "ENOENT")


def _mapped() -> int:
    with open("/proc/self/uid_map") as file:
        return sum(int(line.split()[2]) for line in file)


def _fill(name: str) -> None:
    with open(name, "wb", buffering=0) as file:
        while file.write(bytes(1 << 18)):
            pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give sessions ids of their own")
def test_sessions_do_not_see_each_other(plan: root.RootPlan) -> None:
    def run(_: Workspaces) -> list[bool]:
        ready_read, ready_write = os.pipe()
        neighbour = fork()
        if neighbour == 0:
            privileges.become_user(7, 7)
            os.write(ready_write, b"r")
            signal.pause()
        os.close(ready_write)
        assert os.read(ready_read, 1) == b"r"

        def look() -> list[bool]:
            privileges.become_user(5, 5)
            return [os.path.exists(f"/proc/{neighbour}"), os.path.exists(f"/proc/{os.getpid()}")]

        hidden, own = in_child(look)
        return [hidden, own, os.path.exists(f"/proc/{neighbour}/stat")]

    assert rooted(plan, None, run) == [False, True, True]


@BOTH_USERS
def test_many_workspaces(plan: root.RootPlan, user: int | None) -> None:
    def run(workspaces: Workspaces) -> list[int]:
        made = []
        for _ in range(300):
            fd, path = workspaces.make(workspaces.new_family(), 1 << 20, 10, 0)
            os.close(fd)
            made.append(path)
        with open("/proc/self/mountinfo") as file:
            mounted = sum(" /w/" in line for line in file)
        for path in made:
            workspaces.release(path)
            workspaces.release(path)
        with open("/proc/self/mountinfo") as file:
            left = sum(" /w/" in line for line in file)
        return [len(set(made)), mounted, left, sum(os.path.exists(path) for path in made)]

    assert rooted(plan, user, run) == [300, 300, 0, 0]


def test_the_folder_of_families_tells_nothing(plan: root.RootPlan) -> None:
    def look() -> list[int]:
        seen, room = os.stat("/w"), os.statvfs("/w")
        return [seen.st_nlink, seen.st_mtime_ns, seen.st_ctime_ns, room.f_ffree, room.f_bfree]

    def run(workspaces: Workspaces) -> list[bool]:
        before, seen = look(), []
        for _ in range(300):  # one at a time: more than are made in advance
            fd, path = workspaces.make(workspaces.new_family(), 1 << 20, 10, 0)
            os.close(fd)
            seen.append(look() == before)
            workspaces.release(path)
        first, second = workspaces.new_family(), workspaces.new_family()
        return [all(seen), look() == before, first != second]

    assert rooted(plan, None, run) == [True, True, True]


@BOTH_USERS
def test_the_number_of_files_is_capped(plan: root.RootPlan, user: int | None) -> None:
    def run(workspaces: Workspaces) -> list[Any]:
        fd, _path = workspaces.make(workspaces.new_family(), 1 << 20, 10, 0)
        made = 0

        def create() -> None:
            nonlocal made
            while True:
                os.close(os.open(f"f{made}", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=fd))
                made += 1

        result = outcome(create)
        return [result, made, oct(os.fstat(fd).st_mode)]

    assert rooted(plan, user, run) == ["ENOSPC", 10, "0o40700"]


def test_an_interpreter_in_a_closed_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "venv" / "lib").mkdir(parents=True)
    (home / "venv" / "lib" / "module.py").write_text("x = 1")
    (home / "secret").write_text("secret")
    home.chmod(0o700)
    closed = root.plan_root([str(home / "venv" / "lib"), "/usr/lib"], FD)

    def look(_: Workspaces) -> list[str]:
        def read() -> list[str]:
            if _mapped() > 1:
                privileges.become_user(5, 5)
            with open(home / "venv" / "lib" / "module.py") as file:
                return [file.read(), outcome(lambda: os.stat(home / "secret"))]

        return list(in_child(read))

    assert in_namespaces(lambda: look(root.build_private_root(closed))) == ["x = 1", "ENOENT"]


def test_links_on_the_way_are_shown_as_links_and_a_path_beneath_another_is_covered_by_it(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "lib" / "inner").mkdir(parents=True)
    for name, target in (("absolute", str(real)), ("relative", "absolute"), ("a", "b"), ("b", "a")):
        (tmp_path / name).symlink_to(target)
    wanted = ("real/lib/inner", "relative/lib", "real/lib", "missing", "a/x")
    plan = root.plan_root([f"{tmp_path}/{path}" for path in wanted], FD)
    assert plan.binds == (f"{real}/lib",)
    assert {(f"{tmp_path}/relative", "absolute"), (f"{tmp_path}/absolute", str(real))} <= {*plan.links}
    assert outcome(lambda: root._resolve(f"{tmp_path}/a/x")) == "ELOOP"  # a circle


def test_namespaces_in_which_nothing_can_be_mounted_are_of_no_use() -> None:
    def run() -> str:
        try:
            root.usable(("mount_namespace",))
        except OSError as error:
            return errno.errorcode[error.errno or 0]
        return "usable"

    assert in_child(run, user=NOBODY) == "EPERM"
