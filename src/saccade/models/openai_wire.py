"""The chat-completions protocol, as pure data: a request as keyword arguments, an answer from its dictionaries.

Servers differ in what they add to it; a `Server` says so, and each has its file in `saccade.models.providers`. A
request whose last message is the assistant's asks for its continuation, which few servers know. No IO but reading
pictures.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from saccade.core.retry import OutageError
from saccade.errors import ModelRefusedError
from saccade.models.answer import PartialAnswer, first_named
from saccade.models.base import MediaReader, Request, Usage
from saccade.models.native_calls import paired
from saccade.models.openai_messages import chat_messages
from saccade.models.provider import Provider
from saccade.models.stops import can_be_inferred
from saccade.record.content import Message, TextPart
from saccade.record.turn import FinishReason

_FINISH = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALL,
    "function_call": FinishReason.TOOL_CALL,
    "content_filter": FinishReason.FILTERED,
}
_MOST_STOPS = 4
"""Stop strings that the original API takes."""
_TOKEN_ID = re.compile(r"token_id:(\d+)")


@dataclass(frozen=True, kw_only=True)
class Server(Provider):
    """A provider that speaks the protocol, and how it does."""

    unknown_sampling: frozenset[str] = frozenset({"top_k"})
    stop_strings: str = "closing tags by inference, others by the client"
    continues: bool | None = False

    needs_address: bool = True
    """It has no address of its own."""
    length_field: str = "max_tokens"
    """Its name for the most tokens of an answer."""
    always: Mapping[str, object] = field(default_factory=dict)
    """Fields of its own that go with every request."""
    with_stops: Mapping[str, object] = field(default_factory=dict)
    """Fields of its own that go along with stop strings."""
    stops: bool = True
    """It can be given stop strings; if not, the client cuts."""
    names_stop: bool = False
    """It keeps the stop string, or says which one it was."""
    ids_in_streams: bool = True
    """It can give token ids and log-probabilities while it streams."""
    one_call: bool = False
    """It can be told to make one native call at a time."""
    continues_pictures: bool = False
    """It continues a message that holds pictures too."""


def takes_stops(server: Server, stops: tuple[str, ...]) -> bool:
    """Whether `stops` are sent, because the text can be put together exactly afterwards; else the client cuts."""
    if not stops or not server.stops:
        return False
    return server.names_stop or (can_be_inferred(stops) and len(stops) <= _MOST_STOPS)


def request_fields(
    request: Request, media: MediaReader, server: Server, *, without: Collection[str] = ()
) -> dict[str, Any]:
    """The fields of the request, model and streaming apart; those of the server's own under `extra_body`.

    Args:
        request: what is asked.
        media: where pictures are.
        server: who is asked.
        without: those of `hosted.DISPENSABLE` to leave out.

    Raises:
        ModelRefusedError: the server cannot take what is asked for.
        MediaError: a picture cannot be read.
    """
    sampling = request.sampling
    messages = paired(request.messages)
    extra = {**server.always, **_continuation(messages, server)}
    fields: dict[str, Any] = {"messages": chat_messages(messages, media, provider=server.name, videos=server.videos)}
    if sampling.top_k is not None:
        if "top_k" in server.unknown_sampling:
            raise ModelRefusedError(f"{server.name} does not know top_k; leave it out of the sampling settings")
        extra["top_k"] = sampling.top_k
    for name in ("temperature", "top_p", "seed"):
        if (value := getattr(sampling, name)) is not None and name not in without:
            fields[name] = value
    if request.max_tokens is not None:
        fields[server.length_field] = request.max_tokens
    if takes_stops(server, request.stop) and "stop" not in without:
        fields["stop"] = list(request.stop)
        extra.update(server.with_stops)
    if request.tools:
        fields["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in request.tools
        ]
        if server.one_call and "parallel_tool_calls" not in without:
            fields["parallel_tool_calls"] = False
    if extra:
        fields["extra_body"] = extra
    return fields


def read_body(body: Mapping[str, Any], answer: PartialAnswer, *, streamed: bool) -> None:
    """Read an answer that came in one piece, or a chunk of one that is `streamed`; the last chunk may hold no choice.

    Raises:
        OutageError: it does not follow the protocol.
    """
    try:
        if streamed:
            _read_chunk(body, answer)
        else:
            _read_message(body, answer)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise OutageError("sent an answer that does not follow the protocol.") from error


def _read_message(body: Mapping[str, Any], answer: PartialAnswer) -> None:
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0].get("message"), dict):
        raise OutageError("sent an answer without a message.")
    _read_choice(choices[0], choices[0]["message"], answer)
    _read_frame(body, answer)


def _read_chunk(body: Mapping[str, Any], answer: PartialAnswer) -> None:
    for choice in body.get("choices") or ():
        if choice.get("index", 0) in (0, None):
            _read_choice(choice, choice.get("delta") or {}, answer)
    _read_frame(body, answer)


def _read_frame(body: Mapping[str, Any], answer: PartialAnswer) -> None:
    answer.model = body.get("model") or answer.model
    usage = body.get("usage")
    if isinstance(usage, dict):
        details = usage.get("prompt_tokens_details") or {}
        answer.usage = Usage(
            prompt_tokens=usage.get("prompt_tokens"),
            cached_tokens=details.get("cached_tokens"),
            sampled_tokens=usage.get("completion_tokens"),
        )


def _read_choice(choice: Mapping[str, Any], message: Mapping[str, Any], answer: PartialAnswer) -> None:
    text = message.get("content") or message.get("refusal") or ""
    if not isinstance(text, str):
        raise OutageError("sent a text that is none.")
    answer.add_thought(_thought(message))
    answer.add_text(text)
    for at, piece in enumerate(message.get("tool_calls") or ()):
        number = piece.get("index")
        call = answer.call(at if number is None else number)
        function = piece.get("function") or {}
        call.call_id = piece.get("id") or call.call_id
        call.name = function.get("name") or call.name
        call.arguments += function.get("arguments") or ""
    _read_tokens(choice, answer)
    reason = choice.get("finish_reason")
    if reason is not None:
        if reason not in _FINISH:
            raise OutageError(f"ended its answer for the reason {reason!r}.")
        answer.finish = FinishReason.FILTERED if message.get("refusal") else _FINISH[reason]
        answer.stop_named = first_named((choice.get("stop_reason"), choice.get("matched_stop")), answer.stops)


def _thought(message: Mapping[str, Any]) -> str:
    """What the server took out of the text; servers that send it under both names repeat it."""
    values = (message.get(name) for name in ("reasoning_content", "reasoning"))
    return next((thought for thought in values if isinstance(thought, str)), "")


def _read_tokens(choice: Mapping[str, Any], answer: PartialAnswer) -> None:
    values = (choice.get("meta_info") or {}).get("output_token_logprobs")
    if values:  # SGLang: (log-probability, id, text) of each token
        answer.token_ids += [int(token[1]) for token in values]
        answer.logprobs += [float(token[0]) for token in values]
        return
    tokens = (choice.get("logprobs") or {}).get("content") or []
    ids = choice.get("token_ids")
    if ids is None:
        named = [_TOKEN_ID.fullmatch(token.get("token") or "") for token in tokens]
        ids = [int(match[1]) for match in named if match]
        if len(ids) != len(tokens):
            return
    answer.token_ids += ids
    answer.logprobs += [float(token["logprob"]) for token in tokens]


def _continuation(messages: tuple[Message, ...], server: Server) -> dict[str, object]:
    """What asks for the continuation of the last message, if it is the assistant's."""
    last = messages[-1] if messages else None
    if last is None or last.role != "assistant":
        return {}
    if not server.continues:
        raise ModelRefusedError(
            f"{server.name} cannot continue an assistant's message, as this dialect asks. "
            "Use a vllm or sglang server, named so, or another dialect."
        )
    if last.media and not server.continues_pictures:
        raise ModelRefusedError(
            f"{server.name} cannot continue an assistant's message that holds pictures. "
            "Use a vllm server, or another dialect."
        )
    if not isinstance(last.parts[-1], TextPart):  # the server looks for the last text, and forgets what follows it
        raise ModelRefusedError(
            f"{server.name} continues only a message that ends with text. Use a dialect that writes some."
        )
    return {"continue_final_message": True, "add_generation_prompt": False}
