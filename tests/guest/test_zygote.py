"""What the zygote makes of a process that stands still without an order."""

from __future__ import annotations

import errno
import os
import sys
import time
from types import SimpleNamespace

import pytest
from tests.guest.children import until, waiting_child

from saccade.guest import groups, inspection
from saccade.guest.session_entry import SessionEntry
from saccade.guest.zygote import Zygote

child = pytest.fixture(waiting_child)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


def zygote_of(keeper: int) -> tuple[Zygote, SessionEntry]:
    """A zygote that knows one session, whose keeper gets ready."""
    entry = SessionEntry(1, 0, "", "", "", 0, frozenset(), keeper=keeper)
    server = object.__new__(Zygote)
    server.by_pid, server.working = {keeper: entry}, {keeper: (entry, 0.0)}
    return server, entry


def stop(pid: int) -> None:
    groups.stop(pid)
    until(lambda: groups.stopped(pid))


def test_a_keeper_that_stops_itself_late_runs_on_and_does_so_once(child: int) -> None:
    server, entry = zygote_of(child)
    stop(child)
    server.stopped_itself(child)
    until(lambda: not groups.stopped(child))
    assert entry.late
    stop(child)
    server.stopped_itself(child)
    time.sleep(0.05)
    assert groups.stopped(child)


def test_a_keeper_that_has_no_work_stays_where_it_stands(child: int) -> None:
    server, entry = zygote_of(child)
    server.working.clear()
    stop(child)
    server.stopped_itself(child)
    time.sleep(0.05)
    assert groups.stopped(child)
    assert not entry.late


def test_a_call_that_ends_while_it_is_looked_at_is_said_to(child: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(pid: int) -> None:
        raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))

    server, entry = zygote_of(child)
    server.nursery = SimpleNamespace(sees=True)  # type: ignore[assignment]
    stop(child)
    monkeypatch.setattr(inspection, "shared_maps", gone)
    with pytest.raises(ValueError, match=r"it ended while it was looked at: .*No such process"):
        server.look(entry, child, deadline=0.0)
    assert entry.inspected is None
