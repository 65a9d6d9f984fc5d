"""Chat Completions: a body as a question to an agent, its episode as a completion or as chunks."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from saccade.episode.ask import Question
from saccade.errors import SaccadeError
from saccade.models.registry import check_sampling, provider_of
from saccade.plugins.serve.agent_request import (
    AgentOptions,
    AgentQuestion,
    AgentServeSettings,
    RequestError,
    check_outage,
    of_validation,
    read_messages,
    without_neutral,
)
from saccade.plugins.serve.agents import ServedEpisode
from saccade.record.content import ImagePart
from saccade.record.trajectory import Sampling, StopReason, Trajectory, Turn

# What both of OpenAI's APIs say of an episode: usage, thoughts, and the field `saccade` of every answer.


class IgnoredFields(BaseModel):
    """Fields of a body that are taken and change nothing; the answer names those that were given."""

    parallel_tool_calls: bool | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    def ignored(self, *heard: str) -> tuple[str, ...]:
        """Return the names of those that were given, without those that were `heard`."""
        given = self.model_fields_set - set(heard)
        return tuple(name for name in _IGNORED if name in given and getattr(self, name) is not None)


_EFFORTS: Final[Mapping[str, Literal["off", "low", "medium", "high"]]] = {
    "none": "off",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


def reasoning_of(effort: str | None, model: str) -> Literal["off", "low", "medium", "high"] | None:
    """Return how much `model` is to think; None where it cannot be told so, or nothing was asked for."""
    level = _EFFORTS.get(effort or "")
    try:
        provider = provider_of(model)
        check_sampling(model, Sampling(reasoning=level))
    except SaccadeError:
        return None
    return level if provider.samples and provider.reasoning is not None else None


_IGNORED: Final = ("reasoning_effort", "reasoning", *IgnoredFields.model_fields)
"""Of both APIs."""


def thought(turn: Turn) -> str:
    """Return the text of the model in a turn, with its function calls where an API gives them apart from the text."""
    calls = [
        json.dumps({"name": call.name, "arguments": dict(call.arguments)}, ensure_ascii=False) for call in turn.calls
    ]
    return "\n".join([*([turn.text] if turn.text else []), *calls])


def final_text(trajectory: Trajectory, stop: Sequence[str]) -> str:
    """Return the answer up to the first stop string; empty if there is none."""
    answer = trajectory.answer or ""
    ends = [at for text in stop if (at := answer.find(text)) >= 0]
    return answer[: min(ends)] if ends else answer


WITHHELD: Final = (StopReason.MODEL_DECLINED, StopReason.FILTERED)
"""Ends at which the model or its provider refused to answer."""


def cut_off(trajectory: Trajectory) -> bool:
    """Return whether a limit ended the episode before there was an answer."""
    ends = (StopReason.ANSWERED, StopReason.NO_ACTION, StopReason.EMPTY, *WITHHELD)
    return trajectory.stop not in ends


def token_sums(trajectory: Trajectory) -> tuple[int, int, int] | None:
    """Sum tokens read, of these from a cache, and written, over all turns; None if the backend does not count them."""
    counts = [turn.tokens for turn in trajectory.turns]
    read = [count.context for count in counts if count.context is not None]
    written = [count.sampled for count in counts if count.sampled is not None]
    if len(read) < len(counts) or len(written) < len(counts):
        return None
    return sum(read), sum(count.context_cached or 0 for count in counts), sum(written)


def own_field(asked: AgentQuestion, play: ServedEpisode, trajectory: Trajectory) -> dict[str, Any]:
    """Return the field `saccade`: how the episode ended, and what was asked for of it."""
    fields: dict[str, Any] = {
        "id": trajectory.id,
        "dialect": trajectory.provenance.dialect,
        "stop": trajectory.stop,
        "stop_detail": trajectory.stop_detail,
        "notes": list(trajectory.provenance.notes),
        "ignored": list(asked.ignored),
        "turns": len(trajectory.turns),
        "seconds": round(trajectory.seconds, 3),
    }
    if asked.options.trajectory:
        fields["trajectory"] = trajectory.model_dump(mode="json")
    if asked.options.media:
        pictures = [part for part in trajectory.media() if isinstance(part, ImagePart)]
        fields["media"] = {part.sha256: play.data_url(part) for part in pictures}
    return fields


class _StreamOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")

    include_usage: bool = False
    include_obfuscation: Literal[False, None] = None


class ChatBody(IgnoredFields):
    """The body of a request. What would change the answer and cannot be honoured is refused."""

    model_config = ConfigDict(extra="forbid")

    model: str
    messages: list[Any] = Field(min_length=1)
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    temperature: float | None = Field(None, ge=0, allow_inf_nan=False)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=0)
    seed: int | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    stop: str | list[str] | None = None
    saccade: AgentOptions = AgentOptions()
    reasoning_effort: str | None = Field(None, max_length=20)
    """Told to a model that can be told so; else it is among the fields that are ignored."""
    # Taken where they ask for nothing but what is done anyway:
    n: Literal[1, None] = None
    logprobs: Literal[False, None] = None
    frequency_penalty: Literal[0, None] = None
    presence_penalty: Literal[0, None] = None
    response_format: dict[Literal["type"], Literal["text"]] | None = None
    modalities: list[Literal["text"]] | None = None
    tools: list[Any] | None = Field(None, max_length=0)
    tool_choice: Literal["none", "auto", None] = None
    store: Literal[False, None] = None


def read_chat(body: Any, settings: AgentServeSettings, *, allow_urls: bool, specs: Mapping[str, str]) -> AgentQuestion:
    """Return the question in a body; `specs` has the full names of models by their short ones.

    Raises `RequestError`: it is wrong, or asks for what is not done here.
    """
    try:
        given = ChatBody.model_validate(without_neutral(body, ChatBody))
    except ValidationError as error:
        raise of_validation(error) from None
    talk = read_messages(given.messages, allow_urls=allow_urls, most=settings.max_media, param="messages")
    stop = (given.stop,) if isinstance(given.stop, str) else tuple(given.stop or ())
    if "" in stop:
        raise RequestError("an empty stop string would cut off every answer.", param="stop", code="invalid_value")
    reasoning = reasoning_of(given.reasoning_effort, specs.get(given.model, given.model))
    most = given.max_tokens if given.max_completion_tokens is None else given.max_completion_tokens
    return AgentQuestion(
        model=given.model,
        question=Question(talk.question(), tuple(talk.media), given.saccade.choices),
        sampling=Sampling(
            temperature=given.temperature,
            top_p=given.top_p,
            top_k=given.top_k,
            seed=given.seed,
            max_tokens=most,
            reasoning=reasoning,
        ),
        options=given.saccade,
        stop=stop,
        stream=bool(given.stream),
        with_usage=given.stream_options is not None and given.stream_options.include_usage,
        ignored=given.ignored(*(("reasoning_effort",) if reasoning is not None else ())),
    )


async def completion(asked: AgentQuestion, play: ServedEpisode) -> dict[str, Any]:
    """Return the completion. Raises `RequestError` for an outage."""
    trajectory = await play.trajectory()
    check_outage(trajectory)
    message = {
        "role": "assistant",
        "content": final_text(trajectory, asked.stop),
        "refusal": None,
        "reasoning_content": "\n\n".join(map(thought, trajectory.turns)),
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(trajectory)}
    head = _head(asked, "chat.completion")
    return {**head, "choices": [choice], "usage": _usage(trajectory), "saccade": own_field(asked, play, trajectory)}


async def chunks(asked: AgentQuestion, play: ServedEpisode) -> AsyncIterator[str]:
    """Yield the events of a stream: each turn as `reasoning_content`, then the answer. Raises as `completion` does."""
    head = _head(asked, "chat.completion.chunk")

    def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event({**head, "choices": [choice], **more})

    yield event({"role": "assistant", "content": ""})
    between = ""
    async for turn in play.turns():
        yield event({"reasoning_content": between + thought(turn)})
        between = "\n\n"
    trajectory = await play.trajectory()
    check_outage(trajectory)
    yield event({"content": final_text(trajectory, asked.stop)})
    yield event({}, _finish(trajectory), saccade=own_field(asked, play, trajectory))
    if asked.with_usage:
        yield _event({**head, "choices": [], "usage": _usage(trajectory)})
    yield "data: [DONE]\n\n"


def chat_error(body: dict[str, object]) -> str:
    """Return the event of an error after the stream has begun."""
    return _event(body)


def _head(asked: AgentQuestion, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": kind,
        "created": int(time.time()),
        "model": asked.model,
    }


def _event(data: object) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


def _finish(trajectory: Trajectory) -> str:
    if trajectory.stop in WITHHELD:
        return "content_filter"
    return "length" if cut_off(trajectory) else "stop"


def _usage(trajectory: Trajectory) -> dict[str, Any] | None:
    sums = token_sums(trajectory)
    if sums is None:
        return None
    read, cached, written = sums
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
