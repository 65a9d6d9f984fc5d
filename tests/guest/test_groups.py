"""When a child stands still, and whether it has run since."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from tests.guest.children import fork, until, waiting_child

from saccade.guest import groups

child = pytest.fixture(waiting_child)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


def test_a_stop_keeps_its_number_and_the_next_one_has_another(child: int) -> None:
    assert groups.stands_since(child) == 0
    groups.stop(child)
    until(lambda: groups.stopped(child))
    first = groups.stands_since(child)
    assert groups.stands_since(child) == first > 0
    groups.resume(child)
    assert groups.stands_since(child) == 0
    groups.stop(child)
    until(lambda: groups.stopped(child))
    assert groups.stands_since(child) not in (0, first)


@pytest.mark.parametrize("asked_between", [False, True])
def test_whoever_else_lets_it_run_is_noticed(child: int, asked_between: bool) -> None:
    groups.stop(child)
    until(lambda: groups.stopped(child))
    first = groups.stands_since(child)
    os.kill(child, signal.SIGCONT)
    if asked_between:
        assert groups.stands_since(child) == 0
    os.kill(child, signal.SIGSTOP)
    until(lambda: groups.stands_since(child) not in (0, first))


def test_a_stop_that_somebody_else_has_heard_of_holds(child: int) -> None:
    os.kill(child, signal.SIGSTOP)
    pid, status = os.waitpid(child, os.WUNTRACED)
    assert pid == child
    assert os.WIFSTOPPED(status)
    groups.note_stop(child)
    assert groups.stopped(child)
    os.kill(child, signal.SIGCONT)
    assert not groups.stopped(child)


def test_one_that_has_ended_does_not_stand() -> None:
    pid = fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    groups.stop(pid)
    until(lambda: groups.stopped(pid))
    os.kill(pid, signal.SIGKILL)
    until(lambda: not groups.stopped(pid))
    # It is still there to be collected.
    assert os.waitpid(pid, 0)[0] == pid
    assert not groups.stopped(pid)


def test_who_is_in_a_group_and_what_is_known_of_it(child: int) -> None:
    os.setpgid(child, child)
    assert (groups.group_of(child), groups.threads(child)) == (child, 1)
    assert not groups.empty(child)
    assert child in groups.children()
    until(lambda: groups.asleep(child))
    groups.stop(child)
    until(lambda: groups.stopped(child))
    assert groups.asleep(child), "it stands still"
    assert not groups.asleep(os.getpid())
    assert 0 < groups.cpu_seconds(os.getpid()) < 10 * (os.times().user + os.times().system) + 1
    assert not groups.was_killed(child)


def test_of_one_that_is_gone_nothing_is_known() -> None:
    pid = fork()
    if pid == 0:
        signal.pause()
    os.setpgid(pid, pid)
    groups.kill_group(pid)
    until(lambda: groups.was_killed(pid))
    assert not groups.empty(pid), "nobody has collected it"
    os.waitpid(pid, 0)
    assert groups.empty(pid)
    groups.stop(pid)
    groups.kill_group(pid)
    assert (groups.group_of(pid), groups.threads(pid), groups.cpu_seconds(pid)) == (0, 0, 0.0)
    assert (groups.asleep(pid), groups.was_killed(pid)) == (False, False)


def test_one_that_ended_by_itself_was_not_killed() -> None:
    for end in (lambda: os._exit(9), lambda: os.kill(os.getpid(), signal.SIGTERM)):
        pid = fork()
        if pid == 0:
            end()
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert not groups.was_killed(pid)
        os.waitpid(pid, 0)
