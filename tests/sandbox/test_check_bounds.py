"""Bounds of the conformance checks: answers just within them pass, those just beyond do not. Nothing is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.sandbox.tape import PlayingSandbox, Tape

from saccade.errors import DecodeError, SaccadeError
from saccade.plugins.audit.conformance import CHECKS, LIMITS, ConformanceError
from saccade.plugins.audit.conformance.output import SLACK
from saccade.record.execution import Status
from saccade.sandbox.isolation import Isolation
from saccade.sandbox.result import Picture, RunResult

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


@pytest.mark.parametrize("status", Status)
async def test_a_flood(status: Status) -> None:
    ends = status in (Status.OK, Status.ERROR, Status.KILLED, Status.TIMEOUT)
    assert await passes("output.flood", RunResult(status, stdout="x" * MOST), ok("1")) is ends
    assert not await passes("output.flood", RunResult(status, stdout="x" * (MOST + 1)), ok("1"))
    assert not await passes("output.flood", RunResult(status), failed())


def picture(width: int, height: int, value: int = 0) -> Picture:
    return Picture("show", "L", width, height, bytes([value]) * 4)


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


async def test_a_broken_picture_may_be_refused_at_once_when_used_or_fail_the_call() -> None:
    name, refused = "images.lazy_image_that_fails", DecodeError("broken")
    assert await passes(name, failed(), ok("1"), opened=[None, None])
    assert await passes(name, refused, ok("1"), opened=[None, None])
    assert await passes(name, ok("1"), opened=[refused, None])
    assert not await passes(name, ok("(4, 4) 0"), ok("1"), opened=[None, None])
    assert not await passes(name, failed(), failed(), opened=[None, None])
