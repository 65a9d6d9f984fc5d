"""Runs attacks against a sandbox and judges each by evidence: what came back, and what the host sees."""

from __future__ import annotations

import asyncio
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
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from saccade.errors import SaccadeError
from saccade.plugins.audit.attacks.attack import BREACH, PREAMBLE, STOPPED, Attack
from saccade.sandbox.base import MIB, Limits, Sandbox, Session
from saccade.sandbox.isolation import Layer
from saccade.sandbox.registry import AuditOutcome
from saccade.sandbox.result import RunResult

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
    """Count how many processes more than `before` are left below this one, after waiting at most `patience` seconds."""
    end = time.monotonic() + patience
    while True:
        more = len(descendants()) - before
        if more <= 0 or time.monotonic() > end:
            return max(0, more)
        time.sleep(0.05)


def resident_bytes() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# What the host sees of an attack: malformed results, an event loop held up, processes that work while none should.

_SLACK = 1024
_TICK = 0.01
_WATCHED_SECONDS, _RESTING_SECONDS = 0.5, 0.05
_REST_DEADLINE_SECONDS = 15.0
"""On a machine under load it may take so long until a session has used the little time that it may."""


class Held:
    """Measures for how long at the most an event loop did nothing of what it had to do; to be made in its thread.

    `computed` is the most CPU time (seconds) of its thread between two looks at it, which are 10 ms apart if nothing
    holds the loop: the part of the longest time that is not the doing of other programs on the machine.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._longest = self.computed = 0.0
        self._last, self._last_cpu = time.monotonic(), time.thread_time()
        self._timer = loop.call_later(_TICK, self._tick)

    def _tick(self) -> None:
        now, cpu = time.monotonic(), time.thread_time()
        self._longest = max(self._longest, now - self._last - _TICK)
        self.computed = max(self.computed, cpu - self._last_cpu)
        self._last, self._last_cpu = now, cpu
        self._timer = self._loop.call_later(_TICK, self._tick)

    def stop(self) -> float:
        """Return the longest time, in seconds."""
        self._timer.cancel()
        self.computed = max(self.computed, time.thread_time() - self._last_cpu)
        return max(self._longest, time.monotonic() - self._last - _TICK)


def busy_seconds() -> float:
    """CPU seconds that all processes below this one use in half a second, once they have had time to come to rest."""
    time.sleep(_WATCHED_SECONDS)
    deadline = time.monotonic() + _REST_DEADLINE_SECONDS
    while True:
        before = {pid: _cpu_seconds(pid) for pid in descendants()}
        time.sleep(_WATCHED_SECONDS)
        used = sum(max(0.0, _cpu_seconds(pid) - earlier) for pid, earlier in before.items())
        if used < _RESTING_SECONDS or time.monotonic() > deadline:
            return used


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def malformed(result: RunResult, limits: Limits) -> list[str]:
    """Return the fields that break their type or the caps: a guest may lie in its own output, but not beyond these."""
    wrong = []
    for name in ("stdout", "stderr", "value", "traceback"):
        text = getattr(result, name)
        if text is not None and (
            not isinstance(text, str) or len(text.encode("utf-8", "replace")) > limits.output_bytes + _SLACK
        ):
            wrong.append(f"{name} is no text within the cap")
        elif text is not None and text.encode("utf-8", "replace") != text.encode("utf-8", "surrogatepass"):
            wrong.append(f"{name} cannot be encoded")
    for path in (*(file.path for file in result.files), *(picture.path or "x" for picture in result.pictures)):
        if path.startswith("/") or ".." in path.split("/") or not path.isprintable():
            wrong.append(f"the path {path!r} came back")
    if not all(note.isprintable() for note in result.notes):
        wrong.append("a note with control characters came back")
    if len(result.pictures) > limits.pictures:
        wrong.append(f"{len(result.pictures)} pictures came back")
    for picture in result.pictures:
        if picture.mode not in ("L", "RGB", "RGBA") or not isinstance(picture.data, bytes):
            wrong.append("a picture of an unknown kind came back")
        elif len(picture.data) != picture.width * picture.height * len(picture.mode):
            wrong.append("a picture whose size lies came back")
        elif picture.width * picture.height > limits.picture_pixels:
            wrong.append("a picture over the cap came back")
    if sum(picture.width * picture.height for picture in result.pictures) > limits.total_pixels:
        wrong.append("pictures over the total cap came back")
    return wrong


LIMITS = Limits(
    wall_seconds=3.0,
    cpu_seconds=3,
    memory_bytes=512 * MIB,
    processes=24,
    open_files=128,
    file_bytes=8 * MIB,
    workspace_bytes=32 * MIB,
    workspace_files=512,
    output_bytes=256 * 1024,
    pictures=8,
    picture_pixels=1_000_000,
    total_pixels=4_000_000,
)
"""Small limits under which the whole list runs in about a minute."""

OVERTIME_SECONDS = 5.0
"""Seconds beyond the limit of a call after which it counts as passing it; generous, for machines under load."""
HELD_SECONDS = 0.15
"""How long the host's event loop may compute at once: three times what is promised, for machines under load."""
STUCK_SECONDS = 5.0
"""How long it may stand still for any reason, other programs of a busy machine included."""
_RESTING = frozenset({"rest"})
_BUSY_SECONDS = 0.1
PATIENCE = 30.0
"""Seconds beyond the limit after which a call counts as blocking the host."""


class AttackRunner:
    """One sandbox with a neighbour session, among canaries; `run` attacks it from a fresh session each time.

    After a breach or a lost neighbour the sandbox is replaced, so that one attack does not spoil the next.
    """

    def __init__(self, open_sandbox: Callable[[], Sandbox]) -> None:
        self._open_sandbox = open_sandbox
        self._surroundings = Canaries()
        self._stack = AsyncExitStack()
        self._sandbox: Sandbox | None = None
        self._neighbour: Session | None = None

    async def __aenter__(self) -> Self:
        self._surroundings.__enter__()
        try:
            await self._start()
        except BaseException:
            self._surroundings.__exit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._stop()
        finally:
            self._surroundings.__exit__(None, None, None)

    async def _start(self) -> None:
        self._sandbox = await self._stack.enter_async_context(self._open_sandbox())
        secret = self._surroundings.secrets["neighbour"]
        self._neighbour = await self._sandbox.open({"secret": secret}, files={"neighbour.txt": secret.encode()})
        await self._neighbour.run("import os")

    async def _stop(self) -> None:
        self._sandbox = self._neighbour = None
        await self._stack.aclose()

    async def has(self, layer: Layer) -> bool:
        """Return whether the attacked sandbox has that isolation layer."""
        if self._sandbox is None:
            await self._start()
        assert self._sandbox is not None
        return (await self._sandbox.isolation()).is_on(layer)

    async def run(self, attack: Attack) -> AuditOutcome:
        """Run one attack in a fresh session and judge it."""
        if self._sandbox is None:
            await self._start()
        assert self._sandbox is not None
        limits = self._sandbox.limits
        bounds = {
            "memory": limits.memory_bytes,
            "workspace_bytes": limits.workspace_bytes,
            "file_bytes": limits.file_bytes,
        }
        session = await self._sandbox.open({"target": {**self._surroundings.targets(), **bounds}})
        await session.run("keep = 'kept'\nopen('keep.txt', 'w').write('kept')")
        memory, processes, started = resident_bytes(), len(descendants()), time.monotonic()
        result, breaches = await self._attempt(session, attack, limits)
        seconds = time.monotonic() - started
        survived = await self._survived(session)
        neighbour_ok = await self._neighbour_ok()
        breaches += await asyncio.to_thread(self._surroundings.damage)
        # A lost session leaves fewer processes than before; a kept one may hold one spare more.
        if left := await asyncio.to_thread(strays, processes + 1):
            breaches.append(f"{left} stray processes are left")
        if resident_bytes() - memory > MEMORY_SLACK:
            breaches.append(f"the host's memory grew by {(resident_bytes() - memory) // MIB} MiB")
        await session.close()
        if breaches or not neighbour_ok:
            await self._stop()
        evidence = "; ".join(breaches) or (what_stopped(result) if result else "")
        return AuditOutcome(attack, not breaches, survived, neighbour_ok, seconds, evidence)

    async def _attempt(self, session: Session, attack: Attack, limits: Limits) -> tuple[RunResult | None, list[str]]:
        """Return the result of the attack itself, and every breach of it and of the calls around it."""
        breaches: list[str] = []
        if attack.before:
            breaches += (await self._call(session, PREAMBLE + attack.before, limits))[1]
        result, evidence = await self._call(session, attack.program, limits, attack.wall_seconds)
        breaches += evidence
        if result is not None and (breach := attack.check(result)):
            breaches.append(breach)
        if attack.branch:
            breaches += await self._look_in_branches(session, attack, limits)
        if attack.group in _RESTING and (busy := await asyncio.to_thread(busy_seconds)) > _BUSY_SECONDS:
            breaches.append(f"the session's processes worked for {busy:.2f} s while no call ran")
        if attack.after:
            breaches += await self._look(session, attack, attack.after, limits)
        return result, breaches

    async def _look(self, session: Session, attack: Attack, program: str, limits: Limits) -> list[str]:
        result, breaches = await self._call(session, PREAMBLE + program, limits)
        if attack.must_look and result is not None and not result.ok:
            breaches.append(f"the call that looks ended so: {what_stopped(result)}")
        return breaches

    async def _look_in_branches(self, session: Session, attack: Attack, limits: Limits) -> list[str]:
        programs = [program for program in (attack.branch, attack.sibling) if program]
        try:
            branches = await asyncio.wait_for(session.branch(len(programs)), PATIENCE)
        except SaccadeError:
            return ["there was no branch to look in"] if attack.must_look else []  # refused as a whole
        breaches: list[str] = []
        try:
            for branch, program in zip(branches, programs, strict=True):
                breaches += await self._look(branch, attack, program, limits)
        finally:
            for branch in branches:
                await branch.close()
        return breaches

    async def _call(
        self, session: Session, program: str, limits: Limits, wall_seconds: float | None = None
    ) -> tuple[RunResult | None, list[str]]:
        """Return one call and the breaches that its result shows."""
        loop, began = asyncio.get_running_loop(), time.monotonic()
        held = Held(loop)
        try:
            result = await asyncio.wait_for(
                session.run(program, wall_seconds=wall_seconds), limits.wall_seconds + PATIENCE
            )
        except TimeoutError:
            return None, [f"the host waited {PATIENCE:.0f} s longer than the limit"]
        except Exception as error:
            return None, [f"run() raised {type(error).__name__}: {error}"]
        finally:
            longest = held.stop()
        over = time.monotonic() - began - (wall_seconds or limits.wall_seconds) - OVERTIME_SECONDS
        breaches = [line for line in result.stdout.splitlines() if line.startswith(BREACH)][:3]
        said = (result.stdout, result.stderr, result.value, result.traceback, *result.notes)
        texts = "\n".join(map(str, said))  # what is no text is found below
        for kind, secret in self._surroundings.secrets.items():
            if secret in texts:
                breaches.append(f"the secret of the {kind} came back")
        if any(picture.data == self._surroundings.pixels for picture in result.pictures):
            breaches.append("a picture of the host came back")
        if over > 0:
            breaches.append(f"the call took {over + OVERTIME_SECONDS:.1f} s longer than its limit")
        if held.computed > HELD_SECONDS or longest > STUCK_SECONDS:
            breaches.append(f"the host's event loop was held for {max(held.computed, longest):.2f} s")
        return result, breaches + malformed(result, limits)

    async def _survived(self, session: Session) -> bool:
        code = "with open('keep.txt') as f: print(keep, f.read())"
        try:
            result = await asyncio.wait_for(session.run(code), PATIENCE)
        except (SaccadeError, TimeoutError):
            return False
        return result.ok and result.stdout.strip() == "kept kept"

    async def _neighbour_ok(self) -> bool:
        assert self._neighbour is not None
        code = "with open('neighbour.txt') as f: print(f.read() == secret, os.listdir('.'))"
        try:
            result = await asyncio.wait_for(self._neighbour.run(code), PATIENCE)
        except (SaccadeError, TimeoutError):
            return False
        return result.ok and result.stdout.strip() == "True ['neighbour.txt']"


def what_stopped(result: RunResult) -> str:
    """Say in one line what stopped an attack: its first refused attempt, or how the call ended."""
    for line in result.stdout.splitlines():
        if line.startswith(STOPPED):
            return line.removeprefix(STOPPED).strip()[:160]
    last = (result.traceback or "").strip().rpartition("\n")[2]
    return f"{result.status.value}: {last}"[:160] if last else f"{result.status.value}, nothing was reached"
