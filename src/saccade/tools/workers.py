"""A queue of tool calls and the worker processes that do them.

Workers are started when there is work for them and kept, with the weights that they loaded. A call that passes its time
limit ends its worker and is a `TIMEOUT`; a call whose worker dies is tried once more in a new one, alone. Who is at
fault then decides: a tool that crashed twice gives `KILLED`, a worker that was killed from outside or cannot start
gives `LOST`. Neither ends this process, nor does a thread of it wait for a tool that hangs.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import logging
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Final

from saccade.core.sync import in_background
from saccade.errors import SaccadeError, ToolLostError, UnavailableError
from saccade.record.execution import Status
from saccade.tools.base import OutsideTool, Tool, ToolCallInput, WaitingTool, done
from saccade.tools.context import Problem, ProblemKind, ToolContext, ToolResult, failed
from saccade.tools.definition import Cost, ToolDefinition
from saccade.tools.registry import ToolSource
from saccade.tools.setup import DEFAULT_CALLS, ToolCallSettings

# The worker process: makes each tool once, keeps it with its weights, and does one job after the other.
#
# It ends when the other side closes the socket, and is killed by the kernel when that process dies, also in the middle
# of a call. What a tool prints goes to standard error.


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """Calls of one tool, to be done together; without any, the tool is loaded."""

    source: ToolSource
    calls: tuple[ToolCallInput, ...]


class WorkerState(StrEnum):
    """How far a worker is."""

    READY = "ready"
    """It has started and waits for jobs."""
    LOADED = "loaded"
    """The tool of the job is there with its weights; the call begins."""


@dataclass(frozen=True, slots=True)
class WorkerFault:
    """The job could not be done, for no fault of the calls."""

    detail: str


WorkerReply = WorkerState | WorkerFault | list[ToolResult]
_PR_SET_PDEATHSIG = 1


def main(descriptor: int, parent: int) -> None:
    """Serve the process `parent` at the other end of the socket `descriptor` until it is closed."""
    _die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # writing out gigabytes of weights takes minutes
    logging.getLogger("saccade").addHandler(logging.NullHandler())  # what failed is told, and logged, by the parent
    tools: dict[str, Tool[Any, Any]] = {}
    with Connection(descriptor) as connection:
        _send(connection, WorkerState.READY)
        while True:
            try:
                job = pickle.loads(connection.recv_bytes())
            except EOFError:
                return
            _send(connection, _done(job, tools, connection))


def _done(job: WorkerJob, tools: dict[str, Tool[Any, Any]], connection: Connection) -> WorkerReply:
    key = repr(job.source)
    try:
        tool = tools.get(key) or job.source.make()
        failure = None if key in tools else _load(tool)
        _send(connection, WorkerState.LOADED)
        if not job.calls:
            results = [ToolResult(tool.name, Status.OK) if failure is None else tool.not_loaded(failure)]
        elif failure is None or isinstance(failure, UnavailableError):  # the latter: the call itself says so
            results = tool.call_batch(job.calls)
        else:
            results = [tool.not_loaded(failure)] * len(job.calls)
    except SaccadeError as error:
        return WorkerFault(str(error))
    if failure is None:  # otherwise the next call tries to load it again
        tools[key] = tool
    return results


def _load(tool: Tool[Any, Any]) -> Exception | None:
    try:
        if not tool.needs.missing():
            tool.load()
    except Exception as error:  # of a tool of the user's own, anything
        return error
    return None


def _send(connection: Connection, reply: WorkerReply) -> None:
    connection.send_bytes(pickle.dumps(reply, protocol=pickle.HIGHEST_PROTOCOL))


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it died before that was set
        os._exit(1)


class WaitingRoom:
    """At most `most` calls at once; further ones wait their turn. Any thread may submit."""

    def __init__(self, most: int) -> None:
        self.queued = 0
        """Calls that wait their turn."""
        self.running = 0
        """Calls that wait for a server."""
        self._free = asyncio.Semaphore(most)

    def submit(self, tool: WaitingTool[Any, Any], seconds: float, call: ToolCallInput) -> Future[ToolResult]:
        """Have a call done within `seconds` of its turn; cancelling the future ends it.

        A server that does not answer in time is an outage (`LOST`): nothing that the model wrote made it slow.
        """
        return in_background(self._done(tool, seconds, call))

    async def _done(self, tool: WaitingTool[Any, Any], seconds: float, call: ToolCallInput) -> ToolResult:
        self.queued += 1
        try:
            await self._free.acquire()
        finally:
            self.queued -= 1
        self.running += 1
        try:
            result = await asyncio.wait_for(tool.call_waiting(call), seconds)
        except TimeoutError:
            detail = f"{tool.name}: its server did not answer within {seconds:g} s, the time of a call"
            result = failed(tool.name, Status.LOST, Problem(ProblemKind.TOOL_FAILURE, "", detail))
        finally:
            self.running -= 1
            self._free.release()
        return result


_rooms: dict[tuple[int, int], WaitingRoom] = {}
_waiting_lock = threading.Lock()


def shared_room(most: int) -> WaitingRoom:
    """Return the room of this process with so many places; a fork has its own."""
    with _waiting_lock:
        return _rooms.setdefault((os.getpid(), most), WaitingRoom(most))


# One worker process seen from this side: start it, give it a job with a time limit, end it.


START_SECONDS: Final = 120.0
"""A worker that has not started by then is given up."""
LOAD_SECONDS: Final = 600.0
"""A tool whose weights are not loaded by then is given up. Loading does not count as time of the call."""
_PROGRAM: Final = "import sys; from saccade.tools.workers import main; main(int(sys.argv[1]), int(sys.argv[2]))"
_THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class WorkerTimeoutError(Exception):
    """The call was still running at the end of its time; the worker has been ended."""


class WorkerDiedError(Exception):
    """The process ended in the middle of the job."""

    def __init__(self, code: int) -> None:
        super().__init__(f"its process ended with {_words(code)}")
        self.from_outside = code in (-signal.SIGKILL, -signal.SIGTERM)
        """Nothing that a tool computes ends a process so: someone killed it, or memory ran out."""


class Worker:
    """A started worker. One thread uses it; `kill` may be called from any."""

    def __init__(self, threads: int) -> None:
        """`threads` is what numerical libraries in it may use, unless the environment says otherwise. Raises
        `ToolLostError` if it does not start.
        """
        own, others = socket.socketpair()
        with others:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            environment |= {name: str(threads) for name in _THREADS if name not in os.environ}
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, str(others.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=2,  # standard output may carry a protocol of this process
                env=environment,
                pass_fds=(others.fileno(),),
                start_new_session=True,
            )
        self._connection = Connection(own.detach())
        try:
            self._expect(WorkerState.READY, START_SECONDS)
        except (WorkerTimeoutError, WorkerDiedError) as error:
            self.kill()
            raise ToolLostError(f"a worker process for tools does not start: {error}") from error

    def call(self, job: WorkerJob, seconds: float) -> list[ToolResult]:
        """Return the results of a job, which may take `seconds` once its tool is loaded.

        Raises:
            WorkerTimeoutError: it took longer. The worker is ended.
            WorkerDiedError: the process ended.
            ToolLostError: the tool could not be made or loaded there.
        """
        try:
            packed = pickle.dumps(job, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # whatever the `__reduce__` of an argument or a picture's decoder raises
            raise ToolLostError(f"a call of {job.source.name} cannot be sent to a worker process: {error}") from error
        try:
            self._connection.send_bytes(packed)
        except OSError:
            raise self._death() from None
        try:
            self._expect(WorkerState.LOADED, LOAD_SECONDS)
        except WorkerTimeoutError:
            self.kill()
            raise ToolLostError(f"{job.source.name} was not loaded within {LOAD_SECONDS:.0f} s") from None
        try:
            reply = self._receive(seconds)
        except WorkerTimeoutError:
            self.kill()
            raise
        if not isinstance(reply, list):
            raise ToolLostError(f"a worker process answered {reply!r} where results were expected")
        return reply

    def kill(self) -> None:
        """End it and everything that it started; idempotent."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _expect(self, state: WorkerState, seconds: float) -> None:
        reply = self._receive(seconds)
        if isinstance(reply, WorkerFault):
            raise ToolLostError(reply.detail)
        if reply is not state:
            raise ToolLostError(f"a worker process answered {reply!r} where {state} was expected")

    def _receive(self, seconds: float) -> WorkerReply:
        end = time.monotonic() + seconds
        try:
            if not self._connection.poll(max(0.0, end - time.monotonic())):
                raise WorkerTimeoutError(f"no answer within {seconds:g} s")
            reply: WorkerReply = pickle.loads(self._connection.recv_bytes())
            return reply
        except (EOFError, OSError):
            raise self._death() from None

    def _death(self) -> WorkerDiedError:
        try:
            code = self._process.wait(5)  # the socket is closed a moment before the process is gone
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.returncode
        return WorkerDiedError(code)


def _words(code: int) -> str:
    try:
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"


_log = logging.getLogger(__name__)

CLOSED: Final = "the pool of worker processes was closed"
TRIES: Final = 2
"""How often a call is begun whose worker dies."""
BATCH_WAIT: Final = 0.02
"""Seconds for which calls of a tool that takes several at once wait for each other, to become one pass of a model."""


@dataclass(frozen=True, slots=True)
class PooledTool:
    """A tool as a pool runs it."""

    name: str
    source: ToolSource
    seconds: float
    """Time limit of a call, or of a batch."""
    batch: int = 1
    """Most calls that are given to it at once."""
    batch_wait: float = BATCH_WAIT
    """Seconds for which a batch that is not full waits for further calls."""


@dataclass
class _Waiting:
    tool: PooledTool
    call: ToolCallInput | None
    """None: the tool is only loaded."""
    future: Future[ToolResult] = field(default_factory=Future)
    deaths: int = 0


@dataclass
class PoolCounts:
    """Counts of a pool so far."""

    results: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By tool and status."""
    restarts: Counter[str] = field(default_factory=Counter)
    """Workers that were ended or died, by reason: `timeout`, `died`."""
    batches: Counter[int] = field(default_factory=Counter)
    """Jobs by the number of their calls."""


class WorkerPool:
    """At most `workers` processes. Any thread may submit; nothing is started before."""

    def __init__(self, workers: int, threads: int = 1) -> None:
        """`threads` of numerical libraries for each worker."""
        self.counts = PoolCounts()
        self._workers, self._threads = workers, threads
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._busy = 0
        self._served: list[_Server] = []
        self._closed = False
        self._owner = os.getpid()

    def submit(self, tool: PooledTool, call: ToolCallInput | None) -> Future[ToolResult]:
        """Have a call done; the future gives a typed result and raises nothing. Cancelling it leaves the queue.

        Calls of one tool that wait come into one batch, as far as its size allows.
        """
        waiting = _Waiting(tool, call)
        with self._changed:
            if not self._closed:
                self._queue.append(waiting)
                if len(self._queue) > len(self._served) - self._busy and len(self._served) < self._workers:
                    self._served.append(_Server(self, self._threads))
                self._changed.notify_all()  # one may gather a batch, and need not be the one that is free
                return waiting.future
        _finish(waiting, _lost(waiting.tool, CLOSED))
        return waiting.future

    def load(self, tool: PooledTool) -> Future[ToolResult]:
        """Have a worker make the tool and load its weights; the result is `OK` once it has."""
        return self.submit(replace(tool, batch=1), None)

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def running(self) -> int:
        return self._busy

    @property
    def closed(self) -> bool:
        return self._closed

    def pids(self) -> tuple[int, ...]:
        """Return the worker processes that there are."""
        return tuple(server.worker.pid for server in self._served if server.worker is not None)

    def close(self) -> None:
        """End all workers at once; calls under way and waiting are lost. Idempotent; does nothing in a fork."""
        if os.getpid() != self._owner:
            return
        with self._changed:
            self._closed = True
            left, self._queue = list(self._queue), deque()
            self._changed.notify_all()
        for server in self._served:
            server.kill()
        for waiting in left:
            _finish(waiting, _lost(waiting.tool, CLOSED))

    def take(self) -> list[_Waiting] | None:
        """Wait for the next calls to do together, all of one tool; None when the pool is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            if self._closed:
                return None
            self._busy += 1
            first = self._queue.popleft()
            taken = [first]
            if not first.deaths:
                more, most = partial(self._alike, first), first.tool.batch - 1
                if most and first.tool.batch_wait:
                    self._changed.wait_for(lambda: self._closed or len(more()) >= most, first.tool.batch_wait)
                taken += more()[:most]
            for item in taken[1:]:
                self._queue.remove(item)
        return [item for item in taken if item.future.running() or item.future.set_running_or_notify_cancel()]

    def _alike(self, first: _Waiting) -> list[_Waiting]:
        """Return the calls in the queue that may share a batch with `first`."""
        return [item for item in self._queue if item.tool == first.tool and not item.deaths]

    def rest(self) -> None:
        """Mark what was taken as done."""
        with self._changed:
            self._busy -= 1

    def again(self, taken: Sequence[_Waiting]) -> None:
        """Put calls whose worker died back to the front, each to be done alone."""
        with self._changed:
            if not self._closed:
                self._queue.extendleft(reversed(taken))
                self._changed.notify(len(taken))
                return
        for item in taken:
            _finish(item, _lost(item.tool, CLOSED))

    def finish(self, waiting: _Waiting, result: ToolResult) -> None:
        with self._changed:
            self.counts.results[waiting.tool.name, result.status.value] += 1
        if result.status is Status.ERROR and result.problem is not None and result.problem.detail:
            _log.warning("the tool %s failed: %s", waiting.tool.name, result.problem.detail)
        _finish(waiting, result)


class _Server:
    """A thread that feeds one worker process, and starts another when it is gone."""

    def __init__(self, pool: WorkerPool, threads: int) -> None:
        self.worker: Worker | None = None
        self._pool, self._threads = pool, threads
        # A daemon: a tool that hangs holds up no exit; the worker dies with this process.
        threading.Thread(target=self._serve, name="saccade-tools", daemon=True).start()

    def kill(self) -> None:
        if (worker := self.worker) is not None:
            worker.kill()

    def _serve(self) -> None:
        while (taken := self._pool.take()) is not None:
            try:
                if taken:
                    self._do(taken)
            finally:
                self._pool.rest()

    def _do(self, taken: list[_Waiting]) -> None:
        tool = taken[0].tool
        counts = self._pool.counts
        counts.batches[len(taken)] += 1
        try:
            worker = self.worker
            if worker is None:
                worker = self.worker = Worker(self._threads)
                if self._pool.closed:  # meanwhile, so that nobody but this thread knows the worker
                    raise ToolLostError(CLOSED)
            calls = tuple(item.call for item in taken if item.call is not None)
            results = worker.call(WorkerJob(tool.source, calls), tool.seconds)
        except WorkerTimeoutError:
            self.worker = None
            counts.restarts["timeout"] += 1
            self._give_up(taken, _timed_out(tool))
        except WorkerDiedError as error:
            self.worker = None
            counts.restarts["died"] += 1
            _log.warning("a worker process of tools died in a call of %s: %s", tool.name, error)
            self._give_up(taken, _lost(tool, str(error)) if error.from_outside else _killed(tool, str(error)))
        except (ToolLostError, OSError) as error:
            self.kill()
            self.worker = None
            _log.warning("a call of the tool %s is lost: %s", tool.name, error)
            for item in taken:
                self._pool.finish(item, _lost(tool, str(error)))
        else:
            for item, result in zip(taken, results, strict=True):
                self._pool.finish(item, result)

    def _give_up(self, taken: list[_Waiting], result: ToolResult) -> None:
        """Try again what may not be at fault; end what was alone and had its tries."""
        for item in taken:
            item.deaths += 1
        alone = len(taken) == 1
        if alone and (result.status is Status.TIMEOUT or taken[0].deaths >= TRIES):
            self._pool.finish(taken[0], result)
        else:
            self._pool.again(taken)


def _finish(waiting: _Waiting, result: ToolResult) -> None:
    if waiting.future.running() or waiting.future.set_running_or_notify_cancel():
        waiting.future.set_result(result)


def _lost(tool: PooledTool, detail: str) -> ToolResult:
    return failed(tool.name, Status.LOST, Problem(ProblemKind.TOOL_FAILURE, "", f"{tool.name}: {detail}"))


def _timed_out(tool: PooledTool) -> ToolResult:
    message = f"{tool.name} took longer than {tool.seconds:g} s and was ended. Use a smaller region or another tool."
    return failed(tool.name, Status.TIMEOUT, Problem(ProblemKind.TOOL_FAILURE, message))


def _killed(tool: PooledTool, detail: str) -> ToolResult:
    message = f"{tool.name} crashed. The same call will crash again: use other arguments or another tool."
    return failed(tool.name, Status.KILLED, Problem(ProblemKind.TOOL_FAILURE, message, f"twice: {detail}"))


# The pools of this process: one for each class of cost, so that a crop does not wait behind a detector.
#
# They outlive the event loops and toolboxes that use them, so weights are loaded once. A process that was forked has
# pools of its own.


MOST_WORKERS: Final = 8
"""Of a pool whose number of workers is not set."""

_pools: dict[tuple[int, Cost, int], WorkerPool] = {}
_lock = threading.Lock()


def shared_pool(cost: Cost, workers: int) -> WorkerPool:
    """Return the pool of this process for tools of that cost, with so many workers (0: as `ToolCallSettings` says)."""
    cores = os.cpu_count() or 1
    count = 1 if cost is Cost.HEAVY else workers or min(cores, MOST_WORKERS)
    key = (os.getpid(), cost, count)
    with _lock:
        if key not in _pools:
            _pools[key] = WorkerPool(count, threads=max(1, cores // count))
            atexit.register(_pools[key].close)
        return _pools[key]


def close_shared_pools() -> None:
    """End every worker process of this process; the next call starts them anew."""
    with _lock:
        own = [key for key in _pools if key[0] == os.getpid()]
        pools = [_pools.pop(key) for key in own]
    for pool in pools:
        atexit.unregister(pool.close)
        pool.close()


# A typed tool whose calls are done in a worker process, or wait in this one; a wrong call is answered at once.


class WorkerTool(OutsideTool):
    """Stands for a tool of a `ToolSource`, of which this process has an object without weights."""

    def __init__(self, source: ToolSource, settings: ToolCallSettings = DEFAULT_CALLS) -> None:
        """Starts nothing. Raises `RegistryError` or `ToolError` if the tool cannot be made."""
        self._tool: Tool[Any, Any] = source.make()
        self._settings = settings
        self.name, self.aliases, self.needs = self._tool.name, self._tool.aliases, self._tool.needs
        self._pooled = PooledTool(self.name, source.elsewhere(), settings.seconds, self._tool.batch)
        if isinstance(self._tool, WaitingTool):
            self._tool.retry = settings.retry

    @property
    def definition(self) -> ToolDefinition:
        return self._tool.definition

    def submit(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> Future[ToolResult]:
        checked = self._tool.checked(arguments, context, alias=alias)
        if isinstance(checked, ToolResult):
            return done(checked)
        call = ToolCallInput(arguments, context, alias)
        if isinstance(self._tool, WaitingTool):
            return shared_room(self._settings.in_flight).submit(self._tool, self._settings.seconds, call)
        return shared_pool(self._tool.cost, self._settings.workers).submit(self._pooled, call)
