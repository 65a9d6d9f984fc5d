"""Orders of the host to a real zygote, and what it says of the processes of a session, which here run no cells."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guest.children import until
from tests.guest.toy_session import CONFIG, Host, playing

from saccade.guest import groups, inspection

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with playing(tmp_path) as opened:
        yield opened


def state(pid: int) -> str:
    fields = groups._stat(pid)
    return fields[0].decode() if fields else "gone"


def keeper_of(leaf: int) -> int:
    """The other process of the only session."""
    [zygote] = [int(groups._stat(leaf)[1])]
    with open(f"/proc/{zygote}/task/{zygote}/children") as file:
        _template, *others = [int(pid) for pid in file.read().split()]
    [keeper] = set(others) - {leaf}
    return keeper


def workspaces(host: Host) -> list[str]:
    there = [f"{family}/{name}" for family in os.listdir(host.folder) for name in os.listdir(host.folder / family)]
    return [path for path in there if not path.rpartition("/")[2].isdigit()]  # these are spare ones


def test_between_calls_everything_stands_still(host: Host) -> None:
    leaf = host.open()
    assert (state(leaf), state(keeper_of(leaf))) == ("T", "T")
    [pidfd] = host.fds
    signal.pidfd_send_signal(pidfd, 0)
    assert f"Pid:\t{leaf}\n" in Path(f"/proc/self/fdinfo/{pidfd}").read_text()
    assert (os.getpgid(leaf), os.getpgid(keeper_of(leaf))) == (leaf, keeper_of(leaf))


def test_a_call_that_is_kept_and_one_that_is_not(host: Host) -> None:
    leaf = host.open()
    before = keeper_of(leaf)
    assert host.call(leaf, "end the call") == {"op": "call", "id": 1, "why": None, "maps": None}
    assert state(leaf) == "T"
    host.order("leaf", keep=True)
    second, kept = host.leaf()
    assert kept == 1
    assert host.stand()["pid"] == second
    until(lambda: state(before) == "gone")
    assert keeper_of(second) == leaf
    host.call(second, "end the call")
    assert host.ask("rollback") == {"op": "rollback", "id": 1}
    assert state(second) == "gone"
    assert host.ask("rollback") == {"op": "rollback", "id": 1}, "there is none to kill"
    host.order("leaf", keep=False)
    third, kept = host.leaf()
    assert kept == 1
    assert host.stand()["pid"] == third
    assert keeper_of(third) == leaf


def test_a_call_that_has_ended_before_it_is_asked_about(host: Host) -> None:
    leaf = host.open()
    host.let(leaf, "end the call")
    until(lambda: state(leaf) == "T")
    assert host.ask("call") == {"op": "call", "id": 1, "why": None, "maps": None}


@pytest.mark.parametrize("asked", [True, False])
def test_a_leaf_that_dies(asked: bool, host: Host) -> None:
    leaf = host.open()
    if asked:
        failed = host.call(leaf, "die")
        assert failed == {"op": "failed", "id": 1, "of": "call", "error": "the process of the call has ended"}
        died = host.hear()
    else:
        host.let(leaf, "die")
        died = host.hear()
    assert (died["op"], died["id"], died["code"]) == ("died", 1, 3)
    assert 0 <= died["cpu"] < 30
    failed = host.ask("call")
    assert (failed["of"], failed["error"]) == ("call", "the process of the call has ended")
    assert host.ask("workspace")["error"] == "the process of the branch has ended"
    host.order("leaf", keep=False)
    assert host.leaf()[1] == 0


@pytest.mark.parametrize(
    ("word", "why"),
    [("leave a process", inspection.STRAY), ("leave a thread", "a thread is still"), ("leave a pipe", "a pipe is")],
)
def test_what_cannot_be_kept_ends_the_session_that_keeps_it(word: str, why: str, host: Host) -> None:
    leaf = host.open()
    assert host.call(leaf, word, "end the call")["why"].startswith(why)
    host.order("leaf", keep=True)
    ended = host.end()
    assert (ended["op"], ended["code"], ended["fault"]) == ("ended", -9, "it worked on after its call had ended")


def test_what_stands_beside_the_keeper_ends_the_session(host: Host) -> None:
    leaf = host.begin()
    host.said.send(b"leave a process")  # while it is in the keeper's group
    until(lambda: len(groups_of(os.getpgid(leaf))) == 3)
    host.said.send(b"stand")
    ended = host.end()
    assert (ended["op"], ended["fault"]) == ("ended", f"{inspection.STRAY} beside the one that keeps the state")


def groups_of(group: int) -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and groups.group_of(int(name)) == group]


def test_work_after_the_end_of_a_call_ends_the_session(host: Host) -> None:
    leaf = host.open()
    assert host.call(leaf, "end the call")["why"] is None
    os.kill(leaf, signal.SIGCONT)
    until(lambda: state(leaf) == "S")
    host.order("leaf", keep=True)
    assert host.end()["fault"] == "it worked on after its call had ended"


def test_a_keeper_that_is_killed_takes_its_session_along(host: Host) -> None:
    leaf = host.open()
    os.kill(keeper_of(leaf), signal.SIGKILL)
    ended = host.end()
    assert (ended["op"], ended["id"], ended["code"], ended["fault"]) == ("ended", 1, -9, "")
    until(lambda: state(leaf) == "gone")
    assert workspaces(host) == []
    assert host.ask("call")["op"] == "failed"


def test_closing(host: Host) -> None:
    leaf = host.open()
    [workspace] = workspaces(host)
    second = host.open(2)
    assert set(workspaces(host)) > {workspace}
    closed = host.ask("close")  # nothing is said of a leaf that dies then
    assert (closed["op"], closed["id"]) == ("close", 1)
    until(lambda: state(leaf) == "gone")
    assert len(workspaces(host)) == 1
    assert host.ask("close") == {"op": "close", "id": 1}, "it is closed already"
    assert state(second) == "T"


def test_an_order_that_makes_no_sense_is_answered(host: Host) -> None:
    assert host.ask("call", 7)["op"] == "failed"
    assert host.ask("dance")["of"] == "dance"
    host.open()


def test_who_works_and_who_sleeps_before_a_call(host: Host) -> None:
    leaf = host.begin()
    until(lambda: host.ask("asleep") == {"op": "asleep", "id": 1, "asleep": True})  # it has not stopped yet
    host.said.send(b"work")
    until(lambda: state(leaf) == "R")
    assert host.ask("asleep")["asleep"] is False
    os.kill(-os.getpgid(leaf), signal.SIGSTOP)
    assert host.hear()["pid"] == leaf
    assert host.ask("asleep")["asleep"] is False, "it stands for a good reason"


def test_who_works_too_long_to_get_ready_is_ended(tmp_path: Path) -> None:
    with playing(tmp_path, WORK_SECONDS=0.5) as host:
        host.begin()
        host.said.send(b"work")
        assert host.end()["fault"] == "it worked for more than 0.5 s after its call had ended"


def test_control_groups_are_joined_first(host: Host, tmp_path: Path) -> None:
    procs = os.memfd_create("cgroup.procs")
    leaf = host.open(1, [procs])
    assert os.pread(procs, 99, 0) == b"%d" % keeper_of(leaf)
    unwritable = os.open("/dev/null", os.O_RDONLY)
    assert host.ask("open", 2, [*host.given, unwritable], config=CONFIG)["of"] == "open"
    assert host.end()["op"] == "ended"
    os.close(procs)
    os.close(unwritable)


def test_a_branch_is_taken_in(host: Host) -> None:
    leaf = host.open()
    origin, [lies] = keeper_of(leaf), workspaces(host)
    answer = host.ask("workspace")
    assert (answer["op"], answer["id"]) == ("workspace", 1)
    assert os.path.samestat(os.stat(answer["path"]), os.fstat(host.fds[0]))
    assert os.path.dirname(answer["path"]) == os.path.dirname(f"{host.folder}/{lies}")
    sock = os.fstat(host.given[0]).st_ino
    host.branch(leaf)
    adopted = host.ask("adopt", branch=2, path=answer["path"], socket=sock, memory=[])
    assert adopted == {"op": "adopt", "id": 1}
    assert lies not in workspaces(host), "the branch has seen where its origin's files lie"
    assert len(workspaces(host)) == 2
    twin, kept = host.leaf()
    assert kept == 0
    assert host.stand(2)["pid"] == twin
    host.order("leaf", keep=False)
    again, _ = host.leaf()
    assert host.stand(1)["pid"] == again
    host.ask("close", 1)
    assert state(origin) == "gone"
    assert (state(leaf), state(twin)) == ("T", "T")
    assert len(workspaces(host)) == 1
    host.ask("close", 2)
    assert workspaces(host) == []


@pytest.mark.parametrize(("word", "why"), [("leave a process", inspection.STRAY), ("leave a pipe", "a pipe")])
def test_a_branch_that_holds_too_much_is_refused(word: str, why: str, host: Host) -> None:
    leaf = host.open()
    answer = host.ask("workspace")
    host.branch(leaf, word)
    sock = os.fstat(host.given[0]).st_ino
    failed = host.ask("adopt", branch=2, path=answer["path"], socket=sock, memory=[])
    assert (failed["of"], failed["error"].startswith(why)) == ("adopt", True)
    assert host.hear()["op"] == "died"
    assert len(workspaces(host)) == 1
    assert host.ask("call", 2)["op"] == "failed"


def test_without_its_template_it_ends(tmp_path: Path) -> None:
    with playing(tmp_path) as host:
        leaf = host.open()
        zygote = int(groups._stat(leaf)[1])
        with open(f"/proc/{zygote}/task/{zygote}/children") as file:
            template = int(file.read().split()[0])
        os.kill(template, signal.SIGKILL)
        assert host.control.recv(1) == b""
