"""`agent_app`: agents behind OpenAI's protocol, as an ASGI application.

`/v1/chat/completions`, `/v1/responses`, `/v1/models`, `/health`, `/metrics`, and the live page with what it asks for
(live.py). Everything but `/health` and the page itself needs the token. No page of another origin may read an
answer, since nothing here allows it to. A request that names another host than this machine is refused where only this
machine should reach the server.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from saccade.core.registry import install
from saccade.core.web import OTHER_HOST, AsgiApp, BearerGate, OwnNames, Receive, Scope, Send, send_json
from saccade.episode.ask import Question
from saccade.errors import UnavailableError
from saccade.plugins.serve import openai_chat
from saccade.plugins.serve.agent_request import (
    UNAUTHORIZED,
    AgentOptions,
    AgentQuestion,
    AgentServeSettings,
    RequestError,
    check_outage,
    error_body,
    not_served,
    of_validation,
    read_messages,
    without_neutral,
)
from saccade.plugins.serve.agents import AgentPool, ServedEpisode
from saccade.plugins.serve.openai_chat import (
    IgnoredFields,
    cut_off,
    final_text,
    own_field,
    reasoning_of,
    thought,
    token_sums,
)
from saccade.record.content import Code
from saccade.record.execution import Execution
from saccade.record.trajectory import Sampling, Trajectory, Turn

# The Responses API: a body as a question to an agent, its episode as output items or as events.
#
# A turn is a reasoning item with what the model wrote and, if it ran code, an item `code_interpreter_call`; the answer
# is a message. Outputs of code are sent if `include` names `code_interpreter_call.outputs`. Nothing is stored.

_OUTPUTS = "code_interpreter_call.outputs"
_OWN_ITEMS = frozenset({"reasoning", "code_interpreter_call"})
"""Items of an earlier answer: the agent looks anew, so they are no part of the question."""


class _Reasoning(BaseModel):
    model_config = ConfigDict(extra="forbid")

    effort: str | None = Field(None, max_length=20)
    summary: str | None = Field(None, max_length=20)
    """What a model wrote is sent back as a summary anyway; so for the older name."""
    generate_summary: str | None = Field(None, max_length=20)


class ResponsesBody(IgnoredFields):
    """The body of a request. What would change the answer and cannot be honoured is refused."""

    model_config = ConfigDict(extra="forbid")

    model: str
    input: str | list[Any]
    instructions: str | None = None
    stream: bool | None = None
    stream_options: dict[str, Literal[False]] | None = None
    include: list[Literal["code_interpreter_call.outputs"]] | None = None
    temperature: float | None = Field(None, ge=0, allow_inf_nan=False)
    top_p: float | None = Field(None, ge=0, le=1)
    max_output_tokens: int | None = Field(None, ge=1)
    saccade: AgentOptions = AgentOptions()
    reasoning: _Reasoning | None = None
    """As `reasoning_effort` of a Chat Completion."""
    # Taken where they ask for nothing but what is done anyway:
    background: Literal[False, None] = None
    store: Literal[False, None] = None
    tools: list[Any] | None = Field(None, max_length=0)
    tool_choice: Literal["none", "auto", None] = None
    text: dict[Literal["format"], dict[Literal["type"], Literal["text"]]] | None = None
    truncation: Literal["disabled", None] = None


def read_response_request(
    body: Any, settings: AgentServeSettings, *, allow_urls: bool, specs: Mapping[str, str]
) -> AgentQuestion:
    """Return the question in a body; `specs` has the full names of models by their short ones.

    Raises:
        RequestError: it is wrong, or asks for what is not done here.
    """
    try:
        given = ResponsesBody.model_validate(without_neutral(body, ResponsesBody))
    except ValidationError as error:
        raise of_validation(error) from None
    items = [{"role": "user", "content": given.input}] if isinstance(given.input, str) else _messages(given.input)
    if given.instructions:
        items = [{"role": "system", "content": given.instructions}, *items]
    reasoning = reasoning_of(given.reasoning.effort if given.reasoning else None, specs.get(given.model, given.model))
    talk = read_messages(items, allow_urls=allow_urls, most=settings.max_media, param="input")
    return AgentQuestion(
        model=given.model,
        question=Question(talk.question(), tuple(talk.media), given.saccade.choices),
        sampling=Sampling(
            temperature=given.temperature,
            top_p=given.top_p,
            max_tokens=given.max_output_tokens,
            reasoning=reasoning,
        ),
        options=given.saccade,
        stream=bool(given.stream),
        with_outputs=bool(given.include),
        ignored=given.ignored(*(("reasoning",) if reasoning is not None else ())),
    )


def _messages(items: list[Any]) -> list[Any]:
    messages = []
    for index, item in enumerate(items):
        kind = item.get("type", "message") if isinstance(item, dict) else None
        if kind == "message":
            messages.append(item)
        elif kind not in _OWN_ITEMS:
            where = f"input[{index}]"
            raise RequestError(f"{where} is no message; this server takes messages.", param=where, code="invalid_value")
    return messages


async def response(asked: AgentQuestion, play: ServedEpisode) -> dict[str, Any]:
    """Return the response. Raises `RequestError` for an outage."""
    trajectory = await play.trajectory()
    check_outage(trajectory)
    output = [item for turn in trajectory.turns for item in _items(turn, asked, play)]
    return _ended(_begun(asked), [*output, _message(final_text(trajectory, ()))], asked, play, trajectory)


async def events(asked: AgentQuestion, play: ServedEpisode) -> AsyncIterator[str]:
    """Yield the events of a stream; an outage is its last one, `response.failed`."""
    writer = _Events()
    begun = _begun(asked)
    yield writer.event("response.created", response=begun)
    yield writer.event("response.in_progress", response=begun)
    output: list[dict[str, Any]] = []
    async for turn in play.turns():
        for item in _items(turn, asked, play):
            for event in writer.item(len(output), item):
                yield event
            output.append(item)
    trajectory = await play.trajectory()
    try:
        check_outage(trajectory)
    except RequestError as error:
        failure = {"code": "server_error", "message": str(error)}
        failed = {**begun, "status": "failed", "error": failure, "output": output}
        yield writer.event("response.failed", response=failed)
        return
    message = _message(final_text(trajectory, ()))
    for event in writer.item(len(output), message):
        yield event
    ended = _ended(begun, [*output, message], asked, play, trajectory)
    yield writer.event(f"response.{ended['status']}", response=ended)


def response_error(error: RequestError) -> str:
    """Return the event of an error after the stream has begun."""
    inner = error_body(error)["error"]
    assert isinstance(inner, dict)
    return _Events().event("error", code=inner["code"], message=inner["message"], param=inner["param"])


class _Events:
    """Numbers the events of one stream."""

    def __init__(self) -> None:
        self._number = 0

    def event(self, kind: str, **fields: Any) -> str:
        data = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"

    def item(self, index: int, item: dict[str, Any]) -> list[str]:
        """Return the events of a whole item, which comes at once."""
        where = {"item_id": item["id"], "output_index": index}
        parts = {"reasoning": self._reasoning, "code_interpreter_call": self._code, "message": self._text}
        empty = {**item, "status": "in_progress", **_EMPTY[item["type"]]}
        return [
            self.event("response.output_item.added", output_index=index, item=empty),
            *parts[item["type"]](item, where),
            self.event("response.output_item.done", output_index=index, item=item),
        ]

    def _reasoning(self, item: dict[str, Any], where: dict[str, Any]) -> list[str]:
        part, where = item["summary"][0], {**where, "summary_index": 0}
        name = "response.reasoning_summary"
        return [
            self.event(f"{name}_part.added", **where, part={**part, "text": ""}),
            self.event(f"{name}_text.delta", **where, delta=part["text"]),
            self.event(f"{name}_text.done", **where, text=part["text"]),
            self.event(f"{name}_part.done", **where, part=part),
        ]

    def _code(self, item: dict[str, Any], where: dict[str, Any]) -> list[str]:
        name = "response.code_interpreter_call"
        return [
            self.event(f"{name}.in_progress", **where),
            self.event(f"{name}_code.delta", **where, delta=item["code"]),
            self.event(f"{name}_code.done", **where, code=item["code"]),
            self.event(f"{name}.interpreting", **where),
            self.event(f"{name}.completed", **where),
        ]

    def _text(self, item: dict[str, Any], where: dict[str, Any]) -> list[str]:
        part, where = item["content"][0], {**where, "content_index": 0}
        return [
            self.event("response.content_part.added", **where, part={**part, "text": ""}),
            self.event("response.output_text.delta", **where, delta=part["text"], logprobs=[]),
            self.event("response.output_text.done", **where, text=part["text"], logprobs=[]),
            self.event("response.content_part.done", **where, part=part),
        ]


_EMPTY: dict[str, dict[str, Any]] = {
    "reasoning": {"summary": []},
    "code_interpreter_call": {"code": "", "outputs": None},
    "message": {"content": []},
}


def _items(turn: Turn, asked: AgentQuestion, play: ServedEpisode) -> list[dict[str, Any]]:
    summary = [{"type": "summary_text", "text": thought(turn)}]
    items: list[dict[str, Any]] = [
        {"id": f"rs_{secrets.token_hex(12)}", "type": "reasoning", "summary": summary, "status": "completed"}
    ]
    ran: list[tuple[str, Execution | None]] = [(call.code, call.execution) for call in turn.hosted]
    if isinstance(turn.action, Code):
        ran.append((turn.action.code, turn.execution))
    for code, execution in ran:
        items.append(
            {
                "id": f"ci_{secrets.token_hex(12)}",
                "type": "code_interpreter_call",
                "status": "completed",
                "container_id": "saccade",
                "code": code,
                "outputs": _outputs(execution, play) if asked.with_outputs else None,
            }
        )
    return items


def _outputs(done: Execution | None, play: ServedEpisode) -> list[dict[str, Any]]:
    if done is None:
        return []
    printed = "\n".join(filter(None, (done.stdout, done.stderr, done.value, done.traceback, *done.notes)))
    logs = [{"type": "logs", "logs": printed}] if printed else []
    return [*logs, *({"type": "image", "url": play.data_url(picture.image)} for picture in done.pictures)]


def _message(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": f"msg_{secrets.token_hex(12)}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _begun(asked: AgentQuestion) -> dict[str, Any]:
    return {
        "id": f"resp_{secrets.token_hex(12)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "model": asked.model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": False,
        "store": False,
        "temperature": asked.sampling.temperature,
        "top_p": asked.sampling.top_p,
        "max_output_tokens": asked.sampling.max_tokens,
        "tool_choice": "none",
        "tools": [],
        "usage": None,
    }


def _ended(
    begun: dict[str, Any],
    output: list[dict[str, Any]],
    asked: AgentQuestion,
    play: ServedEpisode,
    trajectory: Trajectory,
) -> dict[str, Any]:
    cut, sums = cut_off(trajectory), token_sums(trajectory)
    usage = None
    if sums is not None:
        read, cached, written = sums
        usage = {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": sum(turn.tokens.reasoning or 0 for turn in trajectory.turns)},
            "total_tokens": read + written,
        }
    return {
        **begun,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": output,
        "usage": usage,
        "saccade": own_field(asked, play, trajectory),
    }


try:
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    from saccade.plugins.serve.live import PAGE, EventStream, LivePage, as_sent, read_json, unless_gone
except ModuleNotFoundError as missing:
    raise UnavailableError(
        f"serving agents needs FastAPI and uvicorn, which are not installed. Run: {install('serve')}"
    ) from missing


@dataclass(frozen=True, slots=True)
class _Protocol:
    """One of the two APIs."""

    read: Callable[..., AgentQuestion]
    respond: Callable[[AgentQuestion, ServedEpisode], Awaitable[dict[str, Any]]]
    stream: Callable[[AgentQuestion, ServedEpisode], AsyncIterator[str]]
    failed: Callable[[RequestError], str]


_CHAT = _Protocol(
    openai_chat.read_chat,
    openai_chat.completion,
    openai_chat.chunks,
    lambda error: openai_chat.chat_error(error_body(error)),
)
_RESPONSES = _Protocol(
    read_response_request,
    response,
    events,
    response_error,
)

_OTHER_HOST: Final = RequestError(OTHER_HOST, code="other_host")


def agent_app(pool: AgentPool, *, token: str | None, only_local: bool, allow_urls: bool = False) -> AsgiApp:
    """Return the application, which starts `pool` and closes it.

    Args:
        pool: what plays the episodes.
        token: None asks nobody for one: only for a server that no other machine can reach. Where one is asked for,
            clients are visitors, and nothing that is sent says where a model is.
        only_local: whether requests must name this machine as their host.
        allow_urls: whether pictures are fetched from addresses that a request names.

    Raises:
        SettingsError: the token is empty.
    """
    started = int(time.time())
    pool.private = token is not None

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with pool:
            yield

    async def health(_: Request) -> Response:
        return JSONResponse({"ok": True})

    def described(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": started, "owned_by": "saccade"}

    async def models(_: Request) -> Response:
        return JSONResponse({"object": "list", "data": [described(name) for name in pool.models]})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        if name in pool.models:
            return JSONResponse(described(name))
        return JSONResponse(error_body(not_served(name, pool.models)), 404)

    async def metrics(_: Request) -> Response:
        return PlainTextResponse(pool.metrics.text(), media_type="text/plain; version=0.0.4")

    app = Starlette(
        lifespan=lifespan,
        routes=[
            Route("/health", health),
            Route("/v1/models", models),
            Route("/v1/models/{name:path}", model),
            Route("/metrics", metrics),
            *LivePage(pool).routes(),
        ],
        exception_handlers={404: _not_found, 405: _not_found},
    )
    doors = {
        "/v1/chat/completions": _Door(_CHAT, pool, allow_urls),
        "/v1/responses": _Door(_RESPONSES, pool, allow_urls),
    }

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        # What is asked most goes past the layers and routes of the framework, a good part of what a request costs.
        door = doors.get(scope["path"], app) if scope["type"] == "http" else app
        await door(scope, receive, send)

    named = OwnNames(served, refusal=to_json(error_body(_OTHER_HOST))) if only_local else served
    return BearerGate(named, token, refusal=UNAUTHORIZED, free=("/health", PAGE))


@dataclass(frozen=True, slots=True)
class _Door:
    """One of the two APIs at its address."""

    protocol: _Protocol
    pool: AgentPool
    allow_urls: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; until the answer begins, every failure is an error in OpenAI's form."""
        begun = False
        try:
            if scope["method"] != "POST":
                raise _none_here(scope, 405)
            # A place is for those who have asked: one who never ends his request would hold it for nothing.
            self.pool.slot().check()
            body = await read_json(scope, receive, self.pool)
            async with self.pool.slot():
                asked = self.protocol.read(body, self.pool.settings, allow_urls=self.allow_urls, specs=self.pool.specs)
                async with self.pool.playing(asked) as play:
                    if asked.stream:
                        begun = True
                        await EventStream(_streamed(self.protocol, asked, play))(scope, receive, send)
                        return
                    answer = await unless_gone(receive, self.protocol.respond(asked, play))
        except ClientDisconnect:
            return
        except Exception as error:
            if begun:
                raise
            sent = as_sent(error)
            self.pool.metrics.refuse(sent.status)
            await send_json(send, to_json(error_body(sent)), sent.status)
            return
        await send_json(send, to_json(answer))


async def _streamed(protocol: _Protocol, asked: AgentQuestion, play: ServedEpisode) -> AsyncGenerator[str, None]:
    try:
        async for event in protocol.stream(asked, play):
            yield event
    except Exception as error:
        yield protocol.failed(as_sent(error))


async def _not_found(request: Request, error: Exception) -> Response:
    sent = _none_here(request.scope, getattr(error, "status_code", 404))
    return JSONResponse(error_body(sent), sent.status)


def _none_here(scope: Scope, status: int) -> RequestError:
    return RequestError(f"there is no {scope['method']} {scope['path']} here.", code="not_found", status=status)
