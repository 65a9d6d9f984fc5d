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

from saccade.guest import groups, launch

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
    with pytest.raises(ChildProcessError):
        os.waitpid(zygote, 0)
    os.kill(host, signal.SIGKILL)
    assert os.waitpid(host, 0)[1] == signal.SIGKILL


def test_what_the_zygote_could_not_remove_is_cleared_away(tmp_path: Path) -> None:
    folder, group, other = tmp_path / "folder", tmp_path / "group", tmp_path / "other"
    for made in (folder, group / "inner", other):
        made.mkdir(parents=True)
    (folder / "file").touch()
    kept = [str(tmp_path / "missing")]
    launch.remove_leftovers({"leftover_folders": [*kept, str(folder)], "leftover_cgroups": [*kept, str(group)]})
    assert os.listdir(tmp_path) == ["other"]
