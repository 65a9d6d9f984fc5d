"""The start of the zygote: namespaces tried one set after the other, what a refusal says, and what is cleared away."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.guest.children import fork, in_child, until

from saccade.guest import groups, launch, wire
from saccade.guest.root import CLONE_NEWNET, CLONE_NEWUSER, NAMESPACES, NO_OWN_PROC, Standing, ladder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
USER_AND_NET = ("user_namespace", "net_namespace")
REASONS = {"pid_namespace": "refused"}


def pipes() -> list[str]:
    """The pipes that this process has open."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:
            continue  # it was the folder's own
    return [name for name in found if name.startswith("pipe:")]


def attempt(names: tuple[str, ...], **replaced: Callable[..., Any]) -> dict[str, Any]:
    """What `try_namespaces` gives in a process of its own, what its zygote is told, and what stays open or runs on.

    The zygote reports and ends. `replaced` are other functions of the module.
    """

    def become(control: socket.socket, orders: dict[str, Any]) -> NoReturn:
        control.send(json.dumps({"orders": orders, "parent": os.getppid()}).encode())
        os._exit(0)

    def run() -> dict[str, Any]:
        asked: dict[str, Any] = {}

        class Forker:
            def fork(self, flags: int) -> int:
                asked["flags"] = flags
                return fork()

        def write_maps(pid: int, first: int, count: int) -> None:
            asked["mapped"] = [first, count]

        defaults = {"_become_zygote": become, "Forker": Forker, "write_maps": write_maps, "id_range": lambda: (700, 9)}
        for name, other in {**defaults, **replaced}.items():
            setattr(launch, name, other)
        ours, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        before = pipes()
        pid, why = launch.try_namespaces(names, control, {"a": 1}, REASONS)
        control.close()
        message = ours.recv(9999)
        if pid:
            os.waitpid(pid, 0)
        left = {"pipes": len(pipes()) - len(before), "children": groups.children()}
        said = {**json.loads(message), "self": os.getpid()} if message else {}
        return {"came up": pid != 0, "why": why, "left": left, **asked, **said}

    found: dict[str, Any] = in_child(run)
    return found


@pytest.mark.parametrize(("names", "first"), [(("net_namespace",), 700), (USER_AND_NET, 1)])
def test_a_zygote_is_told_what_it_has_and_as_whom_it_stands(names: tuple[str, ...], first: int) -> None:
    found = attempt(names)
    assert (found["came up"], found["why"], found["left"]) == (True, "", {"pipes": 0, "children": []})
    standing = {"namespaces": [*names], "first_uid": first, "uids": 9, "reasons": REASONS}
    assert found["orders"] == {"settings": {"a": 1}, "standing": standing}
    assert found["parent"] == found["self"]
    assert found["flags"] == CLONE_NEWNET | (CLONE_NEWUSER if first == 1 else 0)
    assert found.get("mapped") == ([700, 9] if first == 1 else None), "only a new user namespace has ids to be mapped"


def test_without_ids_to_hand_out_sessions_have_none_of_their_own() -> None:
    standing = attempt(USER_AND_NET, id_range=lambda: (0, 0))["orders"]["standing"]
    assert (standing["first_uid"], standing["uids"]) == (0, 0)


def refuse(*_: object) -> NoReturn:
    raise PermissionError(1, "not for you")


class NoFork:
    def fork(self, flags: int) -> int:
        raise OSError(28, "clone refused")


def die(*_: object) -> NoReturn:
    os._exit(3)


@pytest.mark.parametrize(
    ("replaced", "why"),
    [
        ({"Forker": NoFork}, "No space left on device"),
        ({"usable": refuse}, "[Errno 1] not for you"),
        ({"write_maps": refuse}, "[Errno 1] not for you"),
        ({"usable": die}, "the process ended"),
    ],
    ids=["no fork", "of no use", "no ids", "it dies"],
)
def test_namespaces_that_cannot_be_had_leave_nothing_but_the_reason(replaced: dict[str, Any], why: str) -> None:
    assert "orders" not in (found := attempt(USER_AND_NET, **replaced))
    assert (found["came up"], found["why"], found["left"]) == (False, why, {"pipes": 0, "children": []})


@pytest.mark.parametrize("moment", ["write_maps", "usable"])
def test_without_its_launcher_no_zygote_comes_up(moment: str) -> None:
    """It is killed before it has let its child go on, and after that."""
    reader, writer = os.pipe()

    def launch_and_die() -> None:
        launcher = os.getpid()

        def kill(*_: object) -> None:
            os.kill(launcher, signal.SIGKILL)
            until(lambda: os.getppid() != launcher)

        launch.usable, launch._become_zygote = lambda _: None, lambda *_: os._exit(os.write(writer, b"up"))
        setattr(launch, moment, kill)
        launch.try_namespaces(("user_namespace",), socket.socket(), {}, {})

    def run() -> None:
        launcher = fork()
        if launcher == 0:
            try:
                launch_and_die()
            finally:
                os._exit(1)
        os.waitpid(launcher, 0)

    in_child(run)
    os.close(writer)
    assert os.read(reader, 9) == b""  # until the last of them has ended
    os.close(reader)


@pytest.mark.parametrize("host_dies", [True, False])
def test_the_launcher_waits_for_the_zygote_and_kills_it_when_the_host_is_gone(host_dies: bool) -> None:
    def pausing() -> int:
        pid = fork()
        if pid == 0:
            signal.pause()
        return pid

    zygote, host = pausing(), pausing()
    os.kill(host if host_dies else zygote, signal.SIGKILL)
    launch.wait(zygote, host, os.pidfd_open(host))
    assert not groups.is_child(zygote)
    assert groups.is_child(host)
    os.kill(host, signal.SIGKILL)
    assert os.waitpid(host, 0)[1] == signal.SIGKILL


def played(settings: dict[str, Any], refusals: int, **replaced: Any) -> tuple[list[Any], Any]:
    """What `main` does with `settings`, where the first `refusals` sets of namespaces cannot be had."""
    done: list[Any] = []

    def attempted(names: tuple[str, ...], _: object, given: dict[str, Any], reasons: dict[str, str]) -> tuple[int, str]:
        done.append([[*names], reasons])
        assert given == settings
        return (0, f"no {len(done)}") if len(done) <= refusals else (77, "")

    def waited(*pids: int) -> None:
        done.append(["waited", *pids[:2]])

    def run() -> tuple[list[Any], Any]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if settings:
            wire.send(ours, settings)
        ours.close()
        others = {"try_namespaces": attempted, "wait": waited, "remove_leftovers": lambda _: done.append("cleared")}
        for name, other in {**others, **replaced}.items():
            setattr(launch, name, other)
        sys.argv = ["", str(theirs.detach())]
        os.geteuid = lambda: 1000
        try:
            launch.main()
        except SystemExit as error:
            return done, error.code
        return done, signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    found: tuple[list[Any], Any] = tuple(in_child(run))  # type: ignore[assignment]
    return found


def settings(**more: Any) -> dict[str, Any]:
    return {"host_pid": os.getpid(), "without": [], **more}


def test_sets_of_namespaces_are_tried_until_one_can_be_had() -> None:
    done, interrupts_ignored = played(settings(without=["net_namespace"]), refusals=1)
    first, second = ([name for name in rung if name != "net_namespace"] for rung in ladder(root=False)[:2])
    second.remove("pid_namespace")
    refused = {**dict.fromkeys(first, "no 1"), "pid_namespace": "no 1"}
    assert done[:2] == [[first, {}], [second, refused]]
    assert [step if isinstance(step, str) else step[0] for step in done[2:]] == ["waited", "cleared"]
    assert done[2][1] == 77
    assert interrupts_ignored, "Ctrl-C is the host's"


def test_a_process_namespace_is_not_had_without_a_mount_namespace_and_it_is_said() -> None:
    done, _ = played(settings(without=["mount_namespace"]), refusals=1)
    assert done[0][1] == {"pid_namespace": NO_OWN_PROC}
    assert "pid_namespace" not in done[0][0]


def test_where_nothing_can_be_had_every_reason_is_told() -> None:
    done, said = played(settings(), refusals=9)
    assert [names for names, _ in done] == [*map(list, with_own(ladder(root=False)))]
    assert said.startswith("the sandbox could not start a zygote: ")
    assert json.loads(said.partition(": ")[2]) == dict.fromkeys(NAMESPACES, "no 1")


def with_own(rungs: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [tuple(name for name in rung if name != "pid_namespace" or "mount_namespace" in rung) for rung in rungs]


def test_a_host_that_is_gone_already_gets_no_zygote() -> None:
    assert played({}, refusals=0)[0] == []
    assert played(settings(host_pid=1), refusals=0)[0] == []


def begun(standing: dict[str, Any], group: str = "", sethostname: Callable[[str], None] = lambda _: None) -> Any:
    """What a zygote with these orders knows of itself."""

    def run() -> Any:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        named: list[str] = []

        def name(text: str) -> None:
            named.append(text)
            sethostname(text)

        def zygote(control: socket.socket, given: dict[str, Any], said: Standing) -> Callable[[], object]:
            control.send(json.dumps([given, [*said.namespaces], said.first_uid, said.uids, said.reasons]).encode())
            return lambda: control.send(json.dumps([sys.argv, sys.orig_argv, named]).encode()) and None

        socket.sethostname = name  # type: ignore[assignment]
        launch.zygote = zygote  # type: ignore[assignment]
        orders = {"settings": {"zygote_cgroup": group}, "standing": standing}
        memfd = wire.sealed_memfd("orders", json.dumps(orders).encode())
        sys.argv = ["x", str(theirs.detach()), str(memfd), "secret"]
        launch.main_of_zygote()
        return [json.loads(ours.recv(9999)) for _ in range(2)]

    return in_child(run)


STANDING = {"namespaces": ["net_namespace"], "first_uid": 5, "uids": 6, "reasons": {"net_namespace": "x", "a": "b"}}


def test_a_zygote_reads_its_orders_and_forgets_how_it_was_called(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    knows, then = begun(STANDING, group=str(tmp_path))
    assert knows == [{"zygote_cgroup": str(tmp_path)}, ["net_namespace"], 5, 6, {"a": "b"}]
    assert then == [[""], [""], []]
    assert (tmp_path / "cgroup.procs").read_text() == "0"
    assert begun(STANDING, group=str(tmp_path / "missing"))[0][1:] == knows[1:]


def test_a_machine_whose_name_is_hidden_is_called_something_else() -> None:
    own = {**STANDING, "namespaces": ["ipc_namespace"]}
    knows, then = begun(own)
    assert (knows[4], then[2]) == ({"net_namespace": "x", "a": "b"}, ["sandbox"])
    knows, _ = begun(own, sethostname=refuse)
    assert knows[4]["ipc_namespace"] == "programs can read the name of this machine: sethostname: not for you"


def test_what_the_zygote_could_not_remove_is_cleared_away(tmp_path: Path) -> None:
    folder, group, other = tmp_path / "folder", tmp_path / "group", tmp_path / "other"
    for made in (folder, group / "inner", other):
        made.mkdir(parents=True)
    (folder / "file").touch()
    kept = [str(tmp_path / "missing")]
    launch.remove_leftovers({"leftover_folders": [*kept, str(folder)], "leftover_cgroups": [*kept, str(group)]})
    assert os.listdir(tmp_path) == ["other"]
