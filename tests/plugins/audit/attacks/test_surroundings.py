"""What lies around an attacked sandbox, and that whoever reaches it is noticed: each is reached once from here."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image
from tests.guest.children import fork, until
from tests.sandbox.providers import linux_only

from saccade.plugins.audit.attacks import runner
from saccade.plugins.audit.attacks.runner import PREFIX, Canaries, descendants, resident_bytes, strays

pytestmark = linux_only


@pytest.fixture(scope="module")
def around() -> Iterator[Canaries]:
    with Canaries() as opened:
        yield opened


def shared_memory(key: int) -> int:
    """Identifier of the segment, -1 if there is none."""
    return int(ctypes.CDLL(None).shmget(key, 0, 0))


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_everything_is_there_as_it_is_told(around: Canaries) -> None:
    targets = around.targets()
    values = list(around.secrets.values())
    assert len(set(values)) == 4
    assert all(value.startswith(PREFIX) and len(value) == len(PREFIX) + 24 for value in values)
    assert targets["secret_prefix"] == PREFIX
    assert not any(value in str(targets) for value in values), "where they are, never what they hold"
    assert around.secrets["environment"] in os.environ.values()
    assert Path(str(targets["canary_file"])).read_text() == around.secrets["file"]
    with Image.open(str(targets["canary_picture"])) as picture:
        assert (picture.size, picture.tobytes()) == ((16, 16), around.pixels)
    modes = [os.stat(str(targets[name])).st_mode & 0o777 for name in ("canary_folder", "canary_file", "canary_picture")]
    assert modes == [0o777, 0o666, 0o666], "nothing but the sandbox keeps anyone from them"
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(shared_memory(int(targets["sysv_key"])), None, 0)
    assert ctypes.string_at(address).decode() == around.secrets["memory"]
    libc.shmdt(ctypes.c_void_p(address))
    assert (targets["host_pid"], targets["token"]) == (os.getpid(), around.token)
    assert targets["canary_pid"] in descendants()
    assert around.damage() == []


def reach_tcp(around: Canaries) -> Callable[[], object]:
    return socket.create_connection(("127.0.0.1", around.port)).close


def reach_udp(around: Canaries) -> Callable[[], object]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", ("127.0.0.1", around.udp_port))
    return lambda: None


def reach(address: str) -> Callable[[], object]:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(address)
    return sock.close


def stop_bystander(around: Canaries) -> Callable[[], object]:
    around.bystander.send_signal(signal.SIGSTOP)

    def go_on() -> None:
        around.bystander.send_signal(signal.SIGCONT)
        until(lambda: runner._state(around.bystander.pid) == "S")

    return go_on


def write(path: Path, text: str, before: str | None = None) -> Callable[[], object]:
    path.write_text(text)
    return path.unlink if before is None else lambda: path.write_text(before)


def make_memory(around: Canaries) -> Callable[[], object]:
    segment = ctypes.CDLL(None).shmget(around.sysv_new_key, 10, 0o1600)
    return lambda: ctypes.CDLL(None).shmctl(segment, 0, None)


def serve(around: Canaries) -> Callable[[], object]:
    return socket.create_server(("127.0.0.1", around.free_port)).close


REACHED: dict[str, Callable[[Canaries], Callable[[], object]]] = {
    "a connection reached the host's TCP": reach_tcp,
    "a connection reached the host's UDP": reach_udp,
    "a connection reached the host's abstract socket": lambda around: reach(f"\0{around.abstract}"),
    "a connection reached the host's Unix socket": lambda around: reach(around.unix_path),
    "a process of the host was stopped or killed": stop_bystander,
    "a file of the host was changed": lambda around: write(around.canary, "x", around.secrets["file"]),
    "files were made outside the workspace: ['new']": lambda around: write(around.folder / "new", ""),
    "a file was made in the host's /tmp": lambda around: write(Path(f"/tmp/saccade-attack-{around.token}"), ""),
    "shared memory of the attack is left on the host": make_memory,
    "the guest offered a service to the host's network": serve,
}


@pytest.mark.parametrize("trace", REACHED)
def test_whatever_is_reached_leaves_a_trace_and_is_told_once(trace: str, around: Canaries) -> None:
    undo = REACHED[trace](around)
    found: set[str] = set()
    until(lambda: bool(found.update(around.damage()) or found))
    undo()
    assert found == {trace}
    end = time.monotonic() + 5
    while around.damage() and time.monotonic() < end:  # a service may be seen once more on its way out
        time.sleep(0.05)
    assert around.damage() == []


def test_a_canary_that_is_gone_was_changed(around: Canaries) -> None:
    around.canary.unlink()
    assert around.damage() == ["a file of the host was changed"]
    around.canary.write_text(around.secrets["file"])


def test_all_of_it_is_taken_away_again() -> None:
    libc, earlier, adopts = ctypes.CDLL(None), ctypes.c_int(), ctypes.c_int()
    libc.prctl(37, ctypes.byref(earlier), 0, 0, 0)
    libc.prctl(36, 0, 0, 0, 0)
    with Canaries() as around:
        targets, variable = around.targets(), f"CANARY_{around.token}"
        assert variable in os.environ
        libc.prctl(37, ctypes.byref(adopts), 0, 0, 0)
        assert adopts.value == 1, "what the sandbox leaves stays below this process"
    libc.prctl(37, ctypes.byref(adopts), 0, 0, 0)
    libc.prctl(36, earlier.value, 0, 0, 0)
    assert adopts.value == 0
    assert variable not in os.environ
    assert not os.path.exists(str(targets["canary_folder"]))
    assert targets["canary_pid"] not in descendants()
    assert shared_memory(int(targets["sysv_key"])) == -1
    assert not listening(int(targets["port"]))


def test_what_was_laid_out_before_a_failure_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Canaries) -> None:
        raise OSError("no memory")

    monkeypatch.setattr(Canaries, "_share_memory", fail)
    around = Canaries()
    with pytest.raises(OSError, match="no memory"), around:
        raise AssertionError("entered")
    assert f"CANARY_{around.token}" not in os.environ
    assert not around.folder.exists()


def test_processes_below_this_one_are_counted_with_theirs() -> None:
    reader, writer = os.pipe()
    before = len(descendants())
    pid = fork()
    if pid == 0:
        if os.fork() != 0:
            os.write(writer, b"x")
        while True:
            signal.pause()
    os.close(writer)
    with closing(os.fdopen(reader, "rb")) as pipe:
        assert pipe.read(1), "the child has died"
    [inner] = descendants(pid)
    assert {pid, inner} <= descendants()
    assert strays(before, patience=0) == 2
    os.kill(inner, signal.SIGKILL)
    until(lambda: descendants(pid) == set())  # one that has died and is not collected lives no more
    assert strays(before + 1, patience=0) == 0
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert strays(before) == strays(before + 5) == 0
    assert runner._state(pid) == "X"


def test_strays_get_time_to_end() -> None:
    before = len(descendants())
    pid = fork()
    if pid == 0:
        time.sleep(0.1)
        os._exit(0)
    assert strays(before, patience=20) == 0
    os.waitpid(pid, 0)


def test_resident_memory_is_in_bytes() -> None:
    said = Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]
    assert resident_bytes() == pytest.approx(int(said) * 1024, rel=0.2)
