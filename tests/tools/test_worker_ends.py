"""One worker from both sides, each alone: how its end is told, what it may answer, and what it keeps of a tool."""

from __future__ import annotations

import logging
import os
import pickle
import resource
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import pytest
from tests.tools.tricky import HERE

from saccade.errors import ToolLostError
from saccade.record.execution import Status
from saccade.tools.base import ToolCallInput
from saccade.tools.context import ToolContext, ToolResult
from saccade.tools.registry import ToolSource
from saccade.tools.workers import child, pool
from saccade.tools.workers.pool import Worker, WorkerDiedError, WorkerTimeoutError
from saccade.tools.workers.wire import WorkerFault, WorkerJob, WorkerState

EMPTY = ToolContext({})
DONE = ToolResult("crop", Status.OK, {}, (), "done", None)


@pytest.mark.parametrize(
    ("code", "words", "from_outside"),
    [(3, "exit code 3", False), (0, "exit code 0", False), (-9, "signal SIGKILL", True), (-15, "signal SIGTERM", True),
     (-6, "signal SIGABRT", False), (-99, "signal 99", False)],
)  # fmt: skip
def test_how_a_process_ended(code: int, words: str, from_outside: bool) -> None:
    error = WorkerDiedError(code)
    assert (str(error), error.from_outside) == (f"its process ended with {words}", from_outside)


Ends = tuple[Worker, Connection]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """This side of a worker whose process only sleeps, and the other end of its connection."""
    worker, (own, other) = object.__new__(Worker), Pipe()
    worker._process = subprocess.Popen(["sleep", "60"], start_new_session=True)  # type: ignore[assignment]
    worker._connection = own
    yield worker, other
    worker.kill()
    other.close()


JOB = WorkerJob(ToolSource("crop"), (ToolCallInput({}, EMPTY),))
LOADED = WorkerState.LOADED


@pytest.mark.parametrize(
    ("replies", "why", "alive"),
    [
        ([], "crop was not loaded within 0 s", False),
        ([WorkerFault("crop cannot be made")], "^crop cannot be made$", True),
        ([WorkerState.READY], "answered <WorkerState.READY: 'ready'> where loaded was expected", True),
        ([LOADED, WorkerFault("late")], r"answered WorkerFault\(detail='late'\) where results were expected", True),
    ],
)
def test_answers_of_a_worker_that_lose_the_call(
    ends: Ends, monkeypatch: pytest.MonkeyPatch, replies: list[Any], why: str, alive: bool
) -> None:
    worker, other = ends
    monkeypatch.setattr(pool, "LOAD_SECONDS", 0.01)
    for reply in replies:
        other.send_bytes(pickle.dumps(reply))
    with pytest.raises(ToolLostError, match=why):
        worker.call(JOB, 0.01)
    assert (worker._process.poll() is None) is alive


def test_a_worker_that_answers_is_late_or_dies(ends: Ends) -> None:
    worker, other = ends
    for reply in (LOADED, [DONE], LOADED):
        other.send_bytes(pickle.dumps(reply))
    assert worker.call(JOB, 1.0) == [DONE]
    assert pickle.loads(other.recv_bytes()).source == JOB.source
    with pytest.raises(WorkerTimeoutError, match=r"no answer within 0\.01 s"):
        worker.call(JOB, 0.01)
    assert worker._process.poll() == -signal.SIGKILL
    with pytest.raises(WorkerDiedError, match="SIGKILL"):
        worker.call(JOB, 0.01)


def test_a_worker_that_closes_its_end_is_ended(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, other = ends
    wait = worker._process.wait
    waited: list[float | None] = []

    def quick(seconds: float | None = None) -> int:
        waited.append(seconds)
        return wait(seconds and 0.01)

    monkeypatch.setattr(worker._process, "wait", quick)
    other.send_bytes(pickle.dumps(LOADED))
    other.close()
    with pytest.raises(WorkerDiedError, match="SIGKILL"):
        worker.call(JOB, 1.0)
    assert waited == [5, None]


@pytest.mark.parametrize(
    ("program", "seconds", "why"),
    [("raise SystemExit(3)", 60.0, "its process ended with exit code 3"),
     ("import time; time.sleep(60)", 0.1, r"no answer within 0\.1 s")],
)  # fmt: skip
def test_a_worker_that_does_not_start_is_ended(
    program: str, seconds: float, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def started(*given: Any, **named: Any) -> subprocess.Popen[bytes]:
        made.append(start(*given, **named))
        return made[-1]

    monkeypatch.setattr(subprocess, "Popen", started)
    monkeypatch.setattr(pool, "_PROGRAM", program)
    monkeypatch.setattr(pool, "START_SECONDS", seconds)
    with pytest.raises(ToolLostError, match=f"a worker process for tools does not start: {why}"):
        Worker(1)
    assert made[0].returncode is not None


class Sent:
    """Keeps what a worker sends."""

    def __init__(self) -> None:
        self.replies: list[Any] = []

    def send_bytes(self, data: bytes) -> None:
        self.replies.append(pickle.loads(data))


def job(**options: str) -> WorkerJob:
    return WorkerJob(ToolSource(HERE, options), (ToolCallInput({}, EMPTY),) * 2)


def test_a_worker_loads_a_tool_once_and_one_that_failed_again(caplog: pytest.LogCaptureFixture) -> None:
    tools: dict[str, Any] = {}
    sent: Any = Sent()
    for _ in range(2):
        done: Any = child._done(job(), tools, sent)
        assert [(one.value["loads"], one.value["together"]) for one in done] == [(1, 2)] * 2
    assert sent.replies == [LOADED] * 2
    assert len(tools) == 1
    for weights, why in (("torn", "its load() failed: EOFError"), ("nowhere", "there are no weights at nowhere")):
        torn: Any = child._done(job(weights=weights), tools, sent)
        assert [one.status for one in torn] == [Status.REFUSED] * 2
        assert torn[0].problem.detail.startswith(why)
        assert ("tricky" in caplog.text) is (weights == "torn")
        caplog.clear()
    assert (len(tools), sent.replies) == (1, [LOADED] * 4)
    fault = child._done(WorkerJob(ToolSource("/nowhere/gone.py:Gone"), ()), tools, sent)
    assert isinstance(fault, WorkerFault)
    assert "gone.py" in fault.detail
    assert len(sent.replies) == 4


def test_a_worker_serves_until_its_socket_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[object, ...]] = []
    monkeypatch.setattr(child, "_die_with", lambda parent: done.append(("dies with", parent)))
    monkeypatch.setattr("signal.signal", lambda *given: done.append(given))
    monkeypatch.setattr("resource.setrlimit", lambda *given: done.append(given))
    log = logging.getLogger("saccade")
    monkeypatch.setattr(log, "handlers", [])
    own, other = socket.socketpair()
    thread = threading.Thread(target=child.main, args=(other.detach(), 7), daemon=True)
    thread.start()
    with Connection(own.detach()) as connection:
        connection.send_bytes(pickle.dumps(job()))
        ready, loaded, results = (pickle.loads(connection.recv_bytes()) for _ in range(3))
    thread.join(20)
    assert (ready, loaded, len(results), thread.is_alive()) == (WorkerState.READY, LOADED, 2, False)
    assert done == [("dies with", 7), (signal.SIGINT, signal.SIG_IGN), (resource.RLIMIT_CORE, (0, 0))]
    assert [type(handler) for handler in log.handlers] == [logging.NullHandler]


def test_what_a_tool_needs_and_lacks_is_not_loaded() -> None:
    def load() -> None:
        raise AssertionError("it is not asked")

    lacking: Any = SimpleNamespace(needs=SimpleNamespace(missing=lambda: ("av",)), load=load)
    assert child._load(lacking) is None


@pytest.mark.parametrize(("other", "ended"), [(0, []), (1, [1])])
def test_a_worker_whose_parent_is_gone_ends(monkeypatch: pytest.MonkeyPatch, other: int, ended: list[int]) -> None:
    codes: list[int] = []
    asked: list[tuple[int, ...]] = []
    monkeypatch.setattr("os._exit", codes.append)
    monkeypatch.setattr("ctypes.CDLL", lambda name: SimpleNamespace(prctl=lambda *given: asked.append(given)))
    child._die_with(os.getppid() + other)
    assert (codes, asked) == (ended, [(1, 9, 0, 0, 0)])
