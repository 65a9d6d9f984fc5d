"""Claude behind Anthropic's own API.

    model = AnthropicModel(Endpoint("claude-opus-4-8"))

Answers are always streamed, so that long ones do not time out and a stop string that the API does not take can be cut
off here; then the sampled tokens and money of the call are unknown (None). A thought that was asked for is recorded
before the text, and goes back signed before the call that it led to.

Where the API's own sandbox is to run code, the pictures of the question are uploaded for it, and deleted afterwards;
counts and dollars are those of all requests of the answer, and what the sandbox costs is not among them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from saccade.core.retry import OutageError
from saccade.errors import ModelError, ModelRefusedError
from saccade.models.answer import Listener, PartialAnswer, Sent, raise_sent, sent
from saccade.models.base import Completion, MediaReader, Request, Usage, added
from saccade.models.batches import AnthropicBatches, BatchApi
from saccade.models.endpoint import Endpoint, endpoint_of
from saccade.models.failures import COMMON, ErrorWords
from saccade.models.hosted import (
    HostedModel,
    LeftFile,
    OpenCall,
    OpenPicture,
    as_json,
    decoded,
    fetch,
    kept,
    need_keeper,
    question_files,
    read_stream,
    tidy,
)
from saccade.models.pictures import PictureRules, encoded_picture
from saccade.models.providers.openai import paired
from saccade.models.registry import Provider
from saccade.models.thinking import anthropic_thinking
from saccade.models.tolerances import argument_piece, end_of
from saccade.record.content import ImagePart, Message, Part, TextPart
from saccade.record.execution import Status
from saccade.record.trajectory import FinishReason

# The messages protocol of Anthropic, as pure data: a request as keyword arguments, an answer from its events.
#
# System messages go apart, wherever they stood. The result of a native call holds its pictures; one that names no call
# is the user's. Neighbours of one role are one message, and blank texts are left out, as the API refuses them. A
# request whose last message is the assistant's asks for its continuation: newer models refuse that, none takes pictures
# in it, and white space at its end is not sent.
#
# Picture rules are those of the provider's vision guide: 8000 pixels a side, 2000 with more than 20 pictures, 5 MB of
# base64; beyond 1568 pixels a side or about 1.15 megapixels (2576 and 3.75 for newer models) the provider scales down
# anyway, so it is done here. No IO but reading pictures.

DEFAULT_MAX_TOKENS: Final = 8192
"""The API wants a limit; this one is sent where the sampling settings have none."""
_BASE64_BYTES = 5 * 1024 * 1024
_MANY = 20
_MANY_SIDE = 2000
_FINISH: Final = ("end_turn", "max_tokens", "tool_use", "stop_sequence", "refusal", "model_context_window_exceeded")
"""The protocol's reasons for an end."""
# Models that see at most 1568 pixels a side. A name that is not here may see more: its pictures keep more detail.
_STANDARD = re.compile(r"claude-(3|haiku-4|sonnet-4|opus-4(-[0156])?(-\d{8})?$)")
# Models that continue an assistant's message; from 4.6 on none does.
_CONTINUING = re.compile(r"claude-(3|(haiku|sonnet|opus)-4(-[015])?(-\d{8})?$)")
_THOUGHTS: Final = ("thinking", "redacted_thinking")
_THOUGHT: Final = re.compile(r"\A<think>.*?</think>", re.DOTALL)
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")


def picture_rules(model: str, pictures: int) -> PictureRules:
    """Return the rules for each picture of a request with that many."""
    side, pixels = (1568, 1_150_000) if _STANDARD.match(model) else (2576, 3_750_000)
    if pictures > _MANY:
        side = min(side, _MANY_SIDE)
    return PictureRules(side=side, pixels=pixels, data_bytes=_BASE64_BYTES * 3 // 4)


def sendable_stops(stops: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of `stops` that the API takes: it refuses those of white space only."""
    return tuple(stop for stop in stops if stop.strip())


def request_fields(
    request: Request, media: MediaReader, model: str, *, without: Collection[str] = ()
) -> dict[str, Any]:
    """Return the fields of the request; those of `hosted.DISPENSABLE` in `without` are left out. Raises
    `ModelRefusedError` if the API cannot take what is asked for, `MediaError` if a picture cannot be read.
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
        self._thoughts: dict[int, dict[str, Any]] = {}
        """Thoughts by the number of their block, which go back before the next call."""
        self._usage: dict[str, Any] = {}

    def read(self, event: Mapping[str, Any]) -> None:
        """Read the next event. Raises `OutageError` if it does not follow the protocol."""
        kind = event.get("type")
        try:
            raise_sent(event, flat=kind == "error")
            if kind == "message_start":
                message = event["message"]
                self._answer.model = message.get("model") or self._answer.model
                self._count(message.get("usage") or {})
            elif kind == "content_block_start":
                self._begin_block(event["index"], event["content_block"])
            elif kind == "content_block_delta":
                self._add(event["index"], event["delta"])
            elif kind == "message_delta":
                self._end(event["delta"])
                self._count(event.get("usage") or {})
            elif kind == "message_stop" and not self.paused and self._answer.finish is None:
                self._answer.bend("no end", "its message_stop")
                self._answer.finish = FinishReason.TOOL_CALL if self._answer.calls else FinishReason.STOP
        except (AttributeError, KeyError, TypeError) as error:
            raise OutageError(f"sent an event {kind!r} that does not follow the protocol.") from error

    def piece(self, sent: Sent) -> None:
        """Read an event of a stream, or a message that came whole. Raises `OutageError` as `read` does."""
        if not sent.whole:
            self.read(sent.body or {})
            return
        self.message(sent.body)
        self._answer.bend("whole")

    def message(self, body: Any) -> None:
        """Read a whole message. Raises `OutageError` as `read` does."""
        raise_sent(body)
        if not isinstance(body, dict) or not isinstance(body.get("content"), list):
            raise OutageError("sent an answer without a message.")
        self.read({"type": "message_start", "message": body})
        for index, block in enumerate(body["content"]):
            self.read({"type": "content_block_start", "index": index, "content_block": block})
            self.read({"type": "content_block_stop", "index": index})
        self.read({"type": "message_delta", "delta": body})
        self.read({"type": "message_stop"})

    def _begin_block(self, index: int, block: Mapping[str, Any]) -> None:
        if block["type"] == "text":
            self._answer.add_text(block.get("text") or "")
        elif block["type"] == "tool_use":
            call = self._answer.call(index)
            call.name, call.call_id = block["name"], block.get("id")
            call.sealed = json.dumps(list(self._thoughts.values())) if self._thoughts else None
            if block.get("input"):
                call.arguments = argument_piece(block["input"], self._answer)
        elif block["type"] in _THOUGHTS:
            self._thoughts[index] = {name: value for name, value in block.items() if value is not None}
            self._answer.add_thought(block.get("thinking") or "")
        else:
            self._answer.bend("unknown part", repr(block["type"]))

    def _add(self, index: int, delta: Mapping[str, Any]) -> None:
        if delta["type"] == "text_delta":
            self._answer.add_text(delta["text"])
        elif delta["type"] == "input_json_delta":
            self._answer.call(index).arguments += argument_piece(delta["partial_json"], self._answer)
        elif delta["type"] in ("thinking_delta", "signature_delta") and index in self._thoughts:
            name = _GROWS[delta["type"]]
            thought = self._thoughts[index]
            thought[name] = (thought.get(name) or "") + delta[name]
            self._answer.add_thought(delta[name] if name == "thinking" else "")

    def _end(self, delta: Mapping[str, Any]) -> None:
        reason = delta.get("stop_reason")
        if (end := end_of(reason, self._answer, _FINISH)) is not None:
            self._answer.finish = FinishReason.STOP_STRING if reason == "stop_sequence" else end
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
            reasoning_tokens=(self._usage.get("output_tokens_details") or {}).get("thinking_tokens"),
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
    thoughts = _thoughts_before(message)
    parts = message.parts if not thoughts else _without_thought(message.parts)
    content = [*thoughts, *_content(parts, media, rules)]
    if message.call_id is not None:
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": _identifier(message.call_id)}
        return [{**result, "content": content} if content else result]
    calls = [
        {"type": "tool_use", "id": _identifier(call.call_id or ""), "name": call.name, "input": dict(call.arguments)}
        for call in message.calls
    ]
    return content + calls


def _thoughts_before(message: Message) -> list[dict[str, Any]]:
    """Return the signed thoughts that led to the calls of a message; none if another provider's model made them."""
    found: list[dict[str, Any]] = []
    for call in message.calls:
        sealed = call.sealed or ""
        blocks = json.loads(sealed) if sealed.startswith("[") else []
        found += [block for block in blocks if block.get("type") in _THOUGHTS]
    return found


def _without_thought(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts without the thought at their beginning, which goes back signed."""
    if not parts or not isinstance(parts[0], TextPart):
        return tuple(parts)
    return (TextPart(text=_THOUGHT.sub("", parts[0].text)), *parts[1:])


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
    """Return the identifier of a call in the characters that the API allows, should it come from elsewhere."""
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


# Anthropic's code execution tool, as pure data: what is asked, and what is read of its blocks.
#
# The tool gives the model a shell (`bash_code_execution`) and a file editor (`text_editor_code_execution`); its first
# version gave it Python (`code_execution`). A turn that the API pauses (`pause_turn`) is sent back as it came, in its
# container. The pictures of the question are uploaded and laid into the container besides being shown.
#
# Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/code-execution-tool, types of anthropic 2.11.


TOOL: Final[Mapping[str, Any]] = {"type": "code_execution_20250825", "name": "code_execution"}
MOST_PAUSES: Final = 20
"""Pauses of one answer that are continued."""
_RESULTS: Final = ("code_execution_tool_result", "bash_code_execution_tool_result")
_EDITED: Final = "text_editor_code_execution_tool_result"
_STATUSES: Final = {
    "execution_time_exceeded": Status.TIMEOUT,
    "unavailable": Status.LOST,
    "too_many_requests": Status.LOST,
    "container_expired": Status.LOST,
    "invalid_tool_input": Status.REFUSED,
}
"""Of the tool's own errors; any other is an error of the call."""

_GROWS: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""Kind of a piece -> the field of its block that it makes longer."""


def hosted_fields(fields: Mapping[str, Any], uploads: list[str], container: str, said: list[Any]) -> dict[str, Any]:
    """Return fields of a request with the tool, the uploaded files besides the question, and the paused turn `said`."""
    messages = [dict(message) for message in fields["messages"]]
    files = [{"type": "container_upload", "file_id": name} for name in uploads]
    last = max(index for index, message in enumerate(messages) if message["role"] == "user")
    messages[last]["content"] = [*messages[last]["content"], *files]
    # The API gives blank texts, and does not take them.
    back = [block for block in said if block["type"] != "text" or block["text"].strip()]
    paused = [{"role": "assistant", "content": back}] if back else []
    more = {"container": container} if container else {}
    return {**fields, "messages": [*messages, *paused], "tools": [dict(TOOL)], **more}


class SandboxReader(EventReader):
    """Reads the events of one request; the calls of all requests of the answer are put into `calls`."""

    def __init__(self, answer: PartialAnswer, calls: list[OpenCall], files: dict[str, OpenCall]) -> None:
        """`files` is filled with the ids of files that came of calls."""
        super().__init__(answer)
        self.paused = False
        """The API wants the turn back."""
        self.container = ""
        self.said: list[dict[str, Any]] = []
        """The blocks, as they go back to the API."""
        self._calls = calls
        self._files = files
        self._json: dict[int, str] = {}

    def read(self, event: Mapping[str, Any]) -> None:
        """Read the next event. Raises `OutageError` if it does not follow the protocol."""
        kind = event.get("type")
        try:
            if kind == "content_block_stop":
                self._seal(event["index"])
            held = event.get("delta" if kind == "message_delta" else "message") or {}
            if held.get("container"):
                self.container = str(held["container"]["id"])
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise OutageError(f"sent an event {kind!r} that does not follow the protocol.") from error
        super().read(event)

    def _begin_block(self, index: int, block: Mapping[str, Any]) -> None:
        if index != len(self.said):
            raise OutageError("sent blocks that do not follow each other.")
        self.said.append({name: value for name, value in block.items() if value is not None})
        kind = block["type"]
        if kind == "server_tool_use":
            at = len(self._answer.raw)
            self._calls.append(OpenCall(block["name"], at, call_id=block["id"], container=self.container))
            self._json[index] = ""
        elif kind in (*_RESULTS, _EDITED):
            self._result(kind, block)
        else:
            super()._begin_block(index, block)

    def _add(self, index: int, delta: Mapping[str, Any]) -> None:
        if delta["type"] == "input_json_delta" and index in self._json:
            self._json[index] += delta["partial_json"]
            return
        grows = _GROWS.get(delta["type"])
        if grows is not None:
            self.said[index][grows] = (self.said[index].get(grows) or "") + delta[grows]
        super()._add(index, delta)

    def _seal(self, index: int) -> None:
        """Note that the input of a call is whole."""
        if index not in self._json:
            return
        call, text = self._calls[-1], self._json[index]
        given = json.loads(text) if text else self.said[index].get("input") or {}
        if not isinstance(given, dict):
            raise ValueError("the input of a call is no object")
        self.said[index]["input"] = given
        for name, language in (("code", "python"), ("command", "bash")):
            if isinstance(given.get(name), str) and (name == "code" or set(given) <= {"command", "restart"}):
                call.code, call.language = given[name], language
                return
        call.code, call.language = as_json(given), "json"

    def _end(self, delta: Mapping[str, Any]) -> None:
        if delta.get("stop_reason") == "pause_turn":
            self.paused = True
        else:
            super()._end(delta)

    def _result(self, kind: str, block: Mapping[str, Any]) -> None:
        call = next((call for call in self._calls if call.call_id == block["tool_use_id"]), None)
        if call is None:
            call = OpenCall(kind.removesuffix("_tool_result"), len(self._answer.raw), call_id=block["tool_use_id"])
            call.notes.append("The provider told the result of this call alone.")
            self._calls.append(call)
        call.container = call.container or self.container
        content = block["content"]
        if content["type"].endswith("_error"):
            call.status = _STATUSES.get(content["error_code"], Status.ERROR)
            words = content.get("error_message")
            call.reason = f"{content['error_code']}: {words}" if words else str(content["error_code"])
        elif kind == _EDITED:
            _read_edit(call, content)
        else:
            self._read_run(call, content)

    def _read_run(self, call: OpenCall, content: Mapping[str, Any]) -> None:
        code = content["return_code"]
        call.status = Status.OK if code == 0 else Status.ERROR
        call.reason = "" if code == 0 else f"return code {code}"
        call.stderr = content["stderr"]
        if "encrypted_stdout" in content:
            call.notes.append("The provider keeps what was printed to itself (encrypted).")
        else:
            call.stdout = content["stdout"]
        self._files.update({item["file_id"]: call for item in content.get("content") or ()})


def _read_edit(call: OpenCall, content: Mapping[str, Any]) -> None:
    """Read what the file editor gave back: a view, or what it changed."""
    call.status = Status.OK
    if content.get("file_type") == "image":
        call.pictures.append(OpenPicture(decoded(content["content"]), "file"))
    elif "content" in content:
        call.stdout = str(content["content"])
    else:
        call.stdout = as_json({name: value for name, value in content.items() if name != "type" and value is not None})


FILE_SECONDS: Final = 3600
"""After which the API deletes an uploaded picture by itself, should we not."""
_log = logging.getLogger(__name__)


class AnthropicModel(HostedModel):
    """A model behind the messages API."""

    def __init__(self, endpoint: Endpoint, *, api_key: str | None = None) -> None:
        super().__init__(ANTHROPIC, endpoint, "anthropic", client="AsyncAnthropic", api_key=api_key)

    def _fields(self, request: Request, media: MediaReader, without: Collection[str]) -> dict[str, Any]:
        fields = self._own(request.sampling, request_fields(request, media, self._endpoint.model, without=without))
        budget = fields.get("thinking", {}).get("budget_tokens", 0)
        if budget and request.sampling.max_tokens is None:  # the limit is for thought and answer together
            fields["max_tokens"] = min(filter(None, (DEFAULT_MAX_TOKENS + budget, request.room)))
        if 0 < fields["max_tokens"] <= budget:  # the room that is left is too small for it
            fields["thinking"] = {"type": "disabled"}
        return fields

    def batch_api(self) -> BatchApi:
        return AnthropicBatches(self._client)

    def _read_body(self, body: Any, answer: PartialAnswer) -> None:
        EventReader(answer).message(body)

    async def _read(self, fields: Mapping[str, Any], answer: PartialAnswer, reader: EventReader | None = None) -> None:
        reader = reader or EventReader(answer)
        cuts = len(sendable_stops(answer.stops)) < len(answer.stops)
        stream = await self._client.messages.create(stream=True, **fields)
        await read_stream(sent(stream.response), reader.piece, answer, close=stream.close, cuts=cuts)

    async def _answer(
        self, request: Request, fields: dict[str, Any], media: MediaReader, listener: Listener
    ) -> Completion:
        if not request.hosted:
            return await super()._answer(request, fields, media, listener)
        keeper = need_keeper(media, self.name)
        api = self._client.files
        uploads: list[str] = []
        try:
            for file in await asyncio.to_thread(question_files, request, keeper):
                upload = partial(api.upload, file=file.upload, expires_in_seconds=FILE_SECONDS)
                uploads.append((await self._patiently(upload)).id)

            async def ask() -> Completion:
                listener.begin()
                answer, calls = PartialAnswer(request.stop, listener), list[OpenCall]()
                files = await self._turns(fields, uploads, answer, calls)
                left = [await self._left(name, call) for name, call in files.items()]
                await fetch([file for file in left if file is not None], self._patiently)
                await tidy(self.name, "a file of the sandbox", [partial(api.delete, name) for name in files])
                answer.hosted = await asyncio.to_thread(kept, calls, keeper)
                return answer.completion()

            return await self._patiently_in_steps(ask)
        finally:
            await tidy(self.name, "an uploaded picture", [partial(api.delete, name) for name in uploads])

    async def _turns(
        self, fields: dict[str, Any], uploads: list[str], answer: PartialAnswer, calls: list[OpenCall]
    ) -> dict[str, OpenCall]:
        """Return one answer, continued as often as the API pauses it; gives the files that its calls left."""
        said: list[dict[str, Any]] = []
        files: dict[str, OpenCall] = {}
        container, spent = "", Usage(0, 0, 0, 0.0)
        for _ in range(MOST_PAUSES + 1):
            reader = SandboxReader(answer, calls, files)

            asked = hosted_fields(fields, uploads, container, said)

            async def read(asked: dict[str, Any] = asked, reader: SandboxReader = reader) -> None:
                await self._read(asked, answer, reader)
                if reader.paused:
                    answer.usage = self._priced(answer.usage, answer.cache_written)
                else:
                    self._count(answer)
                    answer.check_ended()

            await self._once(read)
            answer.usage = spent = added(spent, answer.usage)
            said, container = [*said, *reader.said], reader.container or container
            if not reader.paused:
                return files
        _log.warning("%s paused its answer %d times; it is cut off there.", self.name, MOST_PAUSES + 1)
        answer.finish = FinishReason.LENGTH
        return files

    async def _left(self, name: str, call: OpenCall) -> LeftFile | None:
        """Return the file of that id, which `call` left; None if the API knows nothing of it, which is noted."""
        try:
            about = await self._patiently(partial(self._client.files.retrieve_metadata, name))
        except ModelError as error:
            call.notes.append(f"The file {name} was left in the sandbox and cannot be fetched: {error}")
            return None
        return LeftFile(about.filename, about.size_bytes, partial(self._content, name), call)

    async def _content(self, name: str) -> bytes:
        content = await self._client.files.download(name)
        data: bytes = await content.read()
        return data


def _model(provider: Provider, name: str) -> AnthropicModel:
    return AnthropicModel(endpoint_of(name, provider.name))


ANTHROPIC = Provider(
    name="anthropic",
    description="Anthropic's API, as in `anthropic:claude-opus-4-8`.",
    example="anthropic:claude-opus-4-8",
    make=_model,
    key_names=("ANTHROPIC_API_KEY",),
    needs_key=True,
    errors=COMMON | ErrorWords(full_context=(r"exceeds? (the )?context limit",)),
    unknown_sampling=frozenset({"seed"}),
    reasoning=anthropic_thinking,
    takes_extra=True,
    stop_strings="the API, those of white space alone by the client",
    result_pictures=True,
    hosted_code=True,
    no_hosted_code=r"claude-(2|instant|3-(opus|sonnet|haiku|5-sonnet))",
    dialect="native",
    dialect_reason="the function calls of its API",
)
