r"""A sandbox that gives back what it was told to and runs nothing: for tests and measurements of what is above it.

    box = ScriptedSandbox(lambda code: RunResult(Status.OK, stdout="2\n", committed=True))
    box = ScriptedSandbox([first_result, second_result])        # one after the other, whoever asks

It follows the interface, not the behaviour: no state, no isolation, no limits. What was asked of it is kept in `runs`
and `opened` only if `keep` is set, so that long measurements do not grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from saccade.errors import SandboxClosedError, SandboxError, SettingsError
from saccade.record.execution import Status
from saccade.sandbox.base import Binding, Limits, Sandbox, SessionOptions
from saccade.sandbox.isolation import Isolation
from saccade.sandbox.result import RunResult

Script = Callable[[str], RunResult] | Iterable[RunResult]


@dataclass
class ScriptedSandbox:
    """Opens sessions that play `script`: a function of the code, or results in order."""

    script: Script
    keep: bool = False
    limits: Limits = field(default_factory=Limits)
    runs: list[str] = field(default_factory=list, init=False)
    """Code that was run."""
    opened: list[ScriptedSession] = field(default_factory=list, init=False)
    live: int = field(default=0, init=False)
    """Sessions that are open now."""

    def __post_init__(self) -> None:
        self._results = None if callable(self.script) else iter(self.script)

    async def open(
        self,
        bindings: Mapping[str, Binding] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        options: SessionOptions | None = None,
    ) -> ScriptedSession:
        self.live += 1
        session = ScriptedSession(self, dict(bindings or {}), dict(files or {}), options or SessionOptions())
        if self.keep:
            self.opened.append(session)
        return session

    async def isolation(self) -> Isolation:
        raise SandboxError("a ScriptedSandbox runs nothing, so nothing is isolated; use LocalSandbox")

    async def close(self) -> None:
        """Do nothing: no process has to be ended."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _result(self, code: str) -> RunResult:
        if self.keep:
            self.runs.append(code)
        if callable(self.script):
            return self.script(code)
        assert self._results is not None
        result = next(self._results, None)
        if result is None:
            raise SandboxError("the script of this ScriptedSandbox is played to its end; give it more results")
        return result


@dataclass
class ScriptedSession:
    """One session of a `ScriptedSandbox`."""

    sandbox: ScriptedSandbox
    bindings: dict[str, Binding]
    """Everything that was ever bound."""
    files: dict[str, bytes]
    options: SessionOptions
    closed: bool = False

    async def run(self, code: str, *, wall_seconds: float | None = None) -> RunResult:
        """Return the script's next result."""
        if self.closed:
            raise SandboxClosedError("this session is closed; open a new one.")
        return self.sandbox._result(code)

    def bind(self, bindings: Mapping[str, Binding]) -> None:
        self.bindings.update(bindings)

    async def branch(self, n: int) -> Sequence[ScriptedSession]:
        """Return `n` sessions with the same bindings and files."""
        return [await self.sandbox.open(self.bindings, files=self.files, options=self.options) for _ in range(n)]

    async def close(self) -> None:
        """End it; idempotent."""
        if not self.closed:
            self.closed = True
            self.sandbox.live -= 1


def scripted(rest: str, limits: Limits, wait: float | None) -> Sandbox:
    """Return answers from a JSON list, one for each call, as in `scripted:FILE.json`; runs nothing, for tests."""
    return ScriptedSandbox(_results(rest), limits=limits)


def _results(path: str) -> list[RunResult]:
    """Return the results in a file: a list of texts (what a call prints) or of objects with fields of `RunResult`."""
    from pydantic import TypeAdapter, ValidationError

    try:
        with open(path, "rb") as file:
            found = TypeAdapter(list[str | RunResult]).validate_json(file.read())
    except OSError as error:
        raise SettingsError(f"sandbox scripted:{path}: the file cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise SettingsError(
            f"sandbox scripted:{path}: {first['msg']}. The file is a JSON list of texts, or of objects such as "
            '{"status": "error", "traceback": "NameError: x"}.'
        ) from error
    return [RunResult(Status.OK, stdout=item, committed=True) if isinstance(item, str) else item for item in found]
