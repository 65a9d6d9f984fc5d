from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
import pytest_asyncio
from tests.sandbox.providers import PROVIDERS, SUITES, linux_only
from tests.sandbox.tape import PlayingSandbox, PlayingSession, RecordingSandbox, Tape

from saccade.errors import SandboxClosedError, SettingsError
from saccade.plugins.audit.conformance import CHECKS, LIMITS, Check, ConformanceError, run_all
from saccade.record.execution import Status
from saccade.sandbox.base import MIB, Sandbox
from saccade.sandbox.isolation import Isolation
from saccade.sandbox.result import Picture, RunResult, Timings, WrittenFile

pytestmark = [linux_only, pytest.mark.asyncio(loop_scope="module")]

SHARED = [check for check in CHECKS if not check.closes]
CLOSING = [check for check in CHECKS if check.closes]

SPOILT: dict[str, Any] = {
    "stdout": "spoilt", "stderr": "", "pictures": (), "value": None, "traceback": None, "notes": (),
    "files": (), "repairs": (), "layers": (), "timings": Timings(),
}  # fmt: skip
"""What a field becomes that held something."""
_UNDONE = (
    *("rollback.timeout", "rollback.os_exit", "rollback.segmentation_fault", "rollback.memory_error"),
    *("rollback.unprintable_exception", "rollback.thread_left_running", "limits.wall_time_of_a_sleep", "limits.memory"),
)
ASKED_FOR = {
    "committed": {"state.variables_persist", "state.policy_keep", *_UNDONE},
    "stderr": {"output.stdout_and_stderr", "output.text_is_capped"},
    "value": {"captures.last_expression"},
    "traceback": {
        *("state.traceback_is_short", "statuses.each_ending_has_its_status", "statuses.a_memory_error_of_the_program"),
        *("videos.broken_video", *_UNDONE),
    },
    "notes": {"output.text_is_capped", "output.picture_count_is_capped", "output.picture_size_is_capped"},
    "files": {"captures.image_files"},
    "repairs": {"statuses.repair_of_a_path"},
    "layers": {"statuses.layers_are_reported"},
    "timings": {"statuses.timings_are_measured"},
}
"""Fields that only these checks ask for; for all others every check does."""
NOT_ASKED_FOR = {
    *(("output.flood", "status"), ("output.flood", "stdout"), ("output.replaced_stdout", "status")),
    *(("output.every_call_has_its_own_output", "stdout"), ("images.bound_images_behave_like_pillow", "pictures")),
    *(("images.lazy_image_unused_is_not_decoded", "stdout"), ("images.bind_survives_a_failed_call", "stdout")),
    *(("statuses.each_ending_has_its_status", "stdout"), ("statuses.preload", "stdout")),
    ("limits.processes", "stdout"),
}
"""What calls give by the way."""
DOT = Picture("show", "L", 1, 1, b"x")
WRONG: list[tuple[str, Callable[[RunResult], dict[str, Any]]]] = [
    ("state.traceback_is_short", lambda r: {"traceback": f"{r.traceback} saccade/guest/cell.py"}),
    ("state.syntax_error_is_an_error", lambda r: {"traceback": (r.traceback or "").replace("SyntaxError", "Error")}),
    ("captures.pyplot_show_forms", lambda r: {"pictures": [replace(each, data=each.data[1:]) for each in r.pictures]}),
    ("captures.display_forms", lambda r: {"pictures": [r.pictures[0], r.pictures[0], *r.pictures[2:]]}),
    ("captures.opencv_imshow", lambda r: {"pictures": [*r.pictures, DOT]}),
    ("captures.broken_image_file", lambda r: {"pictures": [DOT]}),
    ("captures.image_files", lambda r: {"files": [*r.files, WrittenFile("old.png", 7)] * bool(r.files)}),
    ("captures.image_files", lambda r: {"files": [each for each in r.files if each.path != "out/a.png"]}),
    ("output.unicode_text", lambda r: {"value": None}),
    ("output.unicode_text", lambda r: {"traceback": r.traceback and "Error"}),
    ("output.text_is_capped", lambda r: {"stdout": 2 * r.stdout, "stderr": 2 * r.stderr}),
    ("output.value_is_capped", lambda r: {"value": r.value and "x" * MIB}),
    ("output.value_is_capped", lambda r: {"traceback": r.traceback and "x" * MIB}),
    ("output.total_pixels_are_capped", lambda r: {"pictures": 2 * r.pictures}),
]
"""Checks, and results that are there and wrong."""
BEYOND_RESULTS = {
    "model.any_program",  # has tests of its own
    *("images.lazy_image_decodes_once_for_branches", "concurrency.a_stuck_neighbour_does_not_matter"),
    "images.pillow_images_are_exact",  # makes large pictures each time
    "statuses.empty_and_long_code",
}
"""Checks that a tape cannot pass, since they look at more than results, and long ones."""


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SUITES)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    async with PROVIDERS[request.param](LIMITS) as opened:
        yield opened


@pytest.mark.parametrize("check", SHARED, ids=lambda check: check.name)
@pytest.mark.few(3, of=lambda params: params["check"].name.partition(".")[0])
async def test_conformance(check: Check, sandbox: Sandbox) -> None:
    """The provider passes; and would not if any one of its calls had given something else."""
    recorder = RecordingSandbox(sandbox, await sandbox.isolation())
    await check(recorder)
    if check.name in BEYOND_RESULTS:
        return
    assert await passes(check, recorder.tape)
    for field, number, tape in spoilt(recorder.tape):
        if (check.name, field) in NOT_ASKED_FOR or (field in ASKED_FOR and check.name not in ASKED_FOR[field]):
            continue
        assert not await passes(check, tape), f"another {field} of call {number} was taken without a word"
    for name, change in WRONG:
        if name == check.name:
            wrong = [replace(r, **change(r)) if isinstance(r, RunResult) else r for r in recorder.tape.results]
            assert not await passes(check, replace(recorder.tape, results=wrong))


async def passes(check: Check, tape: Tape) -> bool:
    try:
        await check(PlayingSandbox(tape))
    except (ConformanceError, ValueError, IndexError):
        return False
    return True


def spoilt(tape: Tape) -> Iterator[tuple[str, int, Tape]]:
    """The field that is spoilt, the number of the call, and the tape with it."""
    for number, result in enumerate(tape.results):
        if not isinstance(result, RunResult):
            continue
        other = Status.ERROR if result.ok else Status.OK
        yield "status", number, tape.with_result(number, replace(result, status=other, committed=not result.ok))
        yield "committed", number, tape.with_result(number, replace(result, committed=not result.committed))
        for name, worse in SPOILT.items():
            if getattr(result, name):
                yield name, number, tape.with_result(number, replace(result, **{name: worse}))


@pytest.mark.parametrize("provider", SUITES)
@pytest.mark.parametrize("closing", CLOSING, ids=lambda check: check.name)
@pytest.mark.few(1)
async def test_run_all_runs_the_named_checks(provider: str, closing: Check) -> None:
    """One that closes its sandbox among them, so that each has one of its own."""
    names = ("state.variables_persist", closing.name)
    outcomes = await run_all(lambda: PROVIDERS[provider](LIMITS), names)
    assert [(outcome.check.name, outcome.message) for outcome in outcomes] == [(name, "") for name in names]
    assert all(outcome.passed for outcome in outcomes)


async def test_names_are_unique_and_documented() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names) >= 60
    assert all(check.about.endswith((".", ":")) for check in CHECKS), "each check says in a sentence what it asks"


async def test_run_all_names_unknown_checks() -> None:
    with pytest.raises(SettingsError, match=r"state\.no_such_check"):
        await run_all(lambda: PROVIDERS["local"](LIMITS), ["state.no_such_check"])


class Forgetful:
    """A provider that answers every call with `ok` and nothing else, or with an exception."""

    limits = LIMITS

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def open(self, *_args: object, **_kwargs: object) -> Forgetful:
        return self

    async def run(self, code: str, *, wall_seconds: float | None = None) -> RunResult:
        if self.error is not None:
            raise self.error
        return RunResult(status=Status.OK, committed=True)

    async def close(self) -> None: ...

    async def __aenter__(self) -> Forgetful:
        return self

    async def __aexit__(self, *exc: object) -> None: ...


async def test_a_provider_that_misbehaves_fails() -> None:
    names = ["state.variables_persist", "rollback.exception"]
    outcomes = await run_all(cast(Callable[[], Sandbox], Forgetful), names)
    assert [outcome.passed for outcome in outcomes] == [False, False]
    assert "expected '42', got ''" in outcomes[0].message
    [outcome] = await run_all(lambda: cast(Sandbox, Forgetful(RuntimeError("broken"))), names[:1])
    assert "RuntimeError: broken" in outcome.message


async def test_the_error_is_an_assertion() -> None:
    assert issubclass(ConformanceError, AssertionError)


def printed(*texts: str) -> list[RunResult]:
    """Results of calls that ended well and printed these."""
    return [RunResult(Status.OK, committed=True, stdout=text) for text in texts]


def answers(results: list[RunResult], opened: int = 2) -> Tape:
    return Tape(LIMITS, Isolation(platform="played", layers=()), [None] * opened, [*results])


TIMES = "concurrency.sessions_run_at_the_same_time"
BRANCHES = "branches.branches_run_at_the_same_time"


@pytest.mark.parametrize(
    ("name", "results", "passed"),
    [
        (TIMES, printed("", "", "0 2", "1 3"), True),
        (TIMES, printed("", "", "1 3", "0 2"), True),
        (TIMES, printed("", "", "0 1", "1 2"), False),
        (TIMES, printed("", "", "1 2", "0 1"), False),
        (BRANCHES, printed("", "0 3", "1 4", "2 5", "1 4"), True),
        (BRANCHES, printed("", *["0 3", "1 4", "3 5", "1 4"] * 3), False),
        (BRANCHES, printed("", *["0 3", "1 4", "4 5", "1 4"], *["0 3", "1 4", "2 5", "1 4"]), True),
        ("concurrency.cancelled_run", printed("", "ended in spite of it", "before"), False),
        ("concurrency.calls_of_a_session_are_serial", printed("", *[""] * 8, "[1, 0, 2, 3, 4, 5, 6, 7]"), False),
        ("concurrency.many_sessions", printed(*map(str, range(11)), "7"), False),
    ],
)
async def test_calls_that_do_not_run_as_they_must(name: str, results: list[RunResult], passed: bool) -> None:
    [check] = [check for check in CHECKS if check.name == name]
    assert await passes(check, answers(results, opened=12)) is passed


@pytest.mark.parametrize(
    ("name", "never", "results"),
    [
        ("concurrency.closing_a_session_during_a_call", PlayingSession, [RunResult(Status.LOST), *printed("")]),
        ("concurrency.closing_the_sandbox", PlayingSandbox, printed("", "", "")),
        ("concurrency.closing_the_sandbox_during_a_call", PlayingSandbox, printed("", "")),
    ],
)
async def test_a_provider_that_never_closes_fails(
    name: str, never: type, results: list[RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def close(self: object) -> None: ...

    monkeypatch.setattr(never, "close", close)
    [check] = [check for check in CHECKS if check.name == name]
    assert not await passes(check, answers(results))


async def test_a_closed_sandbox_that_opens_sessions_fails() -> None:
    [check] = [check for check in CHECKS if check.name == "concurrency.closing_the_sandbox"]
    closed = printed("", "", "")
    assert not await passes(check, answers(closed, opened=2))
    refused = answers(closed)
    refused.opened[1] = SandboxClosedError("closed")
    assert await passes(check, refused)
