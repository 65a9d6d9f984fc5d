"""Bounds of the conformance checks: answers just within them pass, those just beyond do not. Nothing is run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sandbox.tape import PlayingSandbox, Tape

from saccade.errors import DecodeError, SaccadeError
from saccade.plugins.audit.conformance import CHECKS, LIMITS, ConformanceError, limit_checks
from saccade.plugins.audit.conformance.output import SLACK
from saccade.record.execution import Status
from saccade.sandbox.isolation import Isolation
from saccade.sandbox.result import Picture, RunResult, Timings

NAMED = {check.name: check for check in CHECKS}


def ok(stdout: str = "", **more: Any) -> RunResult:
    return RunResult(Status.OK, committed=True, stdout=stdout, **more)


def failed(status: Status = Status.ERROR, **more: Any) -> RunResult:
    return RunResult(status, **{"traceback": "why", **more})


async def passes(
    name: str, *results: RunResult | SaccadeError, opened: Sequence[SaccadeError | None] = (None,)
) -> bool:
    tape = Tape(LIMITS, Isolation(platform="played", layers=()), [*opened], [*results])
    try:
        await NAMED[name](PlayingSandbox(tape))
    except ConformanceError:
        return False
    return True


MOST = LIMITS.output_bytes + SLACK
CUT = ("cut",)
START = "start" + "x" * (MOST - 5)


@pytest.mark.parametrize(
    ("stdout", "stderr", "notes", "passed"),
    [
        (START, START, CUT, True),
        (START + "x", START, CUT, False),
        (START, START + "x", CUT, False),
        (START[:-1] + "ä", START, CUT, False),
        (START[1:], START, CUT, False),
        (START, START, (), False),
    ],
)
async def test_text(stdout: str, stderr: str, notes: tuple[str, ...], passed: bool) -> None:
    results = (ok(stdout, notes=notes), ok(stderr=stderr, notes=notes))
    assert await passes("output.text_is_capped", *results) is passed


@pytest.mark.parametrize(
    ("value", "traceback", "passed"),
    [(MOST, MOST, True), (MOST, 1, True), (MOST, 0, False), (MOST + 1, MOST, False), (MOST, MOST + 1, False)],
)
async def test_values_and_tracebacks(value: int, traceback: int, passed: bool) -> None:
    results = (ok(value="x" * value), failed(traceback="y" * traceback))
    assert await passes("output.value_is_capped", *results) is passed


@pytest.mark.parametrize("status", Status)
async def test_a_flood(status: Status) -> None:
    ends = status in (Status.OK, Status.ERROR, Status.KILLED, Status.TIMEOUT)
    assert await passes("output.flood", RunResult(status, stdout="x" * MOST), ok("1")) is ends
    assert not await passes("output.flood", RunResult(status, stdout="x" * (MOST + 1)), ok("1"))
    assert not await passes("output.flood", RunResult(status), failed())


def picture(width: int, height: int, value: int = 0) -> Picture:
    return Picture("show", "L", width, height, bytes([value]) * 4)


@pytest.mark.parametrize(
    ("size", "notes", "passed"),
    [
        ((1000, 1000), CUT, True),
        ((1000, 1001), CUT, False),
        ((1000, 998), CUT, True),
        ((997, 1000), CUT, False),
        ((1000, 1000), (), False),
    ],
)
async def test_the_size_of_a_picture(size: tuple[int, int], notes: tuple[str, ...], passed: bool) -> None:
    assert LIMITS.picture_pixels == 1000 * 1000
    assert await passes("output.picture_size_is_capped", ok(pictures=(picture(*size),), notes=notes)) is passed
    assert not await passes("output.picture_size_is_capped", ok(pictures=(picture(*size),) * 2, notes=notes))


@pytest.mark.parametrize(
    ("pictures", "passed"),
    [
        ([(1000, 1000)] * 3, True),
        ([(1000, 1000)] * 3 + [(1, 1)], False),
        ([(1, 1)], True),
        ([], False),
    ],
)
async def test_the_pixels_of_all_pictures(pictures: list[tuple[int, int]], passed: bool) -> None:
    assert LIMITS.total_pixels == 3 * 1000 * 1000
    shown = tuple(picture(*size) for size in pictures)
    assert await passes("output.total_pixels_are_capped", ok(pictures=shown)) is passed


@pytest.mark.parametrize(
    ("values", "notes", "passed"),
    [(range(LIMITS.pictures), CUT, True), (range(1, LIMITS.pictures + 1), CUT, False),
     (range(LIMITS.pictures + 1), CUT, False), (range(LIMITS.pictures), (), False)],
)  # fmt: skip
async def test_the_number_of_pictures(values: range, notes: tuple[str, ...], passed: bool) -> None:
    shown = tuple(picture(2, 2, value) for value in values)
    assert await passes("output.picture_count_is_capped", ok(pictures=shown, notes=notes)) is passed


SLEPT = {"wall": 0.2, "run": 0.19, "cpu": 0.18, "capture": 0.0}


@pytest.mark.parametrize(
    ("changed", "busy", "passed"),
    [
        ({}, 0.15, True),
        ({}, 0.14, False),
        ({"wall": 0.199}, 0.2, False),
        ({"run": 0.18}, 0.2, False),
        ({"run": 0.2}, 0.2, True),
        ({"run": 0.21}, 0.2, False),
        ({"cpu": 0.19}, 0.2, False),
        ({"cpu": 0.0}, 0.2, True),
        ({"cpu": -0.1}, 0.2, False),
        ({"capture": -0.1}, 0.2, False),
    ],
)
async def test_timings(changed: dict[str, float], busy: float, passed: bool) -> None:
    results = (ok(timings=Timings(**{**SLEPT, **changed})), ok(timings=Timings(cpu=busy)))
    assert await passes("statuses.timings_are_measured", *results) is passed


ENDED = (Status.ERROR, Status.KILLED, Status.REFUSED)
ENDINGS = {
    "limits.wall_time_of_a_stopped_process": ((Status.TIMEOUT, Status.ERROR), ok("1")),
    "limits.file_size": (ENDED, ok("False")),
    "limits.workspace_size": (ENDED, ok("['small.txt']")),
    "limits.workspace_file_count": (ENDED, ok("[]")),
}
"""How a call over the limit may end, and what the next one must print."""


@pytest.mark.parametrize("name", ENDINGS)
async def test_how_a_call_over_a_limit_may_end(name: str) -> None:
    ends, after = ENDINGS[name]
    passed = {status for status in Status if await passes(name, RunResult(status), after)}
    assert passed == set(ends)
    assert not await passes(name, RunResult(ends[0]), ok("something else"))


async def test_recursion_ends_the_call_and_never_the_session() -> None:
    rolled_back = (ok(), failed(), ok("before [1]"))
    name = "limits.deep_recursion"
    passed = {status for status in Status if await passes(name, *rolled_back, RunResult(status), ok("1"))}
    assert passed == set(Status) - {Status.OK, Status.LOST}
    kept = failed(committed=True)
    assert not await passes(name, ok(), kept, ok("before [1]"), failed(), ok("1"))
    assert not await passes(name, ok(), failed(traceback=None), ok("before [1]"), failed(), ok("1"))


@pytest.mark.parametrize(
    ("status", "printed", "passed"),
    [
        (Status.OK, "True 0", True),
        (Status.REFUSED, "True 0", False),
        (Status.REFUSED, "True 3", True),
        (Status.OK, "True 3", False),
        (Status.REFUSED, "False 40", False),
    ],
)
async def test_processes_that_are_left(status: Status, printed: str, passed: bool) -> None:
    assert await passes("limits.processes", RunResult(status, stdout=printed), ok("1")) is passed


@pytest.mark.parametrize(("took", "paused", "passed"), [(29.9, 4.9, True), (30.0, 4.9, False), (29.9, 5.0, False)])
async def test_when_a_call_that_is_ended_was_ended_on_time(
    took: float, paused: float, passed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def pause() -> float:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return paused
        return 0

    clock = iter([100.0, 100.0 + took])
    monkeypatch.setattr(limit_checks, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(limit_checks, "_longest_pause", pause)
    results = (ok(), failed(Status.TIMEOUT), ok("before [1]"))
    assert await passes("limits.wall_time_of_a_sleep", *results) is passed


async def test_the_longest_pause_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    times, through = iter([1.0, 1.5, 4.0, 4.5]), asyncio.Event()

    def clock() -> float:
        if (now := next(times, None)) is None:
            through.set()
            return 4.5
        return now

    monkeypatch.setattr(limit_checks, "time", SimpleNamespace(monotonic=clock))
    looking = asyncio.create_task(limit_checks._longest_pause())
    await through.wait()
    looking.cancel()
    assert await looking == 2.5


async def test_a_broken_picture_may_be_refused_at_once_when_used_or_fail_the_call() -> None:
    name, refused = "images.lazy_image_that_fails", DecodeError("broken")
    assert await passes(name, failed(), ok("1"), opened=[None, None])
    assert await passes(name, refused, ok("1"), opened=[None, None])
    assert await passes(name, ok("1"), opened=[refused, None])
    assert not await passes(name, ok("(4, 4) 0"), ok("1"), opened=[None, None])
    assert not await passes(name, failed(), failed(), opened=[None, None])
