"""A leaf and a keeper without a jail: what they do with each message, and what stays of a call."""

from __future__ import annotations

import importlib
import json
import logging
import mmap
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.guest.children import fork, in_child

from saccade.guest import descriptors, inspection, session, shown, wire
from saccade.guest.config import GuestConfig
from saccade.guest.fork import Forker
from saccade.guest.session import Interpreter, remap
from saccade.guest.wire import layout
from saccade.guest.workspace import Changes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
LIMITS = {"output_bytes": 4096, "total_pixels": 1000, "workspace_files": 3}
Look = Callable[[Interpreter], Any]


@dataclass
class Leaf:
    """The host's end."""

    pid: int
    sock: socket.socket
    outbox: int

    def tell(self, op: str, fds: Sequence[int] = (), **more: Any) -> None:
        wire.send(self.sock, {"to": self.pid, "op": op, **more}, fds)

    def hear(self) -> Any:
        received = wire.receive(self.sock)
        assert received is not None
        return received[0]

    def call(self, code: str, keep: bool = False) -> dict[str, Any]:
        """Let it run this and end; its report."""
        self.tell("run", call=7, code=code, keep=keep)
        said = self.hear()
        assert (said["op"], said["call"]) == ("result", 7)
        report: dict[str, Any] = json.loads(os.pread(self.outbox, said["length"], 0))
        return report

    def printed(self, report: dict[str, Any]) -> str:
        return os.pread(self.outbox, report["stdout"][0], layout(LIMITS["output_bytes"], 1).stdout).decode()


@contextmanager
def leading(folder: Path, look: Look, **replaced: Any) -> Iterator[Leaf]:
    """A leaf in `folder`, which says at the end what `look` finds. `replaced` are other functions of its module."""
    sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(30)
    outbox = os.memfd_create("outbox")
    os.ftruncate(outbox, layout(LIMITS["output_bytes"], LIMITS["total_pixels"]).size)
    pid = fork()
    if pid == 0:
        try:
            state = begin(folder, theirs, outbox)
            for name, other in replaced.items():
                setattr(session, name, other)
            session.lead(state)
            wire.send(state.sock, {"found": look(state)})
        finally:
            os._exit(3)
    theirs.close()
    leaf = Leaf(pid, sock, outbox)
    try:
        assert leaf.hear() == {"op": "ready", "pid": pid}
        yield leaf
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        sock.close()
        os.close(outbox)


def begin(folder: Path, sock: socket.socket, outbox: int) -> Interpreter:
    """In a child: stand where a session does."""
    importlib.reload(warnings)  # pytest records warnings and log lines
    logging.getLogger().handlers.clear()
    given = {
        **{wire.WORKSPACE_FD: os.open(folder, os.O_RDONLY), wire.SOCKET_FD: sock.fileno(), wire.OUTBOX_FD: outbox},
        **{wire.STDOUT_FD: os.memfd_create("stdout"), wire.STDERR_FD: os.memfd_create("stderr")},
    }
    for target, fd in given.items():
        os.dup2(fd, target)
    for target, fd in ((0, os.open(os.devnull, os.O_RDWR)), (1, wire.STDOUT_FD), (2, wire.STDERR_FD)):
        os.dup2(fd, target)
    os.closerange(3, wire.WORKSPACE_FD)
    os.closerange(wire.FIRST_FREE_FD, 400)
    os.chdir(folder)
    session._kill = lambda *how: KILLED.append([*how])
    state = session.new_interpreter(GuestConfig(workspace=str(folder), preload=("math",), **LIMITS), Forker())
    state.workspace.commit()
    state.standing = descriptors.standing([])
    return state


KILLED: list[list[int]] = []
STOPPED = [[0, int(signal.SIGSTOP)]]


def kept(state: Interpreter) -> Any:
    """Signals that it has sent, whether it hears any, and what is in its workspace and was not kept."""
    deaf = len(signal.pthread_sigmask(signal.SIG_BLOCK, ())) == len(session.ALL_SIGNALS) - 2  # but KILL and STOP
    return [KILLED, deaf, [*state.workspace.changes().created]]


def test_a_call_that_ends_well_is_kept_and_stops_the_process(tmp_path: Path) -> None:
    code = "import signal\nopen('new', 'w').close()\nprint(signal.pthread_sigmask(signal.SIG_BLOCK, ()), math.pi)"
    with leading(tmp_path, kept) as leaf:
        report = leaf.call(code)
        assert (report["status"], leaf.printed(report)) == ("ok", "set() 3.141592653589793\n"), "it hears signals"
        assert leaf.hear() == {"found": [STOPPED, True, []]}


@pytest.mark.parametrize(("keep", "found"), [(False, [[], True, ["new"]]), (True, [STOPPED, True, []])])
def test_a_call_that_fails_is_kept_where_that_is_wanted(keep: bool, found: list[Any], tmp_path: Path) -> None:
    with leading(tmp_path, kept) as leaf:
        assert leaf.call("open('new', 'w').close()\n1 / 0", keep)["status"] == "error"
        assert leaf.hear() == {"found": found}


def test_a_call_that_leaves_too_many_files_is_refused(tmp_path: Path) -> None:
    with leading(tmp_path, kept) as leaf:
        report = leaf.call("for name in 'abcd': open(name, 'w').close()")
        assert (report["status"], "files" in report["traceback"]) == ("refused", True)


def test_what_is_open_at_the_end_stands_or_is_closed_with_a_word(tmp_path: Path) -> None:
    def look(state: Interpreter) -> Any:
        return [state.standing.folder, [file.path for file in state.standing.files.values()]]

    with leading(tmp_path, look) as leaf:
        report = leaf.call("import os\nos.mkdir('d')\nos.chdir('d')\nf = open('f', 'w')\np = os.pipe()")
        assert [note.split(" was closed")[0] for note in report["notes"]] == ["a pipe", "a pipe"]
        folder, paths = leaf.hear()["found"]
        assert folder == "d"
        assert "d/f" in paths
    with leading(tmp_path, look) as leaf:
        leaf.call("os.chdir('d')\nf = open('f')\n1 / 0")
        folder, paths = leaf.hear()["found"]
        assert folder == "", "as it stood before"
        assert "d/f" not in paths


def test_messages_for_one_that_has_died_are_thrown_away(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with leading(tmp_path, kept) as leaf:
        wire.send(leaf.sock, {"to": leaf.pid + 1, "op": "bind", "specs": [7]}, [writer])
        os.close(writer)
        assert os.read(reader, 1) == b"", "its descriptors are closed"
        assert leaf.call("1")["value"] == "1"
    os.close(reader)


def test_when_the_host_is_gone_it_ends(tmp_path: Path) -> None:
    with leading(tmp_path, kept) as leaf:
        leaf.sock.shutdown(socket.SHUT_WR)
        os.waitid(os.P_PID, leaf.pid, os.WEXITED | os.WNOWAIT)
        assert (ended := os.waitid(os.P_PID, leaf.pid, os.WEXITED | os.WNOWAIT)) is not None
        assert (ended.si_code, ended.si_status) == (os.CLD_EXITED, 0)


@pytest.mark.parametrize("kind", ["file", "value"])
def test_files_that_were_given_are_no_doing_of_a_call(kind: str, tmp_path: Path) -> None:
    def look(state: Interpreter) -> Any:
        session.undo_traces(state)
        return sorted(os.listdir(tmp_path))

    memfd = os.memfd_create("given")
    os.write(memfd, b"given")
    with leading(tmp_path, look) as leaf:
        (tmp_path / "loose").touch()
        leaf.tell("bind", [memfd], specs=[{"kind": kind, "path": "given", "fd": 0, "name": "x", "value": 5}])
        leaf.call("import os\n[os.unlink(name) for name in os.listdir()]\n1 / 0")
        assert leaf.hear() == {"found": ["given", "loose"] if kind == "file" else []}
    os.close(memfd)


def test_a_branch_has_what_it_is_given_and_the_files_of_its_origin(tmp_path: Path) -> None:
    origin, own = tmp_path / "origin", tmp_path / "own"
    for folder in (origin, own):
        folder.mkdir()
    (origin / "d").mkdir()
    (origin / "d" / "file").write_text("kept")
    sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(30)
    given = [theirs.fileno(), os.memfd_create("outbox"), os.open(own, os.O_RDONLY), *map(os.memfd_create, ("o", "e"))]
    remapped: list[Any] = []

    def look(state: Interpreter) -> Any:
        numbers = (wire.SOCKET_FD, wire.OUTBOX_FD, wire.WORKSPACE_FD, wire.STDOUT_FD, wire.STDERR_FD, 1, 2)
        inodes = [os.fstat(fd).st_ino for fd in numbers]
        inherited = [fd for fd in numbers[:5] if os.get_inheritable(fd)]
        return [
            inodes,
            inherited,
            descriptors.program_fds(),
            os.getcwd(),
            remapped,
            state.workspace.changes() == Changes(),
        ]

    def stand(state: Interpreter, *given: Any) -> None:
        os.chdir("d")
        state.standing = descriptors.standing([])
        become_branch(state, *given)

    become_branch = session.become_branch
    with leading(origin, look, become_branch=stand, remap=remapped.append) as leaf:
        leaf.tell("branch", given, maps=[[1]])
        received = wire.receive(sock)
        assert received is not None
        assert received[0] == {"op": "adopt"}
        received = wire.receive(sock)
        assert received is not None
        inodes, inherited, program, folder, maps, same = received[0]["found"]
        assert inodes == [os.fstat(given[number]).st_ino for number in (0, 1, 2, 3, 4, 3, 4)]
        assert (inherited, program, folder, maps, same) == ([], [], str(own / "d"), [[[1]]], True)
    assert (own / "d" / "file").read_text() == "kept"
    for fd in given[1:]:
        os.close(fd)
    theirs.close()
    sock.close()


def test_no_font_stays_open() -> None:
    def run() -> list[int]:
        from matplotlib import font_manager, mathtext

        font_manager.get_font(font_manager.findfont("DejaVu Sans"))
        mathtext.MathTextParser("agg").parse("$x$")
        caches: Any = (font_manager._get_font, mathtext.MathTextParser._parse_cached)
        before = [cache.cache_info().currsize > 0 for cache in caches]
        session.forget_fonts()
        return [*before, *(cache.cache_info().currsize for cache in caches)]

    assert in_child(run) == [True, True, 0, 0]


def test_a_new_interpreter_is_main_and_shows_its_pictures(tmp_path: Path) -> None:
    def look(state: Interpreter) -> Any:
        used = shown.current() is state.shown
        names = sorted(name for name in state.module.__dict__ if not name.startswith("_"))
        return [sys.modules["__main__"] is state.module, used, names, state.workspace.fd, state.outbox.fd]

    with leading(tmp_path, look) as leaf:
        assert leaf.call("__name__")["value"] == "'__main__'"
        assert leaf.hear()["found"] == [True, True, ["math"], wire.WORKSPACE_FD, wire.OUTBOX_FD]


PAGE = mmap.PAGESIZE
READ, WRITE = mmap.PROT_READ, mmap.PROT_WRITE


def test_mappings_show_the_files_of_the_present_workspace(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_bytes(b"0" * PAGE + name.encode() * PAGE)

    def move() -> Any:
        os.chdir(tmp_path / "old")
        fd = os.open("f", os.O_RDWR)
        kinds = ((mmap.MAP_SHARED, READ | WRITE), (mmap.MAP_SHARED, READ), (mmap.MAP_PRIVATE, READ | WRITE))
        shared, readable, private = (mmap.mmap(fd, PAGE, flags, prot, offset=PAGE) for flags, prot in kinds)
        private[:4] = b"mine"
        maps = inspection.workspace_maps(os.getpid(), str(tmp_path / "old"))
        before = shared[:3].decode()
        os.dup2(os.open(tmp_path / "new", os.O_RDONLY), wire.WORKSPACE_FD)
        os.chmod(tmp_path / "new" / "f", 0o400)
        open_before = len(os.listdir("/proc/self/fd"))
        remap(maps)
        shared[3:6] = b"xyz"
        private[4:8] = b"mind"
        after = [view[:8].decode() for view in (shared, readable, private)]
        left = inspection.workspace_maps(os.getpid(), str(tmp_path / "old"))
        now = inspection.workspace_maps(os.getpid(), str(tmp_path / "new"))
        same = [(m.start, m.end, m.mode, m.offset) for m in now] == [
            (m.start, m.end, m.mode, m.offset) for m in maps if m.mode.endswith("s")
        ]
        return len(maps), before, after, left, same, len(os.listdir("/proc/self/fd")) - open_before

    count, before, after, left, same, opened = in_child(move)
    assert (count, before) == (3, "old")
    assert after == ["newxyzne", "newxyzne", "minemind"]
    assert left == [], "nothing of the old workspace is mapped any more"
    assert same
    assert opened == 0
    assert (tmp_path / "new" / "f").read_bytes()[PAGE : PAGE + 8] == b"newxyzne"
    assert (tmp_path / "old" / "f").read_bytes()[PAGE : PAGE + 8] == b"oldoldol"
