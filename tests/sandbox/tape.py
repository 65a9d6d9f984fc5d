"""A sandbox whose answers are kept on a tape, and one that plays it: for tests of who looks at the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from saccade.errors import SaccadeError, SandboxClosedError
from saccade.sandbox.base import Binding, Limits, Sandbox, Session
from saccade.sandbox.isolation import Isolation
from saccade.sandbox.result import RunResult


@dataclass
class Tape:
    """What a sandbox answered, in the order in which it was asked."""

    limits: Limits
    isolation: Isolation
    opened: list[SaccadeError | None] = field(default_factory=list)
    """Why a session was refused; None where one was opened."""
    results: list[RunResult | SaccadeError | None] = field(default_factory=list)
    """What calls gave or raised; None for one that was cancelled."""

    def with_result(self, number: int, result: RunResult) -> Tape:
        """The same tape with another result of one call."""
        return replace(self, results=[*self.results[:number], result, *self.results[number + 1 :]])


class RecordingSandbox:
    """Passes everything on to a real sandbox, which somebody else opens and closes, and keeps what it answers."""

    def __init__(self, real: Sandbox, isolation: Isolation) -> None:
        self.real = real
        self.limits = real.limits
        self.tape = Tape(real.limits, isolation)

    async def open(self, bindings: Any = None, *, files: Any = None, options: Any = None) -> RecordingSession:
        number = len(self.tape.opened)
        self.tape.opened.append(None)
        try:
            return RecordingSession(await self.real.open(bindings, files=files, options=options), self.tape)
        except SaccadeError as error:
            self.tape.opened[number] = error
            raise

    async def isolation(self) -> Isolation:
        return self.tape.isolation

    async def close(self) -> None:
        await self.real.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None: ...


@dataclass
class RecordingSession:
    """A session of a `RecordingSandbox`."""

    real: Session
    tape: Tape

    async def run(self, code: str, *, wall_seconds: float | None = None) -> RunResult:
        number = len(self.tape.results)
        self.tape.results.append(None)
        try:
            result = await self.real.run(code, wall_seconds=wall_seconds)
        except SaccadeError as error:
            self.tape.results[number] = error
            raise
        self.tape.results[number] = result
        return result

    def bind(self, bindings: Mapping[str, Binding]) -> None:
        self.real.bind(bindings)

    async def branch(self, n: int) -> Sequence[RecordingSession]:
        return [RecordingSession(branch, self.tape) for branch in await self.real.branch(n)]

    async def close(self) -> None:
        await self.real.close()


class PlayingSandbox:
    """Answers as the tape says, whatever it is asked."""

    def __init__(self, tape: Tape) -> None:
        self.limits = tape.limits
        self.tape = tape
        self.opened, self.results = iter(tape.opened), iter(tape.results)
        self.closed = False

    async def open(self, *_args: object, **_options: object) -> PlayingSession:
        if (error := next(self.opened)) is not None:
            raise error
        return PlayingSession(self)

    async def isolation(self) -> Isolation:
        return self.tape.isolation

    async def close(self) -> None:
        self.closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None: ...


@dataclass
class PlayingSession:
    """A session of a `PlayingSandbox`."""

    box: PlayingSandbox
    closed: bool = False

    async def run(self, code: str, *, wall_seconds: float | None = None) -> RunResult:
        result = next(self.box.results)
        await asyncio.sleep(0)  # as a real one, it is not done at once
        if self.closed or self.box.closed:
            raise SandboxClosedError("this session is closed")
        if result is None:
            await asyncio.Event().wait()
        if not isinstance(result, RunResult):
            raise result or AssertionError
        return result

    def bind(self, bindings: Mapping[str, Binding]) -> None: ...

    async def branch(self, n: int) -> Sequence[PlayingSession]:
        return [PlayingSession(self.box) for _ in range(n)]

    async def close(self) -> None:
        self.closed = True
