"""The generateContent protocol of Gemini, as pure data: a request as keyword arguments, an answer from its chunks.

System messages go apart. Neighbours of one role are one content, and blank texts are left out. A result of a native
call is text there, and its pictures stand behind it in the same content, which models before Gemini 3 take too. The
signature of a call is sent back with it: Gemini 3 refuses a call of its own without. GIF is no format of the API, so
such pictures are sent as PNG. No IO but reading pictures.

Source: https://ai.google.dev/api/generate-content, and the types of google-genai 3.6.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from saccade.core.retry import OutageError
from saccade.errors import ModelRefusedError
from saccade.models.answer import PartialAnswer
from saccade.models.base import MediaReader, Request, Usage
from saccade.models.gemini_sandbox import read_part
from saccade.models.hosted_calls import OpenCall
from saccade.models.native_calls import paired
from saccade.models.pictures import decoded_picture, encoded_picture, frames_not_chosen, saved_picture
from saccade.models.stops import can_be_inferred
from saccade.record.action import ToolCall
from saccade.record.content import ImagePart, Message, Part, TextPart
from saccade.record.turn import FinishReason

_MOST_STOPS = 5
"""Stop strings that the API takes."""
_FILTERED: Final = (
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "MODEL_ARMOR",
)
_FINISH: Final = {"STOP": FinishReason.STOP, "MAX_TOKENS": FinishReason.LENGTH} | dict.fromkeys(
    _FILTERED, FinishReason.FILTERED
)
_UNSIGNED: Final = b"skip_thought_signature_validator"
"""What the API documents for a call that none of its models made, as in a conversation begun with another one."""
_NEEDS_NONE: Final = re.compile(r"(models/)?gemini-[12][.-]")
"""Models that do not ask for signatures."""


def takes_stops(stops: tuple[str, ...]) -> bool:
    """Whether `stops` are sent, because the one that was swallowed can be inferred; else the client cuts."""
    return bool(stops) and can_be_inferred(stops) and len(stops) <= _MOST_STOPS


def request_fields(request: Request, media: MediaReader, model: str) -> dict[str, Any]:
    """The fields of the request.

    Raises:
        ModelRefusedError: the API cannot take what is asked for.
        MediaError: a picture or a video cannot be read.
    """
    system = [message for message in request.messages if message.role == "system"]
    if any(message.media for message in system):
        raise ModelRefusedError("gemini takes no pictures in the system message; put them into a user message")
    spoken = [message for message in request.messages if message.role != "system"]
    if spoken and spoken[-1].role == "assistant":
        raise ModelRefusedError(
            "gemini cannot continue an assistant's message, as this dialect asks. "
            "Use a vllm or sglang server, named so, or another dialect."
        )
    config: dict[str, Any] = {"automatic_function_calling": {"disable": True}}
    if text := "\n\n".join(message.text for message in system if message.text):
        config["system_instruction"] = text
    for name in ("temperature", "top_p", "top_k", "seed"):
        if (value := getattr(request.sampling, name)) is not None:
            config[name] = value
    if request.max_tokens is not None:
        config["max_output_tokens"] = request.max_tokens
    if takes_stops(request.stop):
        config["stop_sequences"] = list(request.stop)
    if request.tools:
        functions = [
            {"name": tool.name, "description": tool.description, "parameters_json_schema": tool.parameters}
            for tool in request.tools
        ]
        config["tools"] = [{"function_declarations": functions}]
    if request.hosted:
        config["tools"] = [*config.get("tools", ()), {"code_execution": {}}]
    unsigned = None if _NEEDS_NONE.match(model) else _UNSIGNED
    return {"model": model, "contents": _contents(paired(spoken), media, unsigned), "config": config}


def read_chunk(chunk: Mapping[str, Any], answer: PartialAnswer, calls: list[OpenCall] | None = None) -> None:
    """Read a chunk of a stream, or a whole answer, which has the same form; calls of the API's sandbox into `calls`.

    Raises:
        OutageError: it does not follow the protocol, or the model's function call could not be read by its API.
        ModelRefusedError: the service refuses to let the model read the request.
    """
    try:
        _read(chunk, answer, [] if calls is None else calls)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise OutageError("sent an answer that does not follow the protocol.") from error


def _read(chunk: Mapping[str, Any], answer: PartialAnswer, calls: list[OpenCall]) -> None:
    answer.model = chunk.get("model_version") or answer.model
    blocked = chunk.get("prompt_feedback") or {}
    if reason := blocked.get("block_reason"):
        words = blocked.get("block_reason_message") or ""
        raise ModelRefusedError(
            f"gemini does not let the model read this request ({_name(reason)}){': ' * bool(words)}{words}. Change the "
            "question or its pictures."
        )
    for candidate in chunk.get("candidates") or ():
        if not candidate.get("index"):
            _read_candidate(candidate, answer, calls)
    if usage := chunk.get("usage_metadata"):
        answer.usage = _usage(usage)


def _read_candidate(candidate: Mapping[str, Any], answer: PartialAnswer, calls: list[OpenCall]) -> None:
    for part in (candidate.get("content") or {}).get("parts") or ():
        if part.get("text"):
            (answer.add_thought if part.get("thought") else answer.add_text)(part["text"])
        elif called := part.get("function_call"):
            call = answer.call(len(answer.calls))
            call.name, call.call_id = called["name"], called.get("id")
            call.arguments = json.dumps(called.get("args") or {}, ensure_ascii=False)
            if signature := part.get("thought_signature"):
                call.sealed = base64.b64encode(signature).decode("ascii")
        else:
            read_part(part, len(answer.raw), calls)
    reason = candidate.get("finish_reason")
    if reason is None:
        return
    finish = _FINISH.get(_name(reason))
    if finish is None:
        words = candidate.get("finish_message") or ""
        raise OutageError(f"ended its answer for the reason {_name(reason)}{': ' * bool(words)}{words}.")
    answer.finish = FinishReason.TOOL_CALL if answer.calls and finish is FinishReason.STOP else finish


def _name(value: Any) -> str:
    """The name of a value of an enumeration of the package, or the text that it did not know."""
    return str(getattr(value, "value", value))


def _usage(usage: Mapping[str, Any]) -> Usage:
    """Thoughts are sampled tokens, and are paid as such."""
    prompt, written = usage.get("prompt_token_count"), usage.get("candidates_token_count")
    thought = usage.get("thoughts_token_count")
    counted = [count for count in (written, thought) if count is not None]
    return Usage(
        prompt_tokens=None if prompt is None else prompt + (usage.get("tool_use_prompt_token_count") or 0),
        cached_tokens=usage.get("cached_content_token_count") or 0,
        sampled_tokens=sum(counted) if counted else None,
    )


def _contents(messages: Sequence[Message], media: MediaReader, unsigned: bytes | None) -> list[dict[str, Any]]:
    contents: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for message in messages:
        names |= {call.call_id or "": call.name for call in message.calls}
        role = "model" if message.role == "assistant" else "user"
        calls = [_call(call, unsigned) for call in message.calls]
        parts = [*_parts(message, names, media), *calls]
        if parts and contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": parts})
    return contents


def _parts(message: Message, names: Mapping[str, str], media: MediaReader) -> list[dict[str, Any]]:
    if message.call_id is not None:
        result = {"id": message.call_id, "name": names[message.call_id], "response": {"output": message.text}}
        shown = [_part(part, media) for part in message.media]
        return [{"function_response": result}, *shown]
    return [_part(part, media) for part in message.parts if not isinstance(part, TextPart) or part.text.strip()]


def _call(call: ToolCall, unsigned: bytes | None) -> dict[str, Any]:
    called = {"function_call": {"id": call.call_id, "name": call.name, "args": dict(call.arguments)}}
    signature = base64.b64decode(call.sealed) if call.sealed else unsigned
    return called if signature is None else {**called, "thought_signature": signature}


def _part(part: Part, media: MediaReader) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"text": part.text}
    if isinstance(part, ImagePart):
        picture = encoded_picture(part, media)
        if picture.mime == "image/gif":
            picture = saved_picture(decoded_picture(part, media), "PNG")
        return {"inline_data": {"mime_type": picture.mime, "data": picture.data}}
    if part.sample is not None:
        raise ModelRefusedError(frames_not_chosen("gemini"))
    if not part.mime.startswith("video/"):
        raise ModelRefusedError(f"gemini takes no {part.mime} as a video; make it an MP4, or show frames")
    return {"inline_data": {"mime_type": part.mime, "data": media.get_bytes(part.sha256)}}
