"""The messages protocol of Anthropic, as pure data: a request as keyword arguments, an answer from its events.

System messages go apart, wherever they stood. The result of a native call holds its pictures; one that names no call
is the user's. Neighbours of one role are one message, and blank texts are left out, as the API refuses them. A request
whose last message is the assistant's asks for its continuation: newer models refuse that, none takes pictures in it,
and white space at its end is not sent.

Picture rules are those of the provider's vision guide: 8000 pixels a side, 2000 with more than 20 pictures, 5 MB of
base64; beyond 1568 pixels a side or about 1.15 megapixels (2576 and 3.75 for newer models) the provider scales down
anyway, so it is done here. No IO but reading pictures.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from saccade.core.retry import OutageError
from saccade.errors import ModelRefusedError
from saccade.models.answer import PartialAnswer
from saccade.models.base import MediaReader, Request, Usage
from saccade.models.native_calls import paired
from saccade.models.pictures import PictureRules, encoded_picture
from saccade.record.content import ImagePart, Message, Part, TextPart
from saccade.record.turn import FinishReason

DEFAULT_MAX_TOKENS: Final = 8192
"""The API wants a limit; this one is sent where the sampling settings have none."""
_BASE64_BYTES = 5 * 1024 * 1024
_MANY = 20
_MANY_SIDE = 2000
_FINISH = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP_STRING,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALL,
    "refusal": FinishReason.FILTERED,
}
# Models that see at most 1568 pixels a side. A name that is not here may see more: its pictures keep more detail.
_STANDARD = re.compile(r"claude-(3|haiku-4|sonnet-4|opus-4(-[0156])?(-\d{8})?$)")
# Models that continue an assistant's message; from 4.6 on none does.
_CONTINUING = re.compile(r"claude-(3|(haiku|sonnet|opus)-4(-[015])?(-\d{8})?$)")
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")


def picture_rules(model: str, pictures: int) -> PictureRules:
    """The rules for each picture of a request with that many."""
    side, pixels = (1568, 1_150_000) if _STANDARD.match(model) else (2576, 3_750_000)
    if pictures > _MANY:
        side = min(side, _MANY_SIDE)
    return PictureRules(side=side, pixels=pixels, data_bytes=_BASE64_BYTES * 3 // 4)


def sendable_stops(stops: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `stops` that the API takes: it refuses those of white space alone."""
    return tuple(stop for stop in stops if stop.strip())


def request_fields(
    request: Request, media: MediaReader, model: str, *, without: Collection[str] = ()
) -> dict[str, Any]:
    """The fields of the request; those of `hosted.DISPENSABLE` in `without` are left out.

    Raises:
        ModelRefusedError: the API cannot take what is asked for.
        MediaError: a picture cannot be read.
    """
    sampling = request.sampling
    if sampling.seed is not None:
        raise ModelRefusedError("anthropic does not know a seed; leave it out of the sampling settings")
    pictures = sum(isinstance(part, ImagePart) for message in request.messages for part in message.media)
    rules = picture_rules(model, pictures)
    spoken = [message for message in request.messages if message.role != "system"]
    messages = _messages(paired(spoken), media, rules)
    _prepare_continuation(messages, model)
    fields: dict[str, Any] = {
        "model": model,
        "max_tokens": min(filter(None, (sampling.max_tokens or DEFAULT_MAX_TOKENS, request.room))),
        "messages": messages,
    }
    system = [message for message in request.messages if message.role == "system"]
    if any(message.media for message in system):
        raise ModelRefusedError("anthropic takes no pictures in the system message; put them into a user message")
    if text := "\n\n".join(message.text for message in system if message.text):
        fields["system"] = text
    # Not arguments of the client package any more; models that still know them take them in the body.
    names = [name for name in ("temperature", "top_p", "top_k") if name not in without]
    if own := {name: value for name in names if (value := getattr(sampling, name)) is not None}:
        fields["extra_body"] = own
    if stops := sendable_stops(request.stop):
        fields["stop_sequences"] = list(stops)
    if request.tools:
        fields["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
        fields["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    return fields


class EventReader:
    """Feeds an `PartialAnswer` from the events of a stream."""

    paused = False
    """The API has paused the turn and wants it back; only with tools of its own."""

    def __init__(self, answer: PartialAnswer) -> None:
        self._answer = answer
        self._usage: dict[str, Any] = {}
        self._finish: FinishReason | None = None

    def read(self, event: Mapping[str, Any]) -> None:
        """The next event. Raises `OutageError` if it does not follow the protocol."""
        kind = event.get("type")
        try:
            if kind == "message_start":
                self._answer.model = event["message"]["model"]
                self._count(event["message"]["usage"])
            elif kind == "content_block_start":
                self._begin_block(event["index"], event["content_block"])
            elif kind == "content_block_delta":
                self._add(event["index"], event["delta"])
            elif kind == "message_delta":
                self._end(event["delta"])
                self._count(event["usage"])
            elif kind == "message_stop":
                self._answer.finish = self._finish
        except (KeyError, TypeError) as error:
            raise OutageError(f"sent an event {kind!r} that does not follow the protocol.") from error

    def _begin_block(self, index: int, block: Mapping[str, Any]) -> None:
        if block["type"] == "text":
            self._answer.add_text(block["text"] or "")
        elif block["type"] == "tool_use":
            call = self._answer.call(index)
            call.name, call.call_id = block["name"], block["id"]

    def _add(self, index: int, delta: Mapping[str, Any]) -> None:
        if delta["type"] == "text_delta":
            self._answer.add_text(delta["text"])
        elif delta["type"] == "input_json_delta":
            self._answer.call(index).arguments += delta["partial_json"]

    def _end(self, delta: Mapping[str, Any]) -> None:
        reason = delta["stop_reason"]
        if reason not in _FINISH:
            raise OutageError(f"ended its answer for the reason {reason!r}.")
        self._finish = _FINISH[reason]
        self._answer.stop_named = delta.get("stop_sequence")

    def _count(self, usage: Mapping[str, Any]) -> None:
        self._usage.update({name: value for name, value in usage.items() if value is not None})
        cached = int(self._usage.get("cache_read_input_tokens") or 0)
        fresh = self._usage.get("input_tokens")
        self._answer.cache_written = int(self._usage.get("cache_creation_input_tokens") or 0)
        self._answer.usage = Usage(
            prompt_tokens=None if fresh is None else fresh + cached + self._answer.cache_written,
            cached_tokens=cached,
            sampled_tokens=self._usage.get("output_tokens"),
        )


def _messages(messages: Sequence[Message], media: MediaReader, rules: PictureRules) -> list[dict[str, Any]]:
    wire: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        content = _blocks(message, media, rules)
        if content and wire and wire[-1]["role"] == role:
            wire[-1]["content"] += content
        elif content:
            wire.append({"role": role, "content": content})
    return wire


def _blocks(message: Message, media: MediaReader, rules: PictureRules) -> list[dict[str, Any]]:
    if message.role == "assistant" and message.media:
        raise ModelRefusedError(
            "anthropic takes no pictures in an assistant's message; use a dialect that shows them to the user's side"
        )
    content = _content(message.parts, media, rules)
    if message.call_id is not None:
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": _identifier(message.call_id)}
        return [{**result, "content": content} if content else result]
    calls = [
        {"type": "tool_use", "id": _identifier(call.call_id or ""), "name": call.name, "input": dict(call.arguments)}
        for call in message.calls
    ]
    return content + calls


def _content(parts: Iterable[Part], media: MediaReader, rules: PictureRules) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, TextPart):
            if content and content[-1]["type"] == "text":
                content[-1]["text"] += part.text
            else:
                content.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart):
            picture = encoded_picture(part, media, rules)
            source = {"type": "base64", "media_type": picture.mime, "data": picture.base64}
            content.append({"type": "image", "source": source})
        else:
            raise ModelRefusedError("anthropic takes no videos; use a dialect that shows frames")
    return [block for block in content if block["type"] != "text" or block["text"].strip()]


def _identifier(call_id: str) -> str:
    """The identifier of a call in the characters that the API allows, should it come from elsewhere."""
    return _NOT_IN_IDS.sub("_", call_id)


def _prepare_continuation(messages: list[dict[str, Any]], model: str) -> None:
    """Make sure that the last of `messages`, if it is the assistant's, can be continued."""
    if not messages or messages[-1]["role"] != "assistant":
        return
    if not _CONTINUING.match(model):
        raise ModelRefusedError(
            f"{model} does not continue an assistant's message, as this dialect asks; no Claude from 4.6 on does. "
            "Use a vllm or sglang server, or another dialect."
        )
    last = messages[-1]["content"][-1]
    last["text"] = last["text"].rstrip()
