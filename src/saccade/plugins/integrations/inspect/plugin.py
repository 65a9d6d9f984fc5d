"""Offer inspect_ai a task, a solver, a scorer and a sandbox.

inspect_ai imports this by the entry point `saccade` of the group `inspect_ai`.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from pydantic import BaseModel, ConfigDict, Field

from saccade.errors import SandboxError
from saccade.plugins.integrations.inspect.inside import KNOWN
from saccade.plugins.integrations.inspect.parts import graded, look, look_again
from saccade.record.execution import Status
from saccade.sandbox.base import MIB, Binding, Limits, Sandbox, Session, SessionOptions, StatePolicy
from saccade.sandbox.registry import sandbox_at
from saccade.sandbox.result import RunResult

__all__ = ["SaccadeSandboxEnvironment", "graded", "look", "look_again"]

# The sandbox `saccade` of inspect_ai: Python and files for its tool `python`, isolated without containers. The jail
# starts no programs, so a command is `python3`, also behind `bash --login -c`, or one of a few that work on files; any
# other ends with 127. The programs of a sample share one interpreter: a variable of one is not seen by the next, a
# changed module is.

_INSIDE: Final = Path(__file__).with_name("inside.py")
_CELL: Final = (
    'exec(_saccade_source, _saccade_space := {"__name__": "inside"})\n'
    '_saccade_space["main"](_saccade_order, _saccade_given)'
)
_CHUNK: Final = 24 * MIB
"""Bytes of a file that travel in one call."""
_KILLED: Final = 137
_ERRORS: Final[dict[str, type[Exception]]] = {
    kind.__name__: kind for kind in (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
}


class SaccadeSandboxConfig(BaseModel):
    """How a sample's sandbox is made: `SandboxEnvironmentSpec("saccade", SaccadeSandboxConfig(...))`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    where: str = "local"
    """`local`, or the address of a `saccade sandbox serve`, whose limits hold then."""
    limits: Limits = Field(
        default_factory=lambda: Limits(
            wall_seconds=300, cpu_seconds=300, file_bytes=128 * MIB, workspace_bytes=512 * MIB, output_bytes=64 * MIB
        )
    )
    """Of the sessions."""


@sandboxenv(name="saccade")
class SaccadeSandboxEnvironment(SandboxEnvironment):  # type: ignore[misc]
    """The sandbox of one sample."""

    def __init__(self, sandbox: Sandbox, session: Session) -> None:
        super().__init__()
        self._sandbox, self._session = sandbox, session

    @classmethod
    async def sample_init(
        cls, task_name: str, config: BaseModel | str | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Start a sandbox for the sample.

        Raises:
            IsolationError: this machine cannot isolate it.
            ValueError: the configuration is a file's name; it is a `SaccadeSandboxConfig`.
        """
        if config is not None and not isinstance(config, SaccadeSandboxConfig):
            raise ValueError(f"the sandbox `saccade` takes a SaccadeSandboxConfig, not {config!r}")
        chosen = config or SaccadeSandboxConfig()
        sandbox = sandbox_at(chosen.where, chosen.limits)
        await sandbox.__aenter__()
        try:
            source = _INSIDE.read_text(encoding="utf-8")
            options = SessionOptions(state=StatePolicy.KEEP)
            session = await sandbox.open({"_saccade_source": source}, options=options)
        except BaseException:
            await sandbox.close()
            raise
        return {"default": cls(sandbox, session)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: BaseModel | str | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            await environment.as_type(SaccadeSandboxEnvironment)._sandbox.close()

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """Return the configuration that a log has kept."""
        return SaccadeSandboxConfig.model_validate(config)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        **others: Any,
    ) -> ExecResult[str]:
        """Run a command; `timeout` of `others` is in seconds, and no command is tried again.

        Raises:
            SandboxUserUnsupportedError: a user is named; there is one.
            TimeoutError, PermissionError, OutputLimitExceededError: as inspect_ai has them.
            SandboxError: the sandbox itself failed.
        """
        if user is not None:
            raise SandboxUserUnsupportedError(f"the sandbox `saccade` has one user, so nothing can run as {user!r}")
        if not cmd:
            raise ValueError("the command is empty")
        if cmd[0].startswith("/") and Path(cmd[0]).name not in KNOWN and await self._is_file(cmd[0]):
            raise PermissionError(f"{cmd[0]}: nothing can be started in this sandbox")
        order = {"kind": "exec", "words": cmd, "cwd": cwd or "", "env": env or {}}
        given = input.encode() if isinstance(input, str) else input
        result = await self._call(order, given or None, others.get("timeout"))
        if result.status is Status.TIMEOUT:
            raise TimeoutError(f"{cmd[0]} was stopped after {others.get('timeout') or 'the sandbox limit of'} seconds")
        most = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        for text in (result.stdout, result.stderr):
            if len(text.encode()) > most:
                raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, text[:most])
        if result.status is Status.OK:
            code = int(result.value or "0")
            return ExecResult(code == 0, code, result.stdout, result.stderr)
        code = _KILLED if result.status in (Status.KILLED, Status.OUT_OF_MEMORY) else 1
        said = [result.stderr, result.traceback or "", *result.notes, f"The command ended as {result.status.value}."]
        return ExecResult(False, code, result.stdout, "\n".join(line for line in said if line))

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file, folders on the way included. Raises PermissionError or IsADirectoryError."""
        data = contents.encode() if isinstance(contents, str) else contents
        for start in range(0, max(len(data), 1), _CHUNK):
            order = {"kind": "write", "path": file, "append": start > 0}
            await self._file_call(file, order, data[start : start + _CHUNK] or None)

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Return the file's content. Raises as inspect_ai has it: FileNotFoundError, PermissionError, ..."""
        order = {"kind": "read", "path": file, "start": 0, "count": 0}
        size = int((await self._file_call(file, order))["size"])
        if size > SandboxEnvironmentLimits.MAX_READ_FILE_SIZE:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        parts = []
        for start in range(0, size, _CHUNK):
            chunk = await self._file_call(file, {**order, "start": start, "count": _CHUNK})
            parts.append(base64.b64decode(str(chunk["data"])))
        body = b"".join(parts)
        return body.decode("utf-8") if text else body

    async def _is_file(self, path: str) -> bool:
        order = {"kind": "read", "path": path, "start": 0, "count": 0}
        result = await self._call(order)
        return result.status is Status.OK and "size" in json.loads(result.stdout or "{}")

    async def _file_call(self, file: str, order: dict[str, Any], given: bytes | None = None) -> dict[str, Any]:
        """Run a call on a file, and return what it printed. Raises the error that it met, with the file's name."""
        result = await self._call(order, given)
        try:
            reply: dict[str, Any] = json.loads(result.stdout)
        except ValueError:
            why = result.traceback or result.status.value
            raise OSError(f"{file} cannot be reached in the sandbox: {why}") from None
        if "error" in reply:
            said = str(reply["said"])
            raise _ERRORS.get(str(reply["error"]), OSError)(said if file in said else f"{file}: {said}")
        return reply

    async def _call(self, order: dict[str, Any], given: bytes | None = None, seconds: float | None = None) -> RunResult:
        bindings: dict[str, Binding] = {
            "_saccade_order": order,
            "_saccade_given": None if given is None else np.frombuffer(given, dtype=np.uint8),
        }
        self._session.bind(bindings)
        result = await self._session.run(_CELL, wall_seconds=seconds)
        if result.status is Status.LOST:
            raise SandboxError("the sandbox failed, through no fault of the command")
        return result
