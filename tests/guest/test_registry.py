"""The zygote's books, entry by entry: what each end of a process means, without any process."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.guest.children import until, waiting_child

from saccade.guest import groups, inspection
from saccade.guest.session_entry import SessionEntry
from saccade.guest.zygote import WORK_SECONDS, Zygote

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
KEEPER, LEAF, FORMER, TEMPLATE = 50, 60, 40, 10
FAILED = 3 << 8
"""A wait status: ended with code 3."""


class Books(Zygote):
    """One session, and what is said and done."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        nursery = SimpleNamespace(release=lambda entry: self.done.append(["released", entry.id]))
        super().__init__(cast(Any, None), cast(Any, nursery), cast(Any, SimpleNamespace(pid=TEMPLATE)))
        self.entry = SessionEntry(1, 0, "/w/f", "/w/f/s", "/w", 0, frozenset(), KEEPER, LEAF)
        self.sessions[1] = self.entry
        self.by_pid |= {KEEPER: self.entry, LEAF: self.entry}

    def tell(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        self.done.append(message)

    def stopped_itself(self, pid: int) -> None:
        self.done.append(["stands", pid])

    def said(self) -> list[Any]:
        """What was said and done since this was asked last."""
        done, self.done = self.done, []
        return done


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch) -> Books:
    made = Books()
    monkeypatch.setattr(groups, "kill_group", lambda group: made.done.append(["killed", group]))
    monkeypatch.setattr(groups, "empty", lambda _: True)
    return made


@pytest.mark.parametrize(
    ("keeper", "forked", "ended"),
    [(WORK_SECONDS, 0.0, False), (WORK_SECONDS + 0.1, 0.0, True), (1.0, 1.9, False), (1.0, 2.1, True)],
)
def test_a_session_has_so_much_time_to_get_ready_with_all_it_forks(
    keeper: float, forked: float, ended: bool, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = {KEEPER: 5.0 + keeper, 51: forked, 70: 99.0}
    monkeypatch.setattr(groups, "cpu_seconds", lambda pid: used[pid])
    monkeypatch.setattr(groups, "children", lambda: [KEEPER, 51, 70])
    monkeypatch.setattr(groups, "group_of", lambda pid: 70 if pid == 70 else KEEPER)
    books.working[KEEPER] = (books.entry, 5.0)
    books.watch()
    assert (books.working == {}) is ended
    assert books.entry.fault == ("it worked for more than 3 s after its call had ended" if ended else "")
    assert (books.said() == []) is not ended


def fail() -> bool:
    raise ValueError("no such leaf")


def lose_leaf(books: Books) -> None:
    books.entry.leaf = None


def have_another(books: Books) -> None:
    books.entry.leaf = LEAF + 1


def be_replaced(books: Books) -> None:
    books.sessions.clear()


GONE = {"op": "failed", "id": 1, "of": "call", "error": "the process of the call has ended"}


@pytest.mark.parametrize(("change", "said"), [(lose_leaf, [GONE]), (have_another, [GONE]), (be_replaced, [])])
def test_what_waits_for_a_process_that_is_gone_is_given_up(
    change: Callable[[Books], None], said: list[Any], books: Books
) -> None:
    books.wait(books.entry, "call", lambda: False)
    change(books)
    books.try_again()
    assert (books.waiting, books.said()) == ([], said)


DIED = {"op": "died", "id": 1, "code": 3, "cpu": 0.5}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({}, [DIED]),
        ({"calling": True}, [GONE, DIED]),
        ({"rolling": True}, [{"op": "rollback", "id": 1}]),
        ({"closing": True}, []),
    ],
)
def test_the_end_of_a_leaf_is_told_when_all_it_started_is_dead(
    flags: dict[str, bool], said: list[Any], books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    buried: list[int] = []
    monkeypatch.setattr(groups, "empty", lambda group: group in buried)
    for name, value in flags.items():
        setattr(books.entry, name, value)
    books.leaf_ended(books.entry, FAILED, 0.5)
    assert books.said() == [["killed", LEAF], *[GONE] * ("calling" in flags)]
    books.try_again()
    assert books.said() == []
    buried.append(LEAF)
    books.try_again()
    assert books.said() == [message for message in said if message != GONE]
    assert (books.waiting, books.entry.leaf, books.entry.calling, books.entry.rolling) == ([], None, False, False)


@pytest.mark.parametrize("closing", [True, False])
@pytest.mark.parametrize("leaf", [LEAF, None])
def test_the_end_of_a_keeper_is_the_end_of_its_session(closing: bool, leaf: int | None, books: Books) -> None:
    books.entry.closing, books.entry.fault, books.entry.leaf = closing, "why", leaf
    books.working[KEEPER] = (books.entry, 0.0)
    del books.by_pid[KEEPER]  # as `reap` does
    books.keeper_ended(books.entry, FAILED, 0.5)
    said = {"op": "close" if closing else "ended", "id": 1, "code": 3, "cpu": 0.5, "fault": "why"}
    assert books.said() == [*[["killed", LEAF]] * (leaf is not None), ["killed", KEEPER], ["released", 1], said]
    assert (books.sessions, books.working, books.entry.leaf) == ({}, {}, None)
    assert set(books.by_pid) == (set() if leaf else {LEAF})


child = pytest.fixture(waiting_child)


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
