"""What a process holds open and has mapped, seen from outside: a child holds one thing each time."""

from __future__ import annotations

import dataclasses
import mmap
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.guest.children import NOBODY, fork, in_child, unmap_what_is_shared

from saccade.guest import inspection
from saccade.guest.inspection import Belongings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
PAGE = mmap.PAGESIZE
_READY = 900


@contextmanager
def holding(hold: Callable[[], object], keep: Sequence[int] = ()) -> Iterator[int]:
    """A child with nothing open but /dev/null as 0 to 2, `keep`, and what `hold` opens (from 3 on) and returns."""
    reader, writer = os.pipe()
    pid = fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            os.dup2(writer, _READY)
            null = os.open(os.devnull, os.O_RDWR)
            for fd in range(3):
                os.dup2(null, fd)
            for fd in set(range(3, 300)) - {_READY, *keep}:
                with suppress(OSError):
                    os.close(fd)
            os.chdir("/")
            unmap_what_is_shared()
            held = hold()
            os.write(_READY, b"x")
            os.close(_READY)
            while held is not inspection:
                signal.pause()
        finally:
            os._exit(1)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as pipe:
            assert pipe.read() == b"x", "the child could not open it"
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.fixture
def own(tmp_path: Path) -> Belongings:
    """A session whose workspace holds the file `a`, beside that of another one."""
    base = tmp_path / "base"
    for name in ("1", "12", "2"):
        (base / name).mkdir(parents=True)
        (base / name / "a").write_bytes(bytes(3 * PAGE))
    (tmp_path / "elsewhere").write_bytes(bytes(PAGE))
    return Belongings(str(base / "1"), str(base), 0, frozenset())


def removed(path: str) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.unlink(path)
    return fd


def opened(path: str) -> int:
    return os.open(path, os.O_RDONLY)


HELD: dict[str, tuple[Callable[[str], object], str | None]] = {
    "nothing": (lambda base: None, None),
    "harmless devices": (lambda base: [opened(f"/dev/{n}") for n in ("zero", "full", "random", "urandom")], None),
    "an own file": (lambda base: opened(f"{base}/1/a"), None),
    "an own folder": (lambda base: os.open(f"{base}/1", os.O_RDONLY), None),
    "a file of all": (lambda base: opened("/etc/passwd"), None),
    "another's file": (lambda base: opened(f"{base}/2/a"), "a file of another process or session"),
    "one whose name begins alike": (lambda base: opened(f"{base}/12/a"), "a file of another process or session"),
    "another's folder": (lambda base: os.open(f"{base}/12", os.O_RDONLY), "a file of another process or session"),
    "a file of /proc": (lambda base: opened("/proc/self/status"), "a file of another process or session"),
    "a removed file": (lambda base: removed(f"{base}/1/gone"), "a file without a name"),
    "a pipe": (lambda base: os.pipe(), "a pipe"),
    "sockets": (lambda base: socket.socketpair(), "a socket"),
    "a counter": (lambda base: os.eventfd(0), "eventfd"),
    "a poll": (lambda base: select.epoll(), "eventpoll"),
    "shared memory": (lambda base: os.memfd_create("x"), "memory shared by descriptor"),
    "a terminal": (lambda base: os.openpty(), "the device /dev/"),
}


@pytest.mark.parametrize("name", HELD)
def test_what_may_be_open(name: str, own: Belongings) -> None:
    hold, what = HELD[name]
    with holding(lambda: hold(own.base)) as pid:
        found = inspection.improper(pid, own, inspection.shared_maps(pid))
    if what is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith(what)
        assert found.endswith(" is still open (descriptor 3): close it before the code ends")


def test_the_sessions_own_socket_and_memory_may_be_open(own: Belongings) -> None:
    memory = os.memfd_create("outbox")
    ours, theirs = socket.socketpair()
    inodes = [os.fstat(fd).st_ino for fd in (theirs.fileno(), memory)]
    allowed = Belongings(own.workspace, own.base, inodes[0], frozenset(inodes[1:]))
    with holding(lambda: None, keep=(theirs.fileno(), memory)) as pid:
        assert inspection.improper(pid, allowed, []) is None
        assert inspection.improper(pid, own, []) is not None
    # A file that has the number of such memory, on another device, is none.
    inode = os.stat(f"{own.base}/2/a").st_ino
    with holding(lambda: opened(f"{own.base}/2/a")) as pid:
        assert inspection.improper(pid, Belongings(own.workspace, own.base, 0, frozenset({inode})), []) is not None
    os.close(memory)
    ours.close()
    theirs.close()


@pytest.mark.parametrize(("folder", "allowed"), [("1", True), ("2", False), ("..", True)])
def test_where_it_may_stand(folder: str, allowed: bool, own: Belongings) -> None:
    with holding(lambda: os.chdir(f"{own.base}/{folder}")) as pid:
        found = inspection.improper(pid, own, [])
    wrong = "its current folder is not in its workspace: close it before the code ends"
    assert found == (None if allowed else wrong)


def mapped(path: str, flags: int = mmap.MAP_SHARED, access: int = mmap.PROT_READ | mmap.PROT_WRITE) -> mmap.mmap:
    """The second page of a file."""
    fd = os.open(path, os.O_RDWR)
    found = mmap.mmap(fd, PAGE, flags=flags, prot=access, offset=PAGE)
    os.closerange(3, _READY)  # the mapping has a descriptor of its own
    return found


MAPPED: dict[str, tuple[Callable[[str], object], str | None]] = {
    "an own file": (lambda base: mapped(f"{base}/1/a"), None),
    "another's file": (lambda base: mapped(f"{base}/2/a"), "/base/2/a"),
    "shared memory": (lambda base: mmap.mmap(-1, PAGE), "/dev/zero"),
}


@pytest.mark.parametrize("name", MAPPED)
@pytest.mark.parametrize("asked", ["by map", "all at once"])
def test_what_may_be_mapped_and_shared(name: str, asked: str, own: Belongings, monkeypatch: pytest.MonkeyPatch) -> None:
    if asked == "all at once":  # as before Linux 6.11
        monkeypatch.setattr(inspection, "_PROCMAP_QUERY", 0)
    hold, where = MAPPED[name]
    with holding(lambda: hold(own.base)) as pid:
        shared = inspection.shared_maps(pid)
        found = inspection.improper(pid, own, shared)
        assert inspection.foreign_maps(pid, own) is (name == "another's file")
    if where is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith("memory that is shared with ")
        assert found.endswith(f"{where} is still mapped: close it before the code ends")


@pytest.mark.parametrize("asked", ["by map", "all at once"])
def test_shared_mappings_are_told_apart(asked: str, own: Belongings, monkeypatch: pytest.MonkeyPatch) -> None:
    if asked == "all at once":
        monkeypatch.setattr(inspection, "_PROCMAP_QUERY", 0)
    path = f"{own.workspace}/a"

    def hold() -> object:
        return mapped(path), mapped(path, access=mmap.PROT_READ), mapped(path, flags=mmap.MAP_PRIVATE)

    with holding(hold) as pid:
        found = [known for known in inspection.shared_maps(pid) if known.path == path]
        assert sorted((known.mode, known.offset, known.end - known.start) for known in found) == [
            ("r--s", PAGE, PAGE),
            ("rw-s", PAGE, PAGE),
        ]
        kept = inspection.in_workspace(inspection.shared_maps(pid), own)
        assert kept == [known._replace(path="a") for known in found]
        known: inspection.Known = {}
        for _ in range(2):  # what is mapped of libraries is looked at once
            [private] = inspection.private_maps(pid, own, known)
            assert private._replace(start=0, end=0) == (0, 0, "rw-p", PAGE, path)
        assert private not in found
        assert inspection.private_maps(pid, dataclasses.replace(own, workspace=f"{own.base}/2"), {}) == []
        os.unlink(path)
        assert [each.start for each in inspection.private_maps(pid, own, known)] == [private.start]


def test_a_branch_has_nothing_mapped_of_others_even_for_itself(own: Belongings) -> None:
    for folder, foreign in (("1", False), ("2", True)):
        path = f"{own.base}/{folder}/a"
        with holding(lambda: None) as origin, holding(lambda at=path: mapped(at, flags=mmap.MAP_PRIVATE)) as pid:
            assert inspection.foreign_maps(pid, own) is foreign
            why = "memory of another session is still mapped" if foreign else None
            assert inspection.improper_branch(pid, own, origin) == why


@pytest.mark.parametrize("path", ["/dev/zero", "/etc/passwd"])
def test_a_branch_opens_for_itself_what_its_origin_holds_open(path: str, own: Belongings) -> None:
    file, merely = opened(path), os.open(path, os.O_PATH)
    with holding(lambda: None, keep=(file, merely)) as origin:
        with holding(lambda: None, keep=(file,)) as pid:
            assert inspection.shares_description(pid, origin)
            assert inspection.improper_branch(pid, own, origin) == (
                "a file is still open that the origin has open, too"
            )
        with holding(lambda: opened(path), keep=(merely,)) as pid:
            assert not inspection.shares_description(pid, origin)
            assert inspection.improper_branch(pid, own, origin) is None
        with holding(lambda: os.pipe()) as pid:
            assert str(inspection.improper_branch(pid, own, origin)).startswith("a pipe")
    os.close(file)
    os.close(merely)


def test_what_runs_beside_it_is_killed() -> None:
    def start() -> None:
        if os.fork() == 0:
            os.close(_READY)
            signal.pause()

    with holding(lambda: None) as pid:
        assert inspection.left_running(pid, 1) is None
        assert "join every thread" in str(inspection.left_running(pid, 2))
    with holding(start) as pid:
        assert str(inspection.left_running(pid, 1)).startswith(inspection.STRAY)
        assert os.getpgid(pid) == pid


def test_who_may_be_looked_at() -> None:
    with holding(lambda: None) as pid:
        assert inspection.visible(pid)
        if os.geteuid() == 0:
            assert in_child(lambda: inspection.visible(pid), user=NOBODY) is False
