"""Lay out canaries on the host before an attack, and find out afterwards whether one of them was reached.

Secrets are in the environment, in files and in a neighbour session; services listen on loopback and on Unix sockets;
a bystander process waits. All of it is taken away again on exit. Linux only.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

PREFIX = "5accade-secret-"
"""How every secret begins."""
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_IPC_CREAT, _IPC_RMID = 0o1000, 0
MEMORY_SLACK = 768 << 20
"""Bytes by which the host's resident memory may grow during one attack: results are bounded by the limits."""


class Canaries:
    """Canaries around a sandbox; enter before the sandbox is started, so that it could inherit the secrets."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(6)
        self.secrets = {kind: PREFIX + secrets.token_hex(12) for kind in ("environment", "file", "neighbour", "memory")}
        self.folder = Path()
        self.pixels = secrets.token_bytes(16 * 16 * 3)
        self._variable = f"CANARY_{self.token}"
        self._undo: list[Callable[[], object]] = []
        self._contacts: list[str] = []
        self._served = False
        self._selector = selectors.DefaultSelector()
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        try:
            self._lay_out()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._undo:
            self._undo.pop()()

    def _lay_out(self) -> None:
        os.environ[self._variable] = self.secrets["environment"]
        self._undo.append(lambda: os.environ.pop(self._variable, None))
        self.folder = Path(tempfile.mkdtemp(prefix="saccade-attack-"))
        self._undo.append(lambda: shutil.rmtree(self.folder, ignore_errors=True))
        self.folder.chmod(0o777)
        self.canary = self.folder / "canary.txt"
        self.canary.write_text(self.secrets["file"])
        self.canary.chmod(0o666)
        self._write_picture()
        self._adopt_orphans()
        self._listen()
        self._share_memory()
        self.bystander = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(3600)"], stdin=subprocess.DEVNULL, start_new_session=True
        )
        self._undo.append(self._end_bystander)

    def _write_picture(self) -> None:
        from PIL import Image

        self.picture = self.folder / "canary.png"
        Image.frombytes("RGB", (16, 16), self.pixels).save(self.picture)
        self.picture.chmod(0o666)

    def _end_bystander(self) -> None:
        self.bystander.kill()
        self.bystander.wait()

    def _adopt_orphans(self) -> None:
        # As a subreaper we stay the ancestor of whatever the sandbox starts, so that strays can be counted.
        libc = ctypes.CDLL(None)
        before = ctypes.c_int()
        libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._undo.append(lambda: libc.prctl(_PR_SET_CHILD_SUBREAPER, before.value))

    def _listen(self) -> None:
        self.abstract = f"saccade-attack-{self.token}"
        self.unix_path = str(self.folder / "socket")
        tcp = self._socket("TCP", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        udp = self._socket("UDP", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        self._socket("abstract socket", socket.AF_UNIX, socket.SOCK_STREAM, "\0" + self.abstract)
        self._socket("Unix socket", socket.AF_UNIX, socket.SOCK_STREAM, self.unix_path)
        self.port: int = tcp.getsockname()[1]
        self.udp_port: int = udp.getsockname()[1]
        self.free_port = _free_port()
        thread = threading.Thread(target=self._answer, name="saccade-canary", daemon=True)
        thread.start()
        self._undo.append(thread.join)
        self._undo.append(self._stop.set)

    def _socket(self, name: str, family: int, kind: int, address: object) -> socket.socket:
        made = socket.socket(family, kind)
        self._undo.append(made.close)
        made.bind(address)  # type: ignore[arg-type]
        if kind == socket.SOCK_STREAM:
            made.listen()
        made.setblocking(False)
        self._selector.register(made, selectors.EVENT_READ, name)
        return made

    def _answer(self) -> None:
        while not self._stop.is_set():
            self._served |= _is_served(self.free_port)
            for key, _events in self._selector.select(timeout=0.1):
                self._contacts.append(key.data)
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                try:
                    if sock.type == socket.SOCK_STREAM:
                        sock.accept()[0].close()
                    else:
                        sock.recv(4096)
                except OSError:
                    continue
        self._selector.close()

    def _share_memory(self) -> None:
        # ctypes: the standard library has no SysV shared memory.
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        self.sysv_key = int(self.token[:7], 16)
        self.sysv_new_key = self.sysv_key + 1
        segment = libc.shmget(self.sysv_key, 4096, _IPC_CREAT | 0o666)
        if segment < 0:
            return
        self._undo.append(lambda: libc.shmctl(segment, _IPC_RMID, None))
        address = libc.shmat(segment, None, 0)
        text = self.secrets["memory"].encode()
        ctypes.memmove(address, text, len(text))
        libc.shmdt(ctypes.c_void_p(address))

    def targets(self) -> dict[str, str | int]:
        """Facts for the attacks: where the canaries are, never their contents."""
        return {
            "host_pid": os.getpid(),
            "canary_pid": self.bystander.pid,
            "canary_file": str(self.canary),
            "canary_folder": str(self.folder),
            "canary_picture": str(self.picture),
            "home": str(Path.home()),
            "port": self.port,
            "udp_port": self.udp_port,
            "free_port": self.free_port,
            "abstract": self.abstract,
            "unix_path": self.unix_path,
            "token": self.token,
            "sysv_key": self.sysv_key,
            "sysv_new_key": self.sysv_new_key,
            "secret_prefix": PREFIX,
        }

    def damage(self) -> list[str]:
        """Describe the canaries that were reached or changed since the last call; empty if none was."""
        traces = [f"a connection reached the host's {name}" for name in self._contacts]
        self._contacts.clear()
        if self.bystander.poll() is not None or _state(self.bystander.pid) in "TtZX":
            traces.append("a process of the host was stopped or killed")
        if not self.canary.exists() or self.canary.read_text() != self.secrets["file"]:
            traces.append("a file of the host was changed")
        strangers = {path.name for path in self.folder.iterdir()} - {"canary.txt", "canary.png", "socket"}
        if strangers:
            traces.append(f"files were made outside the workspace: {sorted(strangers)}")
        for place in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/etc", "/usr", "/"):
            if Path(place, f"saccade-attack-{self.token}").exists():
                traces.append(f"a file was made in the host's {place}")
        if ctypes.CDLL(None).shmget(self.sysv_new_key, 0, 0) >= 0:
            traces.append("shared memory of the attack is left on the host")
        if self._served:
            traces.append("the guest offered a service to the host's network")
        self._served = False
        return traces


def _free_port() -> int:
    """Nobody listens there, and below those that the kernel gives to whoever asks for any."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def _is_served(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return "X"


def descendants(root: int | None = None) -> set[int]:
    """Return ids of all living processes below `root` (default: this process)."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                fields = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] not in (b"Z", b"X"):
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    processes: set[int] = set()
    queue = [root if root is not None else os.getpid()]
    while queue:
        for child in children.get(queue.pop(), ()):
            processes.add(child)
            queue.append(child)
    return processes


def strays(before: int, patience: float = 4.0) -> int:
    """How many processes more than `before` are left below this one, after waiting at most `patience` seconds."""
    end = time.monotonic() + patience
    while True:
        more = len(descendants()) - before
        if more <= 0 or time.monotonic() > end:
            return max(0, more)
        time.sleep(0.05)


def resident_bytes() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
