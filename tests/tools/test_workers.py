"""Tools in worker processes: limits, crashes, kills, batches, pictures, and what stays when this process is gone."""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.tools.tricky import HERE

from saccade.errors import ToolLostError
from saccade.media.store import MediaStore
from saccade.record.execution import Status
from saccade.tools import workers
from saccade.tools.base import ToolCallInput
from saccade.tools.context import ProblemKind, ToolContext, ToolResult
from saccade.tools.definition import Cost
from saccade.tools.registry import ToolSource, make_tool
from saccade.tools.setup import ToolCallSettings
from saccade.tools.toolbox import Toolbox
from saccade.tools.workers import PooledTool, Worker, WorkerDiedError, WorkerPool, shared_pool

EMPTY = ToolContext({})


TRICKY = PooledTool("tricky", ToolSource(HERE), seconds=20.0)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool(2)
    yield made
    made.close()


def call(pool: WorkerPool, tool: PooledTool = TRICKY, context: ToolContext = EMPTY, **arguments: object) -> ToolResult:
    return pool.submit(tool, ToolCallInput(arguments, context)).result(60)


def of(result: ToolResult, name: str) -> object:
    assert result.value is not None, result
    return result.value[name]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]


def test_a_call_runs_elsewhere_and_the_tool_stays_loaded(pool: WorkerPool, capfd: pytest.CaptureFixture[str]) -> None:
    first, second = call(pool), call(pool, do="print")
    assert of(first, "pid") == of(second, "pid") != os.getpid()
    assert (of(second, "loads"), of(second, "threads")) == (1, os.environ.get("OMP_NUM_THREADS", "1"))
    printed = capfd.readouterr()
    assert (printed.out, "a tool prints" in printed.err) == ("", True)


def test_ctrl_c_is_left_to_the_process_that_has_the_workers(pool: WorkerPool) -> None:
    pid = of(call(pool), "pid")
    os.kill(int(str(pid)), signal.SIGINT)
    assert of(call(pool), "pid") == pid


def test_a_hung_tool_is_ended_and_the_next_call_works(pool: WorkerPool) -> None:
    quick = PooledTool("tricky", ToolSource(HERE), seconds=0.3)
    before = of(call(pool), "pid")
    result = call(pool, quick, seconds=60)
    assert result.status is Status.TIMEOUT
    assert "longer than 0.3 s" in result.text
    assert result.problem.kind is ProblemKind.TOOL_FAILURE
    assert of(call(pool), "pid") != before
    assert not alive(int(str(before)))


def test_a_crash_is_the_tools_and_a_kill_from_outside_is_not(
    pool: WorkerPool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    crashed, killed = call(pool, do="crash"), call(pool, do="die")
    assert (crashed.status, killed.status) == (Status.KILLED, Status.LOST)
    assert "crash again" in crashed.text
    assert killed.text == ""
    assert "SIGKILL" in killed.problem.detail
    # The first time may be bad luck: it is tried once more.
    assert call(pool, do="die-once", mark=str(tmp_path / "died")).ok
    caplog.clear()
    raised = call(pool, do="raise")
    assert (raised.status, raised.value) == (Status.ERROR, None)
    assert f"the tool tricky failed: {raised.problem.detail}" in caplog.messages


def test_calls_are_batched_and_one_that_crashes_harms_no_other() -> None:
    tool = PooledTool("tricky", ToolSource(HERE), seconds=20.0, batch=4)
    with_crash = ["sleep", "answer", "crash", "answer", "answer"]
    pool = WorkerPool(1)
    try:
        asked = [pool.submit(tool, ToolCallInput({"do": do, "seconds": 0.1}, EMPTY)) for do in with_crash]
        results = [future.result(60) for future in asked]
        together = [pool.submit(tool, ToolCallInput({"seconds": 0.05}, EMPTY)) for _ in range(5)]
        sizes = {of(future.result(60), "together") for future in together}
    finally:
        pool.close()
    assert [result.status.value for result in results] == ["ok", "ok", "killed", "ok", "ok"]
    assert sizes & {2, 3, 4}
    assert max(pool.counts.batches) == 4


def test_a_worker_that_cannot_make_the_tool_is_an_outage(pool: WorkerPool, tmp_path: Path) -> None:
    gone = call(pool, PooledTool("gone", ToolSource(f"{tmp_path}/gone.py:Gone"), seconds=5.0))
    assert gone.status is Status.LOST
    assert "gone.py" in gone.problem.detail
    missing = call(pool, PooledTool("tricky", ToolSource(HERE, {"weights": "nowhere"}), seconds=5.0))
    assert missing.status is Status.REFUSED
    assert (missing.problem.kind, missing.problem.kind.vista) == (ProblemKind.UNAVAILABLE, None)


def test_a_tool_whose_load_fails_is_unavailable_and_no_crash(pool: WorkerPool) -> None:
    before = of(call(pool), "pid")
    torn = call(pool, PooledTool("tricky", ToolSource(HERE, {"weights": "torn"}), seconds=5.0))
    assert torn.status is Status.REFUSED
    assert (torn.problem.kind, torn.problem.kind.vista) == (ProblemKind.UNAVAILABLE, None)
    assert "load() failed: EOFError: the file ends in the middle" in torn.problem.detail
    assert of(call(pool), "pid") == before


def test_pictures_of_a_store_travel_by_name_and_give_the_same_result(tmp_path: Path, pool: WorkerPool) -> None:
    store = MediaStore(tmp_path)
    part = store.put_image(Image.effect_noise((60, 40), 90).convert("RGB"))
    stored, loose = ToolContext({"scene": store.open(part)}), ToolContext({"scene": store.open(part).decode()})
    arguments = {"box": [5, 5, 25, 20], "scale": 2}
    here = make_tool("crop").call(arguments, stored)
    crop = PooledTool("crop", ToolSource("crop"), seconds=20.0)
    for context in (stored, loose):
        there = call(pool, crop, context, **arguments)
        assert (there.status, there.value, there.text) == (here.status, here.value, here.text)
        assert there.pictures[0].name == here.pictures[0].name
        assert there.pictures[0].image.tobytes() == here.pictures[0].image.tobytes()

    assert len(pickle.dumps(stored)) < 1000 < 60 * 40 * 3 < len(pickle.dumps(loose))
    store.path(part.sha256).unlink()
    assert call(pool, crop, stored, **arguments).status is Status.LOST


def test_a_picture_that_a_function_makes_travels_decoded(pool: WorkerPool) -> None:
    crop = PooledTool("crop", ToolSource("crop"), seconds=20.0)
    result = call(pool, crop, ToolContext({"a": lambda: Image.new("RGB", (30, 20), "red")}), box=[5, 5, 25, 20])
    assert result.pictures[0].image.getpixel((3, 3)) == (255, 0, 0)


def test_what_cannot_be_sent_is_lost_and_the_pool_goes_on(pool: WorkerPool) -> None:
    result = call(pool, do=lambda: "answer")
    assert result.status is Status.LOST
    assert "tricky.py:Tricky cannot be sent to a worker process" in result.problem.detail
    assert call(pool, do="answer").ok


async def test_parallel_calls_do_not_wait_for_each_other_nor_hold_the_loop() -> None:
    box = Toolbox.of(HERE.replace("Tricky", "Alone"), calls=ToolCallSettings(workers=3))
    start = time.monotonic()
    slow = [asyncio.ensure_future(box.call_async("tricky", {"seconds": 20}, EMPTY)) for _ in range(2)]
    quick = await asyncio.gather(*(box.call_async("tricky", {"do": "answer"}, EMPTY) for _ in range(24)))
    assert all(result.ok for result in quick)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    assert time.monotonic() - start < 18  # a cancelled call is not waited for


def test_a_wrong_call_needs_no_worker(context: ToolContext) -> None:
    box = Toolbox.of("crop", calls=ToolCallSettings(workers=7))
    wrong = box.call("crop", {"bx": [0, 0, 1, 1]}, context)
    assert wrong.problem.kind is ProblemKind.ARGUMENT_NAME
    assert shared_pool(Cost.LIGHT, 7).pids() == ()


def test_a_closed_pool_loses_what_it_had() -> None:
    pool = WorkerPool(1)
    waits = [pool.submit(TRICKY, ToolCallInput({"seconds": 30}, EMPTY)) for _ in range(3)]
    while not pool.pids():
        time.sleep(0.02)
    (pid,) = pool.pids()
    assert len(pool._served) == 1, "as many as the pool has workers, whatever waits"
    pool.close()
    assert {future.result(30).status for future in waits} == {Status.LOST}
    assert pool.submit(TRICKY, ToolCallInput({}, EMPTY)).result(5).status is Status.LOST
    assert not alive(pid)


def test_workers_die_with_a_process_that_is_killed(tmp_path: Path) -> None:
    program = f"""
from saccade.tools.base import ToolCallInput
from saccade.tools.context import ToolContext
from saccade.tools.registry import ToolSource
from saccade.tools.workers import PooledTool, WorkerPool
pool = WorkerPool(1)
tool = PooledTool("tricky", ToolSource({HERE!r}), seconds=100.0)
print(pool.submit(tool, ToolCallInput({{}}, ToolContext({{}}))).result().value["pid"], flush=True)
pool.submit(tool, ToolCallInput({{"seconds": 100}}, ToolContext({{}}))).result()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        assert alive(pid)
        process.kill()
    end = time.monotonic() + 20
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive(pid)


def fault_run(calls: int, kills: int) -> list[ToolResult]:
    """Calls beside random kills of workers and random delays, some of them beyond the limit."""
    rng = random.Random(0)
    pool = WorkerPool(3)
    tool = PooledTool("tricky", ToolSource(HERE), seconds=0.4, batch=2)
    asked = []
    try:
        for number in range(calls):
            do = (
                ("crash" if number % 15 == 7 else rng.choice(["answer", "answer", "raise"])) if number % 10 else "sleep"
            )
            seconds = rng.choice([0.0, 0.01, 0.05]) if number % 20 else 5.0
            asked.append(pool.submit(tool, ToolCallInput({"do": do, "seconds": seconds}, EMPTY)))
        done = 0
        while (now := sum(future.done() for future in asked)) < calls:
            if now > done and kills and (pids := pool.pids()):
                done, kills = now, kills - 1
                os.kill(rng.choice(pids), signal.SIGKILL)
            time.sleep(0.1)
        return [future.result(0) for future in asked]
    finally:
        pool.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("calls", "kills"), [(40, 3), pytest.param(500, 40, marks=pytest.mark.slow)], ids=["40", "500"]
)
def test_every_call_beside_kills_and_delays_ends_typed(calls: int, kills: int) -> None:
    results = fault_run(calls, kills)
    assert len(results) == calls
    kinds = {result.status for result in results}
    assert {Status.OK, Status.ERROR, Status.KILLED, Status.TIMEOUT} <= kinds
    assert kinds <= {Status.OK, Status.ERROR, Status.KILLED, Status.TIMEOUT, Status.LOST}
    assert all((result.value is not None) is result.ok for result in results)
    assert all((result.problem is None) is result.ok for result in results)


@pytest.mark.parametrize(
    ("code", "words", "from_outside"),
    [(3, "exit code 3", False), (0, "exit code 0", False), (-9, "signal SIGKILL", True), (-15, "signal SIGTERM", True),
     (-6, "signal SIGABRT", False), (-99, "signal 99", False)],
)  # fmt: skip
def test_how_a_process_ended(code: int, words: str, from_outside: bool) -> None:
    error = WorkerDiedError(code)
    assert (str(error), error.from_outside) == (f"its process ended with {words}", from_outside)


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
    monkeypatch.setattr(workers, "_PROGRAM", program)
    monkeypatch.setattr(workers, "START_SECONDS", seconds)
    with pytest.raises(ToolLostError, match=f"a worker process for tools does not start: {why}"):
        Worker(1)
    assert made[0].returncode is not None
