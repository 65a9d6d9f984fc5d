"""The Responses API: a body as a question to an agent, its episode as output items or as events.

A turn is a reasoning item with what the model wrote and, if it ran code, an item `code_interpreter_call`; the answer is
a message. Outputs of code are sent if `include` names `code_interpreter_call.outputs`. Nothing is stored.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from saccade.episode.asking import Question
from saccade.record.action import Code
from saccade.record.execution import Execution
from saccade.record.trajectory import Sampling, Trajectory
from saccade.record.turn import Turn
from saccade.serve.agent_request import AgentOptions, AgentQuestion, AgentServeSettings, RequestError
from saccade.serve.agents import ServedEpisode
from saccade.serve.openai_content import read_messages
from saccade.serve.openai_errors import check_outage, error_body, of_validation
from saccade.serve.openai_fields import IgnoredFields, cut_off, final_text, own_field, thought, token_sums

_OUTPUTS = "code_interpreter_call.outputs"
_OWN_ITEMS = frozenset({"reasoning", "code_interpreter_call"})
"""Items of an earlier answer: the agent looks anew, so they are no part of the question."""


class _Reasoning(BaseModel):
    model_config = ConfigDict(extra="forbid")

    effort: str | None = Field(None, max_length=20)


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
    """Ignored, as `reasoning_effort` of a Chat Completion."""
    # Taken where they ask for nothing but what is done anyway:
    background: Literal[False, None] = None
    store: Literal[False, None] = None
    tools: list[Any] | None = Field(None, max_length=0)
    tool_choice: Literal["none", "auto", None] = None
    text: dict[Literal["format"], dict[Literal["type"], Literal["text"]]] | None = None
    truncation: Literal["disabled", None] = None


def read_response_request(body: Any, settings: AgentServeSettings, *, allow_urls: bool) -> AgentQuestion:
    """The question in a body. Raises `RequestError` for one that is wrong or asks for what is not done here."""
    try:
        given = ResponsesBody.model_validate(body)
    except ValidationError as error:
        raise of_validation(error) from None
    items = [{"role": "user", "content": given.input}] if isinstance(given.input, str) else _messages(given.input)
    if given.instructions:
        items = [{"role": "system", "content": given.instructions}, *items]
    talk = read_messages(items, allow_urls=allow_urls, most=settings.max_media, param="input")
    return AgentQuestion(
        model=given.model,
        question=Question(talk.question(), tuple(talk.media), given.saccade.choices),
        sampling=Sampling(temperature=given.temperature, top_p=given.top_p, max_tokens=given.max_output_tokens),
        options=given.saccade,
        stream=bool(given.stream),
        with_outputs=bool(given.include),
        ignored=given.ignored(),
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
    """The response. Raises `RequestError` for an outage."""
    trajectory = await play.trajectory()
    check_outage(trajectory)
    output = [item for turn in trajectory.turns for item in _items(turn, asked, play)]
    return _ended(_begun(asked), [*output, _message(final_text(trajectory, ()))], asked, play, trajectory)


async def events(asked: AgentQuestion, play: ServedEpisode) -> AsyncIterator[str]:
    """The events of a stream; an outage is its last one, `response.failed`."""
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
    """The event of an error after the stream has begun."""
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
        """The events of a whole item, which comes at once."""
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
            "output_tokens_details": {"reasoning_tokens": 0},
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
