"""The environment as OpenEnv's server holds it: one object for each session, over a `LookAgainEnv` of its own.

It translates and decides nothing: a text that is sent, or a call of an MCP tool, is one turn of the same loop. Sessions
share neither sandbox nor pictures nor files, and the folder of a session is deleted with it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError as McpToolError
from fastmcp.tools.base import Tool as McpTool
from fastmcp.tools.base import ToolResult as McpToolResult
from mcp.types import ContentBlock, ImageContent, TextContent
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction
from openenv.core.env_server.types import ConcurrencyConfig, EnvironmentMetadata, Observation
from pydantic import Field

from saccade.core import sync
from saccade.core.registry import did_you_mean, own_version
from saccade.core.web import OTHER_HOST, AsgiApp, BearerGate, OwnNames, OwnPages
from saccade.dialects.base import Dialect, load_dialect
from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.plugins.integrations.openenv.wire import (
    LookMessage,
    LookObservation,
    LookPart,
    LookPicture,
    LookState,
    OpenEnvSettings,
    TurnAction,
)
from saccade.record.content import Action, Answer, Code, ImagePart, TextPart, ToolCall
from saccade.tools.context import CallProblem, ProblemKind
from saccade.tools.definition import ToolModel, check_arguments
from saccade.training.env.look_again import LookAgainEnv
from saccade.training.env.spaces import EnvObservation, RolePart

# The MCP tools of the environment: each call is one turn of the loop, written in the dialect of the server.
#
# `run_python` and `answer` are there wherever the dialect can say them, and each typed tool that the server offers.
# What comes back is what the loop shows an agent: its text and its pictures, and the whole observation as structured
# content.


class CodeArguments(ToolModel):
    """Arguments of `run_python`."""

    code: str = Field(min_length=1, description="The code of one cell.")


class AnswerArguments(ToolModel):
    """Arguments of `answer`."""

    text: str = Field(min_length=1, description="The answer alone.")


_CODE = (
    "Runs Python in an isolated notebook that keeps its variables until the episode ends. Gives back what is printed "
    "and every picture that is shown."
)
_ANSWER = "Answers the question, which ends the episode."


class TurnTool(McpTool):  # type: ignore[misc]
    """A tool whose call is one turn."""

    written: Callable[[dict[str, Any]], str] = Field(exclude=True)
    """Arguments -> the text of the turn; raises `CallProblem` for wrong ones."""
    play: Callable[[str], LookObservation] = Field(exclude=True)

    async def run(self, arguments: dict[str, Any]) -> McpToolResult:
        """Play the turn. Wrong arguments are an error of MCP, and no turn."""
        try:
            text = self.written(arguments)
        except CallProblem as error:
            raise McpToolError(f"invalid arguments: {error.problem.message}") from None
        seen = await asyncio.to_thread(self.play, text)
        structured = seen.model_dump(mode="json", exclude={"metadata"})
        return McpToolResult(content=_content(seen), structured_content=structured)


def turn_tools(settings: OpenEnvSettings, play: Callable[[str], LookObservation]) -> Iterator[TurnTool]:
    """Yield the tools that the dialect of `settings` has words for; `play` plays a turn."""
    dialect, toolbox = settings.prepared(load_dialect(settings.dialect))
    for name, kind, words, sample in (
        ("run_python", CodeArguments, _CODE, Code(code="1")),
        ("answer", AnswerArguments, _ANSWER, Answer(text="1")),
    ):
        if _can_say(dialect, sample):
            parameters = kind.model_json_schema()
            yield TurnTool(
                name=name, description=words, parameters=parameters, written=_checked(dialect, kind), play=play
            )
    for tool in () if toolbox is None else toolbox.definitions:
        yield TurnTool(
            name=tool.name,
            description=tool.description,
            parameters=dict(tool.parameters),
            written=_call(dialect, tool.name),
            play=play,
        )


def _checked(dialect: Dialect, kind: type[CodeArguments | AnswerArguments]) -> Callable[[dict[str, Any]], str]:
    def written(arguments: dict[str, Any]) -> str:
        given = check_arguments(kind, arguments)
        action = Code(code=given.code) if isinstance(given, CodeArguments) else Answer(text=given.text)
        return _said(dialect, action)

    return written


def _call(dialect: Dialect, name: str) -> Callable[[dict[str, Any]], str]:
    # Wrong arguments of a typed tool are the agent's mistake, which the loop shows it.
    return lambda arguments: _said(dialect, ToolCall(name=name, arguments=arguments))


def _said(dialect: Dialect, action: Action) -> str:
    try:
        return dialect.write(action)
    except ValueError as error:
        raise CallProblem(ProblemKind.SCHEMA, f"dialect {dialect.id} cannot say this: {error}") from error


def _can_say(dialect: Dialect, action: Action) -> bool:
    try:
        dialect.write(action)
    except ValueError:
        return False
    return True


def _content(seen: LookObservation) -> list[ContentBlock]:
    content: list[ContentBlock] = [
        TextContent(type="text", text=part)
        if isinstance(part, str)
        else ImageContent(type="image", data=part.data, mimeType=part.mime)
        for message in seen.messages
        for part in seen.shown(message)
        if part
    ]
    if seen.done:
        content.append(TextContent(type="text", text=f"The episode is over: {seen.stop}."))
    return content


NAME = "saccade"


class SessionEnvironment(MCPEnvironment):  # type: ignore[misc]
    """One session: OpenEnv's `reset`, `step` and `state`. Turns of one session are played one after the other."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, settings: OpenEnvSettings) -> None:
        """Start nothing before the first reset. Raises as `LookAgainEnv` does."""
        self._folder = tempfile.TemporaryDirectory(prefix="saccade-openenv-")
        self._store = MediaStore(self._folder.name)
        self._env: LookAgainEnv | None = settings.environment(self._store)
        self._settings = settings
        self._lock = threading.Lock()
        self._state = LookState(dialect=self._env.dialect.id)
        self._last: LookObservation | None = None
        server = FastMCP(NAME)
        for tool in turn_tools(settings, self.turn):
            server.add_tool(tool)
        super().__init__(server)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, *, task: str | int | None = None, **others: Any
    ) -> LookObservation:
        """Begin an episode, with a random task or the one that is named; an episode under way ends.

        Raises `SettingsError`: there is no such task or option, or a value is of the wrong type; `MediaError`: pictures
        of the task cannot be had.
        """
        if others:
            hint = did_you_mean(next(iter(others)), ["seed", "episode_id", "task"])
            raise SettingsError(f"reset knows no option {next(iter(others))!r}. {hint}".rstrip())
        _check("seed", seed, int)
        _check("task", task, str, int)
        _check("episode_id", episode_id, str)
        with self._lock:
            options = None if task is None else {"task": task}
            seen, info = self._opened().reset(seed=seed, options=options)
            self._state = LookState(
                episode_id=episode_id or str(uuid.uuid4()), task=info["task"], dialect=self._state.dialect
            )
            self._last = self._observed(seen, info)
            return self._last

    def turn(self, text: str) -> LookObservation:
        """Play one turn of the agent.

        Raises:
            gymnasium.error.ResetNeeded: no episode is under way.
            IsolationError: the sandbox refuses to start on this machine.
        """
        with self._lock:
            seen, reward, terminated, truncated, info = self._opened().step(text)
            done = terminated or truncated
            self._state = LookState(
                episode_id=self._state.episode_id,
                step_count=self._state.step_count + 1,
                task=self._state.task,
                dialect=self._state.dialect,
                done=done,
            )
            outcome = {"done": done, "reward": reward, "truncated": truncated}
            self._last = self._observed(seen, info).model_copy(update=outcome)
            return self._last

    async def step_async(self, action: TurnAction, timeout_s: float | None = None, **others: Any) -> Observation:
        """Play one turn with a text or a call of an MCP tool; `list_tools` plays none.

        Raises `SettingsError`: a time limit or another option is given: limits are the server's.
        """
        if timeout_s is not None or others:
            named = "timeout_s" if timeout_s is not None else next(iter(others))
            raise SettingsError(f"step takes no {named}: how long a call may run is a setting of the server.")
        if action.type == "list_tools":
            return await super().step_async(ListToolsAction())
        if action.type == "turn":
            return await asyncio.to_thread(self.turn, action.text or "")
        call = CallToolAction(tool_name=action.tool_name, arguments=action.arguments)
        before = self._state.step_count
        answer = await super().step_async(call, timeout_s=self._seconds())
        played = self._last if self._state.step_count > before else None
        if played is not None:
            return answer.model_copy(update={"done": played.done, "reward": played.reward})
        return answer.model_copy(update={"done": self._state.done, "reward": 0.0})

    def step(self, action: TurnAction, timeout_s: float | None = None, **others: Any) -> Observation:
        """Play a turn like `step_async`, for callers without an event loop."""
        return sync.run(self.step_async(action, timeout_s, **others))

    @property
    def state(self) -> LookState:
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """Return name, version and what is played."""
        return EnvironmentMetadata(
            name=NAME,
            description="Questions about pictures, looked at again with Python. Tasks: "
            f"{', '.join(self._settings.tasks)}; dialect: {self._state.dialect}.",
            version=own_version(),
        )

    def close(self) -> None:
        """End the episode and every process of its sandbox, and delete its pictures; idempotent."""
        with self._lock:
            env, self._env = self._env, None
            if env is not None:
                try:
                    env.close()
                finally:
                    self._folder.cleanup()
        super().close()

    def _step_impl(self, action: TurnAction, timeout_s: float | None = None, **others: Any) -> LookObservation:
        return self.turn(action.text or "")

    def _opened(self) -> LookAgainEnv:
        if self._env is None:
            raise SettingsError("this session was closed; open another one")
        return self._env

    def _seconds(self) -> float:
        """Longest time of a tool's call: what the sandbox allows, and as long again for everything around it."""
        return 2 * self._opened().dialect.sandbox.wall_seconds + 30.0

    def _observed(self, seen: EnvObservation, info: Mapping[str, Any]) -> LookObservation:
        messages, pictures = _written(info["new_parts"], self._store)
        stop, status = info.get("stop"), info.get("status")
        record = info.get("trajectory") if self._settings.send_trajectory else None
        return LookObservation(
            reward=0.0,
            text=seen["text"],
            messages=messages,
            pictures=pictures,
            task=info["task"],
            turns=info["turns"],
            action=info.get("action"),
            status=None if status is None else status.value,
            stop=None if stop is None else stop.value,
            lost=info.get("lost", False),
            answer=info.get("answer"),
            scores=info.get("scores", {}),
            trajectory=None if record is None else record.model_dump(mode="json"),
        )


def _written(parts: tuple[RolePart, ...], store: MediaStore) -> tuple[list[LookMessage], list[LookPicture]]:
    """Return what is new as messages, one for each change of role, and the pictures that they name."""
    messages: list[LookMessage] = []
    pictures: list[LookPicture] = []
    for role, part in parts:
        if not messages or messages[-1].role != role:
            messages.append(LookMessage(role=role, content=[]))
        if isinstance(part, TextPart):
            messages[-1].content.append(LookPart(type="text", text=part.text))
        elif isinstance(part, ImagePart):
            messages[-1].content.append(LookPart(type="image", picture=len(pictures)))
            data = base64.b64encode(store.get_bytes(part.sha256)).decode()
            pictures.append(LookPicture(mime=part.mime, width=part.width, height=part.height, data=data))
        else:
            messages[-1].content.append(LookPart(type="video"))
    return messages, pictures


def _check(name: str, value: object, *kinds: type) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
        wanted = " or ".join({int: "a whole number", str: "a text"}[kind] for kind in kinds)
        raise SettingsError(f"{name} is {wanted}, not {type(value).__name__}")


# The server of the environment: OpenEnv's own HTTP and WebSocket application, with a token and a lock for browsers.
#
# The protocol is OpenEnv's library; this says what it serves and who may reach it. There is no encryption.


_UNAUTHORIZED = b'{"detail": "this server asks for a token, in the header Authorization as Bearer TOKEN"}'
_OTHER_HOST = json.dumps({"detail": OTHER_HOST}).encode()


def openenv_app(settings: OpenEnvSettings, *, token: str | None, only_local: bool) -> AsgiApp:
    """Return the ASGI application: `/ws`, `/mcp`, `/reset`, `/step`, `/state`, `/schema`, `/metadata`, `/health`.

    One environment is made and closed first, so that settings that cannot work are refused before anybody connects.
    `only_local`: requests must name this machine as their host. Only `/health` is answered without the token.

    Raises `SettingsError`: the token is empty, or the settings cannot work; the errors of `LookAgainEnv` too.
    """
    SessionEnvironment(settings).close()
    app = create_fastapi_app(
        partial(SessionEnvironment, settings),
        TurnAction,
        LookObservation,
        concurrency_config=ConcurrencyConfig(
            max_concurrent_envs=settings.max_sessions, session_timeout=settings.idle_seconds
        ),
        env_name=NAME,
        state_cls=LookState,
        mode="simulation",
    )
    named = OwnNames(app, refusal=_OTHER_HOST) if only_local else app
    return BearerGate(OwnPages(named), token, refusal=_UNAUTHORIZED, free=("/health",))
