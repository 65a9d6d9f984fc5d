"""What a program holds open when its call ends, in a child that has the descriptors of a session."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.guest.children import fork

from saccade.guest import descriptors, wire
from saccade.guest.descriptors import program_fds, standing

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")


def in_session(folder: Path, function: Callable[[], Any]) -> Any:
    """What `function` returns (as JSON) in a child whose workspace is `folder`, where it stands."""
    reader, writer = os.pipe()
    pid = fork()
    if pid == 0:
        answer: Any = {}
        try:
            os.dup2(writer, wire.SOCKET_FD)
            take(wire.WORKSPACE_FD, os.open(folder, os.O_RDONLY))
            take(wire.OUTBOX_FD, os.memfd_create("outbox"))
            take(wire.STDOUT_FD, os.memfd_create("stdout"))
            take(wire.STDERR_FD, os.memfd_create("stderr"))
            take(0, os.open(os.devnull, os.O_RDWR))
            os.dup2(wire.STDOUT_FD, 1)
            os.dup2(wire.STDERR_FD, 2)
            os.closerange(3, wire.WORKSPACE_FD)
            os.closerange(wire.FIRST_FREE_FD, 400)
            os.chdir(folder)
            answer = {"value": function()}
        except BaseException:
            answer = {"failed": traceback.format_exc()}
        finally:
            os.write(wire.SOCKET_FD, json.dumps(answer).encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = json.loads(pipe.read())
    os.waitpid(pid, 0)
    assert "failed" not in answer, answer["failed"]
    return answer["value"]


def take(target: int, fd: int) -> None:
    os.dup2(fd, target)
    if fd != target:
        os.close(fd)


def usable(fd: int) -> bool:
    """Whether it can be asked for its position or read: not so with what was buried, whose number stays taken."""
    os.fstat(fd)
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL))
    except OSError:
        return False
    return True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with the files `a` and `d/b`, beside another one with other contents."""
    for name in ("w", "other"):
        (tmp_path / name / "d").mkdir(parents=True)
        (tmp_path / name / "a").write_text(f"{name} 0123456789")
        (tmp_path / name / "d" / "b").write_text(f"{name} b")
    (tmp_path / "outside").write_text("outside")
    return tmp_path / "w"


def removed() -> int:
    fd = os.open("gone", os.O_CREAT | os.O_RDWR)
    os.unlink("gone")
    return fd


def polled() -> int:
    poll = select.epoll()
    return os.dup(poll.fileno())


NOT_KEPT: dict[str, tuple[Callable[[], Any], str]] = {
    "pipe": (lambda: os.pipe()[0], "a pipe"),
    "socket": (lambda: socket.socketpair()[0].detach(), "a socket"),
    "counter": (lambda: os.eventfd(0), "an object of the kernel (eventfd)"),
    "poll": (polled, "an object of the kernel (eventpoll)"),
    "removed": (removed, "a file without a name"),
    "memory": (lambda: os.memfd_create("mine"), "a file without a name"),
    "proc": (lambda: os.open("/proc/self/stat", os.O_RDONLY), "a file of /proc"),
    "outside": (lambda: os.open("../outside", os.O_RDWR), "a file outside the workspace"),
    "outside, written only": (lambda: os.open("../outside", os.O_WRONLY), "a file outside the workspace"),
    "terminal": (lambda: os.openpty()[0], "a device"),
}
KEPT: dict[str, Callable[[], int]] = {
    "own": lambda: os.open("a", os.O_RDWR),
    "own folder": lambda: os.open("d", os.O_RDONLY),
    "top": lambda: os.open(".", os.O_RDONLY),
    "device": lambda: os.open(os.devnull, os.O_RDWR),
    "read outside": lambda: os.open("../outside", os.O_RDONLY),
}


@pytest.mark.parametrize("name", NOT_KEPT)
def test_what_cannot_be_kept_is_closed_with_a_word_and_its_number_stays_taken(name: str, folder: Path) -> None:
    hold, what = NOT_KEPT[name]

    def close() -> Any:
        fd = hold()
        before = usable(fd)
        notes = descriptors.close_what_cannot_be_kept([fd, 250])
        return fd, notes, before, usable(fd)

    fd, notes, before, after = in_session(folder, close)
    assert (before, after) == (True, False)
    [note] = notes
    assert note.startswith(f"{what} was closed when the code ended (descriptor {fd})")


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept(name: str, folder: Path) -> None:
    def close() -> Any:
        fd = KEPT[name]()
        return descriptors.close_what_cannot_be_kept([fd]), usable(fd)

    assert in_session(folder, close) == [[], True]


def test_bound_pictures_are_closed_without_a_word_and_paths_stay(folder: Path) -> None:
    def close() -> Any:
        fds = [os.memfd_create("saccade-image x"), os.memfd_create("saccade-array x")]
        notes = descriptors.close_what_cannot_be_kept([*fds, os.open("a", os.O_PATH)])
        return notes, [usable(fd) for fd in fds]

    assert in_session(folder, close) == [[], [False, False]]


def test_a_current_folder_that_was_removed(folder: Path) -> None:
    def close() -> Any:
        os.mkdir("e")
        os.chdir("e")
        os.rmdir("../e")
        return descriptors.close_what_cannot_be_kept([]), os.getcwd()

    notes, where = in_session(folder, close)
    assert "the current folder was removed" in notes[0]
    assert where == str(folder)


def reads(fds: list[int]) -> list[str]:
    return [os.read(fd, 1).decode() for fd in fds]


def test_positions_flags_and_place_are_put_back(folder: Path) -> None:
    def play() -> Any:
        first = os.open("a", os.O_RDWR | os.O_APPEND)
        twin, other, device = os.dup(first), os.open("a", os.O_RDWR), os.open("/dev/zero", os.O_RDONLY)
        os.lseek(first, 2, 0)
        os.lseek(other, 2, 0)
        os.chdir("d")
        fds = [first, twin, other, device, os.open("../a", os.O_PATH)]
        kept = standing(fds)
        says = [[kept.files[fd].path, kept.files[fd].position, kept.files[fd].twin] for fd in fds[:3]]
        os.lseek(first, 7, 0)
        os.lseek(other, 9, 0)
        for fd, flags in ((first, 0), (other, os.O_APPEND)):
            fcntl.fcntl(fd, fcntl.F_SETFL, flags)
        os.chdir("/")
        os.write(1, b"printed")
        os.lseek(wire.OUTBOX_FD, 5, 0)
        fcntl.fcntl(wire.OUTBOX_FD, fcntl.F_SETFL, os.O_APPEND)
        fcntl.fcntl(wire.STDOUT_FD, fcntl.F_SETFL, os.O_APPEND)
        anew = descriptors.put_back(kept)
        appends = [bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND) for fd in (first, other, wire.OUTBOX_FD, 1)]
        starts = [os.lseek(fd, 0, os.SEEK_CUR) for fd in (1, wire.OUTBOX_FD)]
        printed = os.pread(1, 99, 0).strip(b"\0").decode()
        return says, anew, reads([first, twin, other]), appends, starts, printed, os.getcwd()

    says, anew, read, appends, starts, printed, where = in_session(folder, play)
    assert says == [["a", 2, None], ["a", 2, 3], ["a", 2, None]]
    assert not anew
    assert read == ["0", "1", "0"]
    assert appends == [True, False, False, False]
    assert (starts, printed) == ([0, 0], "")
    assert where == f"{folder}/d"


def test_a_file_that_is_another_now_is_opened_again(folder: Path) -> None:
    def play() -> Any:
        fd = os.open("a", os.O_RDONLY)
        twin, away = os.dup(fd), os.open("d/b", os.O_RDONLY)
        os.lseek(fd, 3, 0)
        kept = standing([fd, twin, away])
        os.rename("a", "old")
        Path("a").write_text("another")
        os.unlink("d/b")
        return descriptors.put_back(kept), reads([fd, twin]), usable(away)

    assert in_session(folder, play) == [True, ["t", "h"], False]


def test_a_branch_opens_everything_for_itself(folder: Path) -> None:
    def branch() -> Any:
        file, device, outside = os.open("a", os.O_RDWR), os.open("/dev/zero", 0), os.open("../outside", os.O_RDONLY)
        twin, path = os.dup(file), os.open("a", os.O_PATH)
        os.lseek(file, 2, 0)
        os.lseek(outside, 3, 0)
        kept = standing([file, device, outside, twin, path])
        os.open("d", os.O_RDONLY)  # since then
        take(wire.WORKSPACE_FD, os.open("../other", os.O_RDONLY))
        descriptors.take_along(kept)
        return reads([file, twin, outside]), program_fds() == sorted([file, device, outside, twin, path])

    read, alone = in_session(folder, branch)
    assert read == ["h", "e", "s"]
    assert alone


@pytest.mark.parametrize("count", [True, False], ids=["told", "not told"])
def test_room_that_is_left(count: bool, folder: Path) -> None:
    """As on a kernel that tells how many descriptors are open, and on an older one."""

    def fill() -> Any:
        if not count:
            descriptors._count = lambda: 0
        resource.setrlimit(resource.RLIMIT_NOFILE, (140, 140))
        for _ in range(140 - 16 - 8):  # eight are the session's own
            os.open(os.devnull, os.O_RDONLY)
        full = descriptors.make_room(), len(program_fds())
        os.open(os.devnull, os.O_RDONLY)
        return full, descriptors.make_room(), program_fds()

    full, said, left = in_session(folder, fill)
    assert full == [None, 116]
    assert said == (
        "the code left 117 files open, and only 116 can stay open when it has ended. "
        "Close those that are not needed any more."
    )
    assert left == []


@pytest.fixture(params=["told", "not told"])
def _count_of_descriptors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a kernel that tells how many are open, and on an older one; those of a session are all taken."""
    if request.param == "not told":
        monkeypatch.setattr(descriptors, "_count", lambda: 0)
    taken = []
    for fd in range(wire.WORKSPACE_FD, wire.FIRST_FREE_FD):
        try:
            os.fstat(fd)
        except OSError:
            taken.append(os.dup2(0, fd))
    yield
    for fd in taken:
        os.close(fd)


@pytest.mark.usefixtures("_count_of_descriptors")
def test_files_pipes_and_mere_paths_are_found(tmp_path: Path) -> None:
    before = program_fds()
    reader, writer = os.pipe()
    file = os.open(tmp_path / "f", os.O_CREAT | os.O_RDWR)
    path = os.open(tmp_path, os.O_PATH)
    try:
        assert sorted({*before, reader, writer, file, path}) == program_fds()
    finally:
        for fd in (reader, writer, file, path):
            os.close(fd)
    assert program_fds() == before


@pytest.mark.usefixtures("_count_of_descriptors")
def test_what_was_known_is_looked_at_again(tmp_path: Path) -> None:
    before = program_fds()
    file, path = os.open(tmp_path, os.O_RDONLY), os.open(tmp_path, os.O_PATH)
    try:
        known = program_fds()
        assert program_fds(known) == known == sorted({*before, file, path})
        os.dup2(path, file)
        assert program_fds(known) == known
        os.close(file)
        assert program_fds(known) == sorted({*before, path})
        # As many as were known, but others.
        other = os.open(tmp_path, os.O_PATH)
        moved = fcntl.fcntl(other, fcntl.F_DUPFD_CLOEXEC, other + 1)
        os.close(other)
        assert program_fds(known) == sorted({*before, path, moved})
        os.close(moved)
    finally:
        os.close(path)
    assert program_fds(before) == before
