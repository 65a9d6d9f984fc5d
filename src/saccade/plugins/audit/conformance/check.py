"""Define checks, and the small tools that they are written with.

A check is a named coroutine function that gets a sandbox and raises `ConformanceError` if the sandbox does not behave.
It promises nothing about speed: where a check measures time it only asks that something does not hang.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from textwrap import dedent

from saccade.record.execution import Status
from saccade.sandbox.base import MIB, Binding, Limits, Sandbox, Session, SessionOptions
from saccade.sandbox.result import RunResult

LIMITS = Limits(
    wall_seconds=6.0,
    cpu_seconds=3,
    memory_bytes=384 * MIB,
    processes=24,
    open_files=128,
    file_bytes=4 * MIB,
    workspace_bytes=16 * MIB,
    workspace_files=256,
    output_bytes=64 * 1024,
    pictures=6,
    picture_pixels=1_000_000,
    total_pixels=3_000_000,
)
"""Small limits that let the whole suite run quickly. A check reads the limits of the sandbox it is given."""

PATIENCE = 30.0
"""Seconds of wall time after which something that should have ended counts as hanging."""


class ConformanceError(AssertionError):
    """The provider does not do what every sandbox must do; the message says what was expected and what came."""


@dataclass(frozen=True, slots=True)
class Check:
    """One behaviour that every provider must have.

    `closes` tells that the check closes the sandbox it is given, so that it wants one of its own.
    """

    name: str
    group: str
    about: str
    function: Callable[[Sandbox], Awaitable[None]]
    closes: bool = False

    async def __call__(self, sandbox: Sandbox) -> None:
        """Run the check; raises `ConformanceError` if the sandbox does not behave."""
        await self.function(sandbox)


CheckFunction = Callable[[Sandbox], Awaitable[None]]


SessionCheck = Callable[[Session], Awaitable[None]]


class CheckGroup:
    """The checks of one file, in the order in which they are written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.checks: list[Check] = []

    def check(self, function: CheckFunction, *, closes: bool = False) -> CheckFunction:
        """Decorator: the function is a check, its name and docstring are the check's."""
        name: str = getattr(function, "__name__")  # noqa: B009 - a Callable has no declared __name__
        about = (function.__doc__ or "").strip().split("\n")[0]
        self.add(name, about, function, closes=closes)
        return function

    def add(self, name: str, about: str, function: CheckFunction, *, closes: bool = False) -> None:
        """Add a check by its name."""
        self.checks.append(Check(f"{self.name}.{name}", self.name, about, function, closes))

    def closing_check(self, function: CheckFunction) -> CheckFunction:
        """Decorator for a check that closes the sandbox it is given."""
        return self.check(function, closes=True)

    def session(
        self,
        bindings: Mapping[str, Binding] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        options: SessionOptions | None = None,
    ) -> Callable[[SessionCheck], CheckFunction]:
        """Decorator for a check of one session, which is opened with these and closed after it."""

        def decorate(function: SessionCheck) -> CheckFunction:
            @wraps(function)
            async def in_session(sandbox: Sandbox) -> None:
                async with opened(sandbox, bindings, files=files, options=options) as session:
                    await function(session)

            return self.check(in_session)

        return decorate


def expect(condition: bool, message: str) -> None:
    """Raise `ConformanceError(message)` unless `condition`."""
    if not condition:
        raise ConformanceError(message)


def expect_equal(got: object, expected: object, what: str) -> None:
    """Raise `ConformanceError` unless both are equal."""
    expect(got == expected, f"{what}: expected {expected!r}, got {got!r}")


def describe(result: RunResult) -> str:
    """Return a result in one short text, for messages."""
    parts = [f"status {result.status.value}", f"committed {result.committed}"]
    for name in ("stdout", "stderr", "traceback"):
        text = getattr(result, name)
        if text:
            parts.append(f"{name} {text[-600:]!r}")
    if result.notes:
        parts.append(f"notes {result.notes!r}")
    return ", ".join(parts)


@asynccontextmanager
async def opened(
    sandbox: Sandbox,
    bindings: Mapping[str, Binding] | None = None,
    *,
    files: Mapping[str, bytes] | None = None,
    options: SessionOptions | None = None,
) -> AsyncIterator[Session]:
    """A session that is closed at the end of the block."""
    session = await sandbox.open(bindings, files=files, options=options)
    try:
        yield session
    finally:
        await session.close()


async def run(
    session: Session, code: str, status: Status = Status.OK, *, wall_seconds: float | None = None
) -> RunResult:
    """Run `code` (dedented); raises `ConformanceError` unless it ends with `status`, and is committed exactly if ok."""
    result = await session.run(dedent(code), wall_seconds=wall_seconds)
    expect(
        result.status is status,
        f"expected status {status.value}, got: {describe(result)}; the code was:\n{dedent(code)}",
    )
    if status is Status.OK:
        expect(result.committed, f"a call that ended well must be committed, got: {describe(result)}")
    return result


async def expect_output(session: Session, code: str, expected: str) -> None:
    """Run `code`, which must end well and print exactly `wanted` (white space at the ends aside)."""
    result = await run(session, code)
    expect_equal(result.stdout.strip(), expected, f"output of {dedent(code).strip()!r}")


async def expect_rolled_back(session: Session, code: str, status: Status, *, wall_seconds: float | None = None) -> None:
    """`code` sets `marker` and fails with `status`: nothing of it may stay, and the session must continue."""
    await run(session, "marker = 'before'\nbox = [1]")
    result = await run(session, "marker = 'after'\nbox.append(2)\n" + dedent(code), status, wall_seconds=wall_seconds)
    expect(not result.committed, f"a failed call was committed: {describe(result)}")
    expect(bool(result.traceback), f"a failed call must say why it ended in `traceback`: {describe(result)}")
    await expect_output(session, "print(marker, box)", "before [1]")
