"""One worker process seen from this side: start it, give it a job with a time limit, end it."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final

from saccade.errors import ToolLostError
from saccade.tools.result import ToolResult
from saccade.tools.workers.wire import WorkerFault, WorkerJob, WorkerReply, WorkerState

START_SECONDS: Final = 120.0
"""A worker that has not started by then is given up."""
LOAD_SECONDS: Final = 600.0
"""A tool whose weights are not loaded by then is given up. Loading does not count as time of the call."""
_PROGRAM: Final = "import sys; from saccade.tools.workers.child import main; main(int(sys.argv[1]), int(sys.argv[2]))"
_THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class WorkerTimeoutError(Exception):
    """The call was still running at the end of its time; the worker has been ended."""


class WorkerDiedError(Exception):
    """The process ended in the middle of the job."""

    def __init__(self, code: int) -> None:
        super().__init__(f"its process ended with {_words(code)}")
        self.from_outside = code in (-signal.SIGKILL, -signal.SIGTERM)
        """Nothing that a tool computes ends a process so: somebody killed it, or memory ran out."""


class Worker:
    """A started worker. One thread uses it; `kill` may be called from any."""

    def __init__(self, threads: int) -> None:
        """`threads` is what numerical libraries in it may use, unless the environment says otherwise.

        Raises:
            ToolLostError: it does not start.
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
        """The results of a job, which may take `seconds` once its tool is loaded.

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
        """Of the process."""
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
