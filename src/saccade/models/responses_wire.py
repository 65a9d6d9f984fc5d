"""OpenAI's Responses protocol, as pure data: a request as keyword arguments, an answer from its output items.

Nothing is stored by the service (`store` is false), so a turn's reasoning, which it encrypts, is recorded with the call
that ended the turn and goes back before it. Items go back without the service's own ids, which it would look up in its
store. The result of a native call holds its pictures. The protocol knows no stop strings. No IO but reading pictures.

Source: https://platform.openai.com/docs/api-reference/responses, and the types of openai 3.52.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from saccade.core.retry import OutageError
from saccade.errors import ModelRefusedError
from saccade.models.answer import PartialAnswer
from saccade.models.base import MediaReader, Request, Usage
from saccade.models.native_calls import paired
from saccade.models.pictures import encoded_picture
from saccade.record.action import ToolCall
from saccade.record.content import ImagePart, Message, Part, TextPart
from saccade.record.turn import FinishReason

_REASONING: Final = "reasoning.encrypted_content"
_INCOMPLETE: Final = {"max_output_tokens": FinishReason.LENGTH, "content_filter": FinishReason.FILTERED}


def request_fields(request: Request, media: MediaReader, *, without: Collection[str] = ()) -> dict[str, Any]:
    """The fields of the request, model and streaming apart; those of `hosted.DISPENSABLE` in `without` are left out.

    Raises:
        ModelRefusedError: the API cannot take what is asked for.
        MediaError: a picture cannot be read.
    """
    sampling, messages = request.sampling, paired(request.messages)
    for name in ("seed", "top_k"):
        if getattr(sampling, name) is not None:
            raise ModelRefusedError(f"responses does not know {name}; leave it out of the sampling settings")
    if messages and messages[-1].role == "assistant":
        raise ModelRefusedError(
            "responses cannot continue an assistant's message, as this dialect asks. "
            "Use a vllm or sglang server, named so, or another dialect."
        )
    fields: dict[str, Any] = {"input": _items(messages, media), "store": False}
    for name in ("temperature", "top_p"):
        if (value := getattr(sampling, name)) is not None and name not in without:
            fields[name] = value
    if request.max_tokens is not None:
        fields["max_output_tokens"] = request.max_tokens
    if request.tools:
        fields["include"] = [_REASONING]
        fields["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in request.tools
        ]
        if "parallel_tool_calls" not in without:
            fields["parallel_tool_calls"] = False
    return fields


class ResponseReader:
    """Feeds a `PartialAnswer` from a whole response, or from the events of a stream."""

    def __init__(self, answer: PartialAnswer) -> None:
        self._answer = answer
        self._reasoning: list[dict[str, Any]] = []
        """What goes back before the next call."""
        self._refused = False

    def response(self, body: Mapping[str, Any]) -> None:
        """The response. Raises `OutageError` if it failed, or does not follow the protocol."""
        try:
            for item in body["output"]:
                self._texts(item)
                self._item(item)
            self._end(body)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise OutageError("sent an answer that does not follow the protocol.") from error

    def event(self, event: Mapping[str, Any]) -> None:
        """The next event. Raises `OutageError` as `response` does."""
        kind = str(event.get("type")).removeprefix("response.")
        try:
            if kind in ("output_text.delta", "refusal.delta"):
                self._answer.add_text(event["delta"])
            elif kind == "reasoning_summary_text.delta":
                self._answer.add_thought(event["delta"])
            elif kind == "output_item.done":
                self._item(event["item"])
            elif kind in ("completed", "incomplete", "failed"):
                self._end(event["response"])
            elif kind == "error":
                raise OutageError(f"broke off with an error: {event['message']}.")
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise OutageError(f"sent an event {kind!r} that does not follow the protocol.") from error

    def _texts(self, item: Mapping[str, Any]) -> None:
        """What a stream sends piece by piece."""
        if item["type"] == "reasoning":
            for part in item.get("summary") or ():
                self._answer.add_thought(part["text"])
        elif item["type"] == "message":
            for part in item["content"]:
                self._answer.add_text(part["refusal"] if part["type"] == "refusal" else part["text"])

    def _item(self, item: Mapping[str, Any]) -> None:
        kind = item["type"]
        if kind == "message":
            self._refused |= any(part["type"] == "refusal" for part in item["content"])
        elif kind == "reasoning" and (sealed := item.get("encrypted_content")):
            summary = item.get("summary") or []
            self._reasoning.append({"type": "reasoning", "summary": summary, "encrypted_content": sealed})
        elif kind == "function_call":
            call = self._answer.call(len(self._answer.calls))
            call.name, call.call_id, call.arguments = item["name"], item["call_id"], item["arguments"]
            call.sealed = json.dumps(self._reasoning) if self._reasoning else None
            self._reasoning = []

    def _end(self, body: Mapping[str, Any]) -> None:
        answer, status = self._answer, body["status"]
        answer.model = body.get("model") or answer.model
        if usage := body.get("usage"):
            answer.usage = Usage(
                prompt_tokens=usage["input_tokens"],
                cached_tokens=(usage.get("input_tokens_details") or {}).get("cached_tokens"),
                sampled_tokens=usage["output_tokens"],
            )
        if status == "incomplete":
            reason = (body.get("incomplete_details") or {}).get("reason")
            if reason not in _INCOMPLETE:
                raise OutageError(f"broke its answer off for the reason {reason!r}.")
            answer.finish = _INCOMPLETE[reason]
        elif status == "completed":
            ended = FinishReason.TOOL_CALL if answer.calls else FinishReason.STOP
            answer.finish = FinishReason.FILTERED if self._refused else ended
        else:
            words = (body.get("error") or {}).get("message") or "no reason was given"
            raise OutageError(f"ended its answer as {status}: {words}.")


def _items(messages: Sequence[Message], media: MediaReader) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for message in messages:
        if message.call_id is not None:
            output = _content(message.parts, media) or ""
            items.append({"type": "function_call_output", "call_id": message.call_id, "output": output})
            continue
        if message.role == "assistant" and message.media:
            raise ModelRefusedError("responses takes no pictures in an assistant's message; use another dialect")
        role = "user" if message.role == "tool" else message.role
        for call in message.calls:
            items += json.loads(call.sealed or "[]")
        if message.parts:
            content = message.text if role == "assistant" else _content(message.parts, media)
            items.append({"type": "message", "role": role, "content": content})
        items += map(_call, message.calls)
    return items


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": arguments}


def _content(parts: Sequence[Part], media: MediaReader) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, TextPart):
            content.append({"type": "input_text", "text": part.text})
        elif isinstance(part, ImagePart):
            content.append({"type": "input_image", "image_url": encoded_picture(part, media).url, "detail": "auto"})
        else:
            raise ModelRefusedError("responses takes no videos; use a dialect that shows frames")
    return content
