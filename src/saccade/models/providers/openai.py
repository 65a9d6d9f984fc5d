"""OpenAI, and the model behind the chat-completions protocol that all servers of it share.

    model = OpenAIModel(Endpoint("gpt-4.1"))
    model = OpenAIModel(Endpoint("Qwen/Qwen2.5-VL-7B-Instruct", base_url="http://localhost:8000/v1"), server="vllm")

Text and stop strings are exact on vLLM and SGLang. OpenAI swallows stop strings without naming them: closing tags
are put back by inference (see `stops.unclosed`); other stop strings, and all on models that refuse them, are cut off
here by ending the stream, and then tokens and money of the call are unknown (None), for the server tells them last.
A model that refuses stop strings, a temperature, or to be told to make one native call at a time, is asked without
from then on. A request that is refused with the room that an episode's limits leave, which may be more than the server
gives to any answer, is sent once more without it: then the server's own limit holds.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from saccade.core.retry import OutageError
from saccade.errors import ModelDeniedError, ModelRefusedError, RegistryError, SettingsError
from saccade.models.answer import PartialAnswer, Sent, first_named, raise_sent, sent, sent_whole
from saccade.models.base import MediaReader, Request, can_be_inferred
from saccade.models.batches import BatchApi, OpenAIBatches
from saccade.models.endpoint import Endpoint, endpoint_of
from saccade.models.failures import OtherMannerError, RefusedParameterError
from saccade.models.hosted import DISPENSABLE, HostedModel, read_stream, refuse_hosted
from saccade.models.pictures import NO_RULES, PictureRules, encoded_picture, frames_not_chosen
from saccade.models.registry import PROVIDERS, Provider
from saccade.models.thinking import (
    USUAL,
    Manners,
    azure_thinking,
    compatible_thinking,
    openai_thinking,
    template_says,
    template_thinking,
)
from saccade.models.tolerances import add_content, argument_piece, calls_of, end_of, flat, read_usage, thought_of
from saccade.record.content import ImagePart, Message, Part, TextPart, ToolCall
from saccade.record.trajectory import FinishReason

# Messages in the words of the chat-completions protocol. No IO but reading pictures.
#
# The result of a native call is text there: its pictures follow in a message of the user, each with the line of text in
# which it stands. A result that names no call is the user's, as in dialects that do not use native calls.

_SEE_BELOW = "The pictures follow."
"""Stands for the text of a result that has pictures only; servers differ in whether they take an empty one."""


def chat_messages(
    messages: Sequence[Message], media: MediaReader, *, provider: str, videos: bool, rules: PictureRules = NO_RULES
) -> list[dict[str, Any]]:
    """Return `messages`, whose calls are paired, as the protocol has them.

    Args:
        messages: what was said.
        media: where pictures are.
        provider: for messages of errors.
        videos: whether videos are taken.
        rules: for pictures.

    Raises `ModelRefusedError`: there is a video, and none are taken; `MediaError`: a picture cannot be read.
    """
    wire: list[dict[str, Any]] = []
    shown: list[Part] = []
    for message in (*messages, None):
        if shown and (message is None or message.call_id is None):  # not before all calls are answered
            wire.append({"role": "user", "content": _content(shown, media, provider, videos, rules)})
            shown = []
        if message is None:
            break
        if message.call_id is not None:
            text, pictures = _split(message.parts)
            if pictures:
                shown += [TextPart(text=f"Pictures of the result of call {message.call_id}:\n"), *pictures]
                text = text if text.strip() else _SEE_BELOW
            wire.append({"role": "tool", "tool_call_id": message.call_id, "content": text})
            continue
        role = "user" if message.role == "tool" else message.role
        entry: dict[str, Any] = {"role": role, "content": _content(message.parts, media, provider, videos, rules)}
        if message.calls:
            entry["content"] = entry["content"] or None
            entry["tool_calls"] = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
                }
                for call in message.calls
            ]
        wire.append(entry)
    return wire


def _split(parts: Sequence[Part]) -> tuple[str, list[Part]]:
    """Return the text up to the line in which the first picture or video stands, and all parts from that line on."""
    first = next((at for at, part in enumerate(parts) if not isinstance(part, TextPart)), len(parts))
    text = "".join(part.text for part in parts[:first] if isinstance(part, TextPart))
    if first == len(parts):
        return text, []
    cut = text.rfind("\n") + 1
    label = [TextPart(text=text[cut:])] if text[cut:] else []
    return text[:cut], [*label, *parts[first:]]


def _content(
    parts: Iterable[Part], media: MediaReader, provider: str, videos: bool, rules: PictureRules
) -> str | list[dict[str, Any]]:
    parts = tuple(parts)
    if all(isinstance(part, TextPart) for part in parts):
        return "".join(part.text for part in parts if isinstance(part, TextPart))
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, TextPart):
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart):
            content.append({"type": "image_url", "image_url": {"url": encoded_picture(part, media, rules).url}})
        elif videos and part.sample is not None:
            raise ModelRefusedError(frames_not_chosen(provider))
        elif videos:
            data = base64.b64encode(media.get_bytes(part.sha256)).decode("ascii")
            content.append({"type": "video_url", "video_url": {"url": f"data:{part.mime};base64,{data}"}})
        else:
            raise ModelRefusedError(f"{provider} takes no videos; use a dialect that shows frames")
    return content


# Native calls as APIs want them: each has an identifier, and its result follows at once.
#
# APIs refuse a request in which a call is not answered or a result answers nothing. The loop makes no such request;
# this holds for messages from anywhere. Pure data; no API is named here.


def paired(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return `messages` in which every call has an identifier and exactly one result, after its own message.

    A call without a result is left out. A result without a call loses its `call_id` and stands after the others. What
    holds nothing is left out, and so is an assistant's message of blanks, unless it is the last, to be continued.
    """
    pairs: list[Message] = []
    used: set[str] = set()
    at = 0
    while at < len(messages):
        message, first = messages[at], at + 1
        at = first
        while message.calls and at < len(messages) and messages[at].role == "tool":
            at += 1
        pairs += _exchange(message, messages[first:at], f"call_{first}", used)
    return tuple(
        message
        for message in pairs
        if message.calls or message.call_id or (message.parts and (message is pairs[-1] or not _blank(message)))
    )


def _blank(message: Message) -> bool:
    texts = (part.text if isinstance(part, TextPart) else "picture" for part in message.parts)
    return message.role == "assistant" and not "".join(texts).strip()


def _exchange(message: Message, results: Sequence[Message], stem: str, used: set[str]) -> list[Message]:
    """Return a message and what answers its calls; identifiers that are missing or `used` before begin with `stem`."""
    if not message.calls:
        return [message if message.call_id is None else message.model_copy(update={"call_id": None})]
    unanswered = list(message.calls)
    calls: list[ToolCall] = []
    answers: list[Message] = []
    loose: list[Message] = []
    for result in results:
        call = next((call for call in unanswered if call.call_id == result.call_id), None)
        if call is None:
            loose.append(result.model_copy(update={"call_id": None}))
            continue
        unanswered.remove(call)
        identifier = call.call_id if call.call_id and call.call_id not in used else f"{stem}_{len(calls)}"
        used.add(identifier)
        calls.append(call.model_copy(update={"call_id": identifier}))
        answers.append(result.model_copy(update={"call_id": identifier}))
    return [message.model_copy(update={"calls": tuple(calls)}), *answers, *loose]


# The chat-completions protocol, as pure data: a request as keyword arguments, an answer from its dictionaries.
#
# Servers differ in what they add to it; a `Server` says so, and each has its file in `saccade.models.providers`. A
# request whose last message is the assistant's asks for its continuation, which few servers know. No IO but reading
# pictures.


_FINISH = ("stop", "length", "tool_calls", "function_call", "content_filter")
"""The protocol's reasons for an end."""
_MOST_STOPS = 4
"""Stop strings that the original API takes."""
_TOKEN_ID = re.compile(r"token_id:(\d+)")


@dataclass(frozen=True, kw_only=True)
class Server(Provider):
    """A provider that speaks the protocol, and how it does."""

    unknown_sampling: frozenset[str] = frozenset({"top_k"})
    stop_strings: str = "closing tags by inference, others by the client"
    continues: bool | None = False

    takes_extra: bool = True

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
    streams_functions: bool = False
    """With functions its answers are streamed, because a call that it cannot read is an error (500) in a whole one."""
    one_call: bool = False
    """It can be told to make one native call at a time."""
    continues_pictures: bool = False
    """It continues a message that holds pictures too."""


def takes_stops(server: Server, stops: tuple[str, ...]) -> bool:
    """Tell whether `stops` are sent, because the text can be put together exactly afterwards; else the client cuts."""
    if not stops or not server.stops:
        return False
    return server.names_stop or (can_be_inferred(stops) and len(stops) <= _MOST_STOPS)


def request_fields(
    request: Request,
    media: MediaReader,
    server: Server,
    *,
    without: Collection[str] = (),
    manners: Manners = USUAL,
) -> dict[str, Any]:
    """Return the fields of the request, model and streaming apart; those of the server's own under `extra_body`.

    Args:
        request: what is asked.
        media: where pictures are.
        server: who is asked.
        without: those of `hosted.DISPENSABLE` to leave out.
        manners: how the server takes messages and pictures.

    Raises `ModelRefusedError`: the server cannot take what is asked for; `MediaError`: a picture cannot be read.
    """
    sampling = request.sampling
    messages = paired(request.messages)
    extra = {**server.always, **_continuation(messages, server)}
    wire = chat_messages(messages, media, provider=server.name, videos=server.videos, rules=manners.rules)
    fields: dict[str, Any] = {"messages": manners.rearranged(wire)}
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


def read_body(body: Any, answer: PartialAnswer, *, whole: bool) -> None:
    """Read an answer that came whole, or a chunk of a stream; None is the mark at its end, and one may hold no choice.
    Raises `OutageError` if it does not follow the protocol, `SentError` if it holds an error of the server's.
    """
    if body is None:
        _end_without_reason(answer, "its [DONE]")
        return
    try:
        raise_sent(body)
        if whole:
            _read_message(body, answer)
        else:
            _read_chunk(body, answer)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise OutageError("sent an answer that does not follow the protocol.") from error


def _read_message(body: Mapping[str, Any], answer: PartialAnswer) -> None:
    found = _choices(body, answer)
    choice = next((one for one in found if one.get("index") == 0), found[0] if found else {})
    raise_sent(choice)
    message = _message(choice, "message", answer)
    if message is None:
        raise_sent(body, flat=True)
        raise OutageError("sent an answer without a message.")
    _read_choice(choice, message, answer)
    for at, (_, call_id, called, arguments) in enumerate(calls_of(message, answer)):
        call = answer.call(at)
        call.call_id, call.name, call.arguments = call_id or None, called, argument_piece(arguments, answer)
    _read_frame(body, answer)
    _end_without_reason(answer, "being a whole body")


def _read_chunk(body: Mapping[str, Any], answer: PartialAnswer) -> None:
    choices = _choices(body, answer)
    for choice in choices:
        if choice.get("index", 0) in (0, None):
            raise_sent(choice)
            delta = _message(choice, "delta", answer) or {}
            _read_choice(choice, delta, answer)
            for at, (number, call_id, name, arguments) in enumerate(calls_of(delta, answer)):
                answer.call_piece(at if number is None else number, call_id, name, arguments)
    _read_frame(body, answer)
    if not choices and isinstance(body.get("usage"), dict):
        _end_without_reason(answer, "the counts of tokens at its end")


def _choices(body: Mapping[str, Any], answer: PartialAnswer) -> Sequence[Mapping[str, Any]]:
    """Return the choices of a body: its own, those of an object that a gateway wrapped it in, or Ollama's message."""
    holder = next((name for name in ("data", "output", "result") if isinstance(body.get(name), dict)), "")
    if not body.get("choices") and holder and body[holder].get("choices"):
        answer.bend("message", holder)
        body = body[holder]
    choices = body.get("choices") or ()
    if not choices and "done" in body and isinstance(body.get("message"), dict):
        answer.bend("message", "message")
        return ({"message": body["message"], "finish_reason": body.get("done_reason")},)
    return (choices,) if isinstance(choices, dict) else choices


def _message(choice: Mapping[str, Any], usual: str, answer: PartialAnswer) -> Mapping[str, Any] | None:
    """Return the message of a choice, which stands under `usual` or another name; None if there is none."""
    for name in (usual, "message", "delta", "text"):
        if isinstance(message := choice.get(name), dict | str) and (message or name == usual):
            if name != usual or isinstance(message, str):
                answer.bend("message", name)
            return {"content": message} if isinstance(message, str) else message
    return None


def _end_without_reason(answer: PartialAnswer, by: str) -> None:
    """End an answer that is whole although no reason was given."""
    begun = answer.raw or answer.calls or answer.declined or by == "being a whole body"
    if answer.finish is None and answer.watch.stopped is None and begun:
        answer.bend("no end", by)
        answer.finish = FinishReason.TOOL_CALL if answer.calls else FinishReason.STOP


def _read_frame(body: Mapping[str, Any], answer: PartialAnswer) -> None:
    model = body.get("model")
    answer.model = model if isinstance(model, str) and model else answer.model
    read_usage(body, answer)


def _read_choice(choice: Mapping[str, Any], message: Mapping[str, Any], answer: PartialAnswer) -> None:
    answer.add_thought(thought_of(message))
    add_content(message.get("content"), answer)
    if refusal := message.get("refusal"):
        answer.decline(flat(refusal))
    _read_tokens(choice, answer)
    reason = end_of(choice.get("finish_reason"), answer, _FINISH)
    if reason is not None:
        answer.finish = reason
        answer.stop_named = first_named((choice.get("stop_reason"), choice.get("matched_stop")), answer.stops)


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
    """Return what asks for the continuation of the last message, if it is the assistant's."""
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


_log = logging.getLogger(__name__)


class OpenAIModel(HostedModel):
    """A model behind the chat-completions protocol."""

    def __init__(self, endpoint: Endpoint, *, server: str | Server = "openai", api_key: str | None = None) -> None:
        """`server` is who is asked: a `Server`, or the name of one.

        Raises `RegistryError`: there is no such server; `SettingsError`: it needs an address; `UnavailableError`: the
        client package is not installed; `ModelRefusedError`: a key is needed, and there is none.
        """
        self._server = _server(server)
        if self._server.needs_address and not endpoint.base_url:
            name, (model, _, said) = self._server.name, endpoint.model.rpartition("@")
            wrong = f"{said!r} is no address, and " if model else ""
            raise SettingsError(f"{wrong}{name} needs an address: {name}:{model or said}@http://host:8000/v1")
        self._said_unbounded = False
        super().__init__(self._server, endpoint, "openai", client="AsyncOpenAI", api_key=api_key)

    def _fields(self, request: Request, media: MediaReader, without: Collection[str]) -> dict[str, Any]:
        refuse_hosted(request, self.name)
        fields = request_fields(request, media, self._server, without=without, manners=self._manners)
        return self._own(request.sampling, fields)

    def _after(self, refusal: ModelRefusedError, request: Request, fields: Mapping[str, Any]) -> Request:
        left_out = isinstance(refusal, RefusedParameterError) and refusal.parameter in DISPENSABLE
        left_out = left_out or isinstance(refusal, OtherMannerError)
        if left_out or isinstance(refusal, ModelDeniedError) or not _bounded(request):
            return super()._after(refusal, request, fields)
        return self._unbounded(request, refusal)

    def _unbounded(self, request: Request, refusal: ModelRefusedError) -> Request:
        """Return the request without the room that the limits leave; said once for each model."""
        if not self._said_unbounded:
            says = "%s refused a turn of at most %d tokens, which is what the limits leave (%s); it is asked without."
            _log.warning(says, self.name, request.room, refusal)
            self._said_unbounded = True
        return replace(request, room=None)

    async def _read(self, fields: Mapping[str, Any], answer: PartialAnswer) -> None:
        sends_stops = "stop" in fields
        answer.infers_stop = sends_stops and not self._server.names_stop
        cuts = bool(answer.stops) and not sends_stops
        if answer.listener.wants_pieces or cuts or (self._server.streams_functions and "tools" in fields):
            await self._stream(fields, answer, cuts)
        else:
            await self._fetch(fields, answer)

    def batch_api(self) -> BatchApi | None:
        """Return the batch API of OpenAI; other servers of the protocol have none."""
        own = self._server is OPENAI
        return OpenAIBatches(self._client, self._endpoint.model, "/v1/chat/completions") if own else None

    def _read_body(self, body: Any, answer: PartialAnswer) -> None:
        answer.infers_stop = bool(answer.stops)
        read_body(body, answer, whole=True)

    async def _fetch(self, fields: Mapping[str, Any], answer: PartialAnswer) -> None:
        reply = await self._client.chat.completions.with_raw_response.create(model=self._endpoint.model, **fields)
        for piece in sent_whole(reply.content):
            if not piece.whole:
                answer.bend("streamed")
            read_body(piece.body, answer, whole=piece.whole)

    async def _stream(self, fields: Mapping[str, Any], answer: PartialAnswer, cuts: bool) -> None:
        if not self._server.ids_in_streams:
            fields = _without_ids(fields)
        stream = await self._client.chat.completions.create(
            model=self._endpoint.model, stream=True, stream_options={"include_usage": True}, **fields
        )

        came = False

        def read(piece: Sent) -> None:
            nonlocal came
            came = True
            if piece.whole:
                answer.bend("whole")
            read_body(piece.body, answer, whole=piece.whole)

        await read_stream(sent(stream.response), read, answer, close=stream.close, cuts=cuts)
        if not came and stream.response.headers.get("content-type", "").startswith("text/event-stream"):
            answer.bend("empty stream")
            await self._fetch(fields, answer)


def _without_ids(fields: Mapping[str, Any]) -> dict[str, Any]:
    extra = {
        name: value for name, value in fields["extra_body"].items() if name not in ("logprobs", "return_meta_info")
    }
    return {**fields, "extra_body": extra}


def _bounded(request: Request) -> bool:
    """Return whether the most tokens of the answer come from an episode's limits."""
    return request.room is not None and request.max_tokens != request.sampling.max_tokens


def _server(server: str | Server) -> Server:
    found = PROVIDERS.load(server) if isinstance(server, str) else server
    if not isinstance(found, Server):
        raise RegistryError(f"{server!r} is no server of chat completions. See `saccade list models`.")
    return found


def chat_model(server: Server, name: str) -> OpenAIModel:
    """Return the model of `server` that `NAME` or `NAME@http://address` means."""
    return OpenAIModel(endpoint_of(name, server.name), server=server)


OPENAI = Server(
    name="openai",
    description="OpenAI's API, as in `openai:gpt-4.1`.",
    example="openai:gpt-4.1",
    make=chat_model,
    key_names=("OPENAI_API_KEY",),
    needs_key=True,
    needs_address=False,
    reasoning=openai_thinking,
    length_field="max_completion_tokens",
    one_call=True,
    dialect="native",
    dialect_reason="the function calls of its API",
)

COMPATIBLE = Server(
    name="compatible",
    description="Any other server with chat completions, as in `compatible:NAME@http://host:8000/v1`.",
    example="compatible:NAME@http://host:8000/v1",
    make=chat_model,
    reasoning=compatible_thinking,
)

# Azure OpenAI: OpenAI's models, as deployments at an address of the user's own.

AZURE = Server(
    name="azure",
    telemetry_name="azure.ai.openai",
    description="Azure OpenAI, as in `azure:DEPLOYMENT@https://NAME.openai.azure.com/openai/v1/`.",
    example="azure:DEPLOYMENT@https://NAME.openai.azure.com/openai/v1/",
    make=chat_model,
    key_names=("AZURE_OPENAI_API_KEY",),
    reasoning=azure_thinking,
    needs_key=True,
    length_field="max_completion_tokens",
    one_call=True,
    dialect="native",
    dialect_reason="the function calls of its API",
)

# An SGLang server: keeps stop strings, gives token ids unless it streams, takes videos, and continues texts.

SGLANG = Server(
    name="sglang",
    description="An SGLang server, as in `sglang:NAME@http://host:30000/v1`.",
    example="sglang:NAME@http://host:30000/v1",
    make=chat_model,
    unknown_sampling=frozenset(),
    reasoning=template_thinking,
    reasoning_says=template_says,
    always={"logprobs": True, "return_meta_info": True},
    with_stops={"no_stop_trim": True},
    names_stop=True,
    stop_strings="the server",
    token_ids=True,
    ids_in_streams=False,
    videos=True,
    one_call=True,
    continues=True,
)

# A vLLM server: keeps stop strings, gives token ids, takes videos, and continues messages.

VLLM = Server(
    name="vllm",
    description="A vLLM server, as in `vllm:NAME@http://host:8000/v1`.",
    example="vllm:NAME@http://host:8000/v1",
    make=chat_model,
    unknown_sampling=frozenset(),
    reasoning=template_thinking,
    reasoning_says=template_says,
    always={"logprobs": True, "return_token_ids": True, "return_tokens_as_token_ids": True},
    with_stops={"include_stop_str_in_output": True},
    names_stop=True,
    stop_strings="the server",
    token_ids=True,
    videos=True,
    one_call=True,
    continues=True,
    continues_pictures=True,
)
