"""What a pool decides of calls whose workers end, with workers that end as they are told.

Real ones are in `test_workers.py`.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest
from tests.tools.tricky import HERE

from saccade.errors import ToolLostError
from saccade.record.execution import Status
from saccade.tools import workers as pooling
from saccade.tools.base import ToolCallInput
from saccade.tools.context import Problem, ProblemKind, ToolContext, ToolResult, failed
from saccade.tools.definition import Cost
from saccade.tools.registry import ToolSource
from saccade.tools.workers import PooledTool, WorkerDiedError, WorkerJob, WorkerPool, WorkerTimeoutError

EMPTY = ToolContext({})
TOOL = PooledTool("tricky", ToolSource(HERE), seconds=0.5)
DONE = ToolResult("tricky", Status.OK, {}, (), "done", None)
Deed = Callable[[WorkerJob], list[ToolResult]]


class Heard:
    """In place of worker processes: each job has the number of its calls noted, and goes as the next deed says."""

    def __init__(self) -> None:
        self.deeds: list[Deed] = []
        self.jobs: list[int] = []
        self.made = 0
        self.killed = 0
        self.held = threading.Event()
        """Until it is set, jobs do not go on."""
        self.held.set()
        self.pid = 1

    def __call__(self, threads: int) -> Heard:
        self.made += 1
        return self

    def call(self, job: WorkerJob, seconds: float) -> list[ToolResult]:
        self.held.wait(20)
        assert seconds == TOOL.seconds
        self.jobs.append(len(job.calls))
        return self.deeds.pop(0)(job) if self.deeds else [DONE] * len(job.calls)

    def kill(self) -> None:
        self.killed += 1


def raising(error: Exception) -> Deed:
    def deed(job: WorkerJob) -> list[ToolResult]:
        raise error

    return deed


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    told = Heard()
    monkeypatch.setattr(pooling, "Worker", told)
    return told


@pytest.fixture
def pool(heard: Heard) -> Iterator[WorkerPool]:
    made = WorkerPool(1)
    yield made
    made.close()


def asked(pool: WorkerPool, count: int = 1, batch: int = 1, name: str = "tricky") -> list[Future[ToolResult]]:
    tool = PooledTool(name, TOOL.source, TOOL.seconds, batch)
    return [pool.submit(tool, ToolCallInput({}, EMPTY)) for _ in range(count)]


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not holds() and time.monotonic() < end:
        time.sleep(0.001)


def results(futures: list[Future[ToolResult]]) -> list[ToolResult]:
    return [future.result(20) for future in futures]


CRASH, KILL, SLOW = WorkerDiedError(-signal.SIGABRT), WorkerDiedError(-signal.SIGKILL), WorkerTimeoutError("slow")


@pytest.mark.parametrize(
    ("ends", "status", "restarts", "detail"),
    [
        ([], "ok", {}, None),
        ([CRASH], "ok", {"died": 1}, None),
        ([CRASH, CRASH], "killed", {"died": 2}, "twice: its process ended with signal SIGABRT"),
        ([KILL, KILL], "lost", {"died": 2}, "tricky: its process ended with signal SIGKILL"),
        ([CRASH, KILL], "lost", {"died": 2}, "tricky: its process ended with signal SIGKILL"),
        ([SLOW], "timeout", {"timeout": 1}, ""),
        ([CRASH, SLOW], "timeout", {"died": 1, "timeout": 1}, ""),
        ([ToolLostError("no room")], "lost", {}, "tricky: no room"),
        ([CRASH, OSError("no room")], "lost", {"died": 1}, "tricky: no room"),
    ],
)
def test_a_call_is_tried_again_once_and_a_new_worker_is_made(
    pool: WorkerPool, heard: Heard, ends: list[Exception], status: str, restarts: dict[str, int], detail: str | None
) -> None:
    heard.deeds = [raising(error) for error in ends]
    (result,) = results(asked(pool))
    assert result.status.value == status
    assert (None if result.problem is None else result.problem.detail) == detail
    assert results(asked(pool)) == [DONE]
    assert heard.made == 1 + len(ends)
    assert heard.killed == sum(isinstance(error, ToolLostError | OSError) for error in ends)
    assert pool.counts.restarts == restarts
    assert pool.counts.batches == {1: len(heard.jobs)}
    assert pool.counts.results.total() == 2
    assert pool.counts.results["tricky", status] == (2 if status == "ok" else 1)


@pytest.mark.parametrize(
    ("ends", "jobs", "statuses"),
    [
        ([CRASH], [3, 1, 1, 1], ["ok", "ok", "ok"]),
        ([CRASH, CRASH], [3, 1, 1, 1], ["killed", "ok", "ok"]),
        ([SLOW, SLOW], [3, 1, 1, 1], ["timeout", "ok", "ok"]),
        ([ToolLostError("gone")], [3], ["lost", "lost", "lost"]),
    ],
)
def test_a_batch_that_ends_is_done_again_one_by_one_in_its_order(
    pool: WorkerPool, heard: Heard, ends: list[Exception], jobs: list[int], statuses: list[str]
) -> None:
    heard.deeds = [raising(error) for error in ends]
    assert [result.status.value for result in results(asked(pool, 3, batch=3))] == statuses
    assert heard.jobs == jobs


def test_calls_that_arrive_together_are_one_batch_and_a_load_is_by_itself(pool: WorkerPool, heard: Heard) -> None:
    waits = PooledTool("tricky", TOOL.source, TOOL.seconds, batch=3, batch_wait=60.0)
    assert results([pool.submit(waits, ToolCallInput({}, EMPTY)) for _ in range(3)]) == [DONE] * 3
    assert heard.jobs == [3]
    heard.deeds = [lambda job: [DONE] if not job.calls else []]
    assert results([pool.load(waits)]) == [DONE]
    assert heard.jobs == [3, 0]


def test_what_a_pool_says_of_deaths_and_failures(
    pool: WorkerPool, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = failed("tricky", Status.ERROR, Problem(ProblemKind.TOOL_FAILURE, "It failed.", "a bug"))
    plain = failed("tricky", Status.ERROR, Problem(ProblemKind.TOOL_FAILURE, "It failed."))
    heard.deeds = [raising(CRASH), lambda job: [wrong], lambda job: [plain], raising(ToolLostError("no room"))]
    assert [result.status.value for result in results(asked(pool, 3))] == ["error", "error", "lost"]
    assert caplog.messages == [
        "a worker process of tools died in a call of tricky: its process ended with signal SIGABRT",
        "the tool tricky failed: a bug",
        "a call of the tool tricky is lost: no room",
    ]


def test_a_closed_pool_loses_what_waits_and_what_comes_back(heard: Heard) -> None:
    pool = WorkerPool(1)
    heard.held.clear()
    futures = asked(pool, 2)
    until(pool.pids)
    heard.deeds = [raising(CRASH)]
    owner, pool._owner = pool._owner, -1  # as in a fork of the process that made it
    pool.close()
    assert not futures[1].done()
    pool._owner = owner
    pool.close()
    pool.close()
    heard.held.set()
    for future in (*futures, *asked(pool)):
        result = future.result(20)
        assert result.status is Status.LOST
        assert result.problem.detail == "tricky: the pool of worker processes was closed"


@pytest.mark.parametrize(
    ("cores", "cost", "workers", "count", "threads"),
    [
        (64, Cost.LIGHT, 0, 8, 8), (6, Cost.MEDIUM, 0, 6, 1), (6, Cost.LIGHT, 3, 3, 2), (6, Cost.LIGHT, 20, 20, 1),
        (6, Cost.HEAVY, 3, 1, 6), (None, Cost.LIGHT, 0, 1, 1),
    ],
)  # fmt: skip
def test_how_many_workers_a_process_has_for_a_class_of_cost(
    monkeypatch: pytest.MonkeyPatch, cores: int | None, cost: Cost, workers: int, count: int, threads: int
) -> None:
    monkeypatch.setattr(pooling, "_pools", {})
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    forgotten: list[object] = []
    monkeypatch.setattr("atexit.unregister", forgotten.append)
    made = pooling.shared_pool(cost, workers)
    assert (made._workers, made._threads) == (count, threads)
    assert pooling.shared_pool(cost, workers) is made
    assert pooling.shared_pool(Cost.LIGHT if cost is Cost.HEAVY else Cost.HEAVY, workers) is not made
    pooling.close_shared_pools()
    assert made._closed
    assert made.close in forgotten
    assert pooling.shared_pool(cost, workers) is not made
    pooling.close_shared_pools()


class Slow(Heard):
    """One that starts when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may = threading.Event(), threading.Event()

    def __call__(self, threads: int) -> Heard:
        self.begun.set()
        self.may.wait(20)
        return super().__call__(threads)


def test_a_worker_that_starts_while_its_pool_is_closed_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Slow()
    monkeypatch.setattr(pooling, "Worker", worker)
    pool = WorkerPool(1)
    future = pool.submit(TOOL, ToolCallInput({}, EMPTY))
    assert worker.begun.wait(20)
    pool.close()
    worker.may.set()
    result = future.result(20)
    assert result.status is Status.LOST
    assert "was closed" in result.problem.detail
    assert (worker.made, worker.killed, worker.jobs) == (1, 1, [])
