"""The zygote's books, entry by entry: what each end of a process means, without any process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from saccade.guest import groups, zygote
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


def test_every_process_of_a_session_is_killed_at_its_end(books: Books) -> None:
    books.entry.former = FORMER
    books.end(books.entry)
    assert books.said() == [["killed", FORMER], ["killed", LEAF], ["killed", KEEPER]]
    books.entry.leaf = None
    books.fault(books.entry, "it lies")
    assert books.said() == [["killed", KEEPER]], "the former one is gone"
    assert books.entry.fault == "it lies"


def test_getting_ready_is_begun_by_a_signal_and_its_time_is_counted_from_there(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "resume", lambda pid: books.done.append(["runs", pid]))
    monkeypatch.setattr(groups, "cpu_seconds", lambda pid: {KEEPER: 7.0}[pid])
    monkeypatch.setattr(os, "kill", lambda pid, number: books.done.append([pid, number]))
    books.entry.late = True
    books.begin_work(books.entry)
    assert books.said() == [["runs", KEEPER], [KEEPER, signal.SIGUSR1]]
    assert (books.working, books.entry.late) == ({KEEPER: (books.entry, 7.0)}, False)


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


@pytest.mark.parametrize(
    ("leaf", "works", "awake", "asleep"),
    [
        (None, True, (), True),
        (LEAF, True, (), False),
        (None, False, (), False),
        (None, True, (KEEPER,), False),
        (None, True, (51,), False),
        (None, True, (70,), True),
    ],
)
def test_who_sleeps_instead_of_getting_ready(
    leaf: int | None, works: bool, awake: tuple[int, ...], asleep: bool, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "children", lambda: [KEEPER, 51, 70])
    monkeypatch.setattr(groups, "group_of", lambda pid: 70 if pid == 70 else KEEPER)
    monkeypatch.setattr(groups, "asleep", lambda pid: pid not in awake)
    books.entry.leaf = leaf
    if works:
        books.working[KEEPER] = (books.entry, 0.0)
    books.do_asleep({"id": 1}, [])
    assert books.said() == [{"op": "asleep", "id": 1, "asleep": asleep}]


def test_what_waits_is_tried_until_it_is_done(books: Books) -> None:
    answers = iter([False, False, True])
    books.wait(books.entry, "call", lambda: next(answers))
    assert len(books.waiting) == 1
    books.try_again()
    assert len(books.waiting) == 1
    books.try_again()
    assert (books.waiting, books.said(), next(answers, "no more")) == ([], [], "no more")
    books.wait(books.entry, "call", lambda: True)
    assert books.waiting == []


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


def test_what_waits_and_fails_is_refused(books: Books) -> None:
    books.wait(books.entry, "leaf", fail)
    assert (books.waiting, books.said()) == ([], [{**GONE, "of": "leaf", "error": "no such leaf"}])


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


def test_the_end_of_a_leaf_whose_session_is_over_is_told_to_nobody(books: Books) -> None:
    books.sessions.clear()
    books.leaf_ended(books.entry, FAILED, 0.5)
    assert books.said() == [["killed", LEAF]]


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


def test_ended_children_are_collected_one_after_the_other(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = (signal.SIGSTOP << 8) | 0x7F
    used = SimpleNamespace(ru_utime=0.25, ru_stime=0.25)
    ends: Iterator[Any] = iter([(LEAF, stopped, used), (99, FAILED, used), (LEAF, FAILED, used), (0, 0, used)])
    monkeypatch.setattr(groups, "note_stop", lambda pid: books.done.append(["noted", pid]))
    monkeypatch.setattr(groups, "forget", lambda pid: books.done.append(["forgotten", pid]))

    def wait4(pid: int, how: int) -> Any:
        assert (pid, how) == (-1, os.WNOHANG | os.WUNTRACED)
        if (end := next(ends, None)) is None:
            raise ChildProcessError
        return end

    monkeypatch.setattr(zygote.os, "wait4", wait4)
    assert books.reap()
    assert books.said() == [
        *(["noted", LEAF], ["stands", LEAF], ["forgotten", 99], ["forgotten", LEAF], ["killed", LEAF]),
        DIED,
    ]
    assert not books.reap(), "it has no children any more"
    ends = iter([(KEEPER, FAILED, used), (TEMPLATE, FAILED, used), (LEAF, FAILED, used)])
    assert not books.reap(), "no session can be made any more"
    *_, ended, forgotten = books.said()
    assert (ended["op"], forgotten) == ("ended", ["forgotten", TEMPLATE])
    assert next(ends)[0] == LEAF, "not looked at"
