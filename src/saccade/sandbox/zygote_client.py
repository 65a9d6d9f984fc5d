"""The host's side of the zygote: start it, give it orders, hear of deaths. Trusted: no guest code runs there."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from saccade.errors import SandboxError, SandboxLostError
from saccade.guest import wire
from saccade.sandbox.base import finished

ENVIRONMENT = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "SYSTEMROOT")
"""Variables of the host that reach the interpreter of the sandbox; all others stay outside."""

_LAST_WORDS = 2000
"""Bytes that are told of what a zygote wrote that did not come up."""
_MALLOC = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=67108864"
"""What is allocated, up to 32 MiB at once, lies in large pages: a process pays for each page that it touches first."""
_BOOT = "import sys; sys.path.insert(0, sys.argv.pop()); from guest.launch import main; main()"

ZygoteAnswer = asyncio.Future[tuple[dict[str, Any], list[int]]]
"""A message, and descriptors that belong to whoever takes it."""


class OrderRefusedError(Exception):
    """The zygote could not carry out an order, most often because the process in question has just died."""


class ZygoteClient:
    """One zygote. `on_event(id, message)` is called for the death of a process of session `id`."""

    def __init__(self, on_event: Callable[[int, dict[str, Any]], None], on_lost: Callable[[str], None]) -> None:
        self.hello: dict[str, Any] = {}
        self.alive = False
        self._on_event = on_event
        self._on_lost = on_lost
        self._waiting: dict[tuple[str, int], deque[ZygoteAnswer]] = defaultdict(deque)
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr = -1
        self._control: socket.socket | None = None
        self._said_hello: asyncio.Future[None] | None = None
        self._backlog: deque[tuple[wire.WireMessage, tuple[int, ...]]] = deque()

    async def start(self, python: str, settings: dict[str, Any], cache: Path, seconds: float = 120.0) -> None:
        """Start the processes and wait until the zygote is ready. Raises `SandboxError` if it does not come up."""
        loop = asyncio.get_running_loop()
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SandboxError(
                f"the folder {cache}, where the sandbox keeps its list of fonts, cannot be made: {error.strerror}. Set "
                "XDG_CACHE_HOME to a folder that can be written."
            ) from error
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._stderr = os.memfd_create("saccade-stderr")
        try:
            await finished(self._launch(python, cache, theirs))
            wire.send(ours, settings)
        except asyncio.CancelledError:
            ours.close()
            raise
        except OSError as error:
            ours.close()
            raise SandboxError(f"the sandbox's interpreter {python!r} could not be started: {error}") from error
        finally:
            theirs.close()
        ours.setblocking(False)
        self._control = ours
        self.alive = True
        self._said_hello = loop.create_future()
        loop.add_reader(ours.fileno(), self._readable)
        try:
            await asyncio.wait_for(asyncio.shield(self._said_hello), seconds)
        except (TimeoutError, SandboxLostError):
            detail = await self._last_words()
            raise SandboxError(
                f"the sandbox did not start: {detail or 'no answer'}. Run `saccade doctor` to see what is missing."
            ) from None
        except asyncio.CancelledError:
            await self.close()
            raise

    async def _launch(self, python: str, cache: Path, control: socket.socket) -> None:
        # Assigned even where the caller of `start` is cancelled meanwhile.
        self._process = await asyncio.to_thread(_spawn, python, cache, control, self._stderr)

    def ask(self, op: str, session: int, fds: tuple[int, ...] = (), **fields: Any) -> ZygoteAnswer:
        """Give an order; the answer to come, which raises `OrderRefusedError` or `SandboxLostError` if it does not."""
        answer = self.coming(op, session)
        self.tell(op, session, fds, **fields)
        return answer

    def coming(self, op: str, session: int) -> ZygoteAnswer:
        """Return the next answer `op` for a session, which comes of another order, too. Nobody need wait for it."""
        future: ZygoteAnswer = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda answer: answer.cancelled() or answer.exception())
        self._waiting[op, session].append(future)
        return future

    def tell(self, op: str, session: int, fds: tuple[int, ...] = (), **fields: Any) -> None:
        """Give an order that has no answer of its own. Raises `SandboxLostError` if the zygote is gone."""
        if not self.alive or self._control is None:
            raise SandboxLostError(
                "the sandbox's processes have died; open a new session (they are started again then)"
            )
        self._backlog.append(({"op": op, "id": session, **fields}, tuple(os.dup(fd) for fd in fds)))
        self._flush()

    def _flush(self) -> None:
        control = self._control
        while self._backlog and control is not None:
            message, fds = self._backlog[0]
            try:
                wire.send(control, message, fds)
            except BlockingIOError:
                asyncio.get_running_loop().add_writer(control.fileno(), self._writable)
                return
            except OSError:
                self._lose("its control socket is closed")
                return
            self._backlog.popleft()
            for fd in fds:
                os.close(fd)

    def _writable(self) -> None:
        if self._control is not None:
            asyncio.get_running_loop().remove_writer(self._control.fileno())
            self._flush()

    def _readable(self) -> None:
        assert self._control is not None
        for _ in range(256):
            try:
                received = wire.receive(self._control)
            except BlockingIOError:
                return
            except OSError:
                received = None
            if received is None:
                self._lose("they were killed")
                return
            self._dispatch(*received)

    def _dispatch(self, message: dict[str, Any], fds: list[int]) -> None:
        op = message["op"]
        if op == "hello":
            self.hello = message
            if self._said_hello is not None and not self._said_hello.done():
                self._said_hello.set_result(None)
            return
        if op == "ended":
            self._refuse_all(message["id"], "the session's processes have ended")
        if op in ("died", "ended"):
            self._on_event(message["id"], message)
            return
        key = (message["of"] if op == "failed" else op, message["id"])
        queue = self._waiting[key]
        future = queue.popleft() if queue else None
        if not queue:
            self._waiting.pop(key, None)
        if future is None or future.done():
            for fd in fds:
                os.close(fd)
            if op == "failed" and future is None:
                self._refuse_all(message["id"], message["error"])
                self._on_event(message["id"], {**message, "op": "ended"})
        elif op == "failed":
            future.set_exception(OrderRefusedError(message["error"]))
        else:
            future.set_result((message, fds))
        if op == "close":
            self._refuse_all(message["id"], "the session was closed")

    def _refuse_all(self, session: int, why: str) -> None:
        """Refuse what was ordered for a session that is over."""
        for key in [key for key in self._waiting if key[1] == session]:
            for future in self._waiting.pop(key):
                if not future.done():
                    future.set_exception(OrderRefusedError(why))

    def _lose(self, why: str) -> None:
        """Tell everybody who waits that the zygote is gone."""
        if not self.alive:
            return
        self.alive = False
        self._hang_up()
        error = SandboxLostError(f"the sandbox's processes have died ({why}); the state of its sessions is gone")
        waiting = [future for queue in self._waiting.values() for future in queue]
        if self._said_hello is not None:
            waiting.append(self._said_hello)  # type: ignore[arg-type]
        self._waiting.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()
        self._on_lost(str(error))

    def _hang_up(self) -> None:
        if self._control is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._control.fileno())
            loop.remove_writer(self._control.fileno())
            self._control.close()
            self._control = None
        while self._backlog:
            for fd in self._backlog.popleft()[1]:
                os.close(fd)

    async def _last_words(self) -> str:
        self._lose("it did not start")
        if self._process is not None:
            await asyncio.to_thread(self._process.wait, 10)
        start = max(0, os.fstat(self._stderr).st_size - _LAST_WORDS)
        words = os.pread(self._stderr, _LAST_WORDS, start).decode(errors="replace").strip()
        await self.close()
        return words

    async def close(self) -> None:
        """End the zygote and wait for the launcher, which cleans up; idempotent."""
        self._lose("the sandbox was closed")
        process, self._process = self._process, None
        if process is None:
            return
        try:
            await finished(asyncio.to_thread(_ended, process))
        finally:
            os.close(self._stderr)


def _ended(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _spawn(python: str, cache: Path, control: socket.socket, stderr: int) -> subprocess.Popen[bytes]:
    folder = str(Path(wire.__file__).resolve().parent.parent)
    environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    environment |= {
        "PATH": "/usr/bin:/bin",
        "HOME": "/workspace",
        "TMPDIR": "/tmp",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": str(cache),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "JOBLIB_MULTIPROCESSING": "0",  # else joblib warns that it can start no processes
        "GLIBC_TUNABLES": _MALLOC,
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"),
        # An open cv2.VideoCapture would hold threads, which cannot be kept between calls.
        "OPENCV_FFMPEG_THREADS": "1",
    }
    return subprocess.Popen(
        [python, "-P", "-s", "-c", _BOOT, str(control.fileno()), folder],
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        pass_fds=[control.fileno()],
        start_new_session=True,
    )
