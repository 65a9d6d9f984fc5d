"""OpenAI's models behind its Responses API.

    model = ResponsesModel(Endpoint("gpt-5.4"))

The protocol knows no stop strings: they are cut off here by ending the stream, and then tokens and money of the call
are unknown (None). Reasoning goes back to the service as it came, encrypted, before the call that it led to.

Where the service's own sandbox is to run code, each try of an answer has a container of its own, which is deleted after
it; what such a container costs is not among the dollars of the answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from saccade.core.retry import OutageError
from saccade.errors import ModelRefusedError
from saccade.models.answer import Listener, PartialAnswer, Sent, raise_sent, sent, sent_whole
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.batches import BatchApi, OpenAIBatches
from saccade.models.endpoint import Endpoint, endpoint_of
from saccade.models.hosted import (
    HostedModel,
    LeftFile,
    OpenCall,
    SandboxFile,
    add_url,
    fetch,
    kept,
    need_keeper,
    question_files,
    read_stream,
    tidy,
)
from saccade.models.pictures import NO_RULES, PictureRules, encoded_picture
from saccade.models.providers.openai import paired
from saccade.models.registry import Provider
from saccade.models.thinking import responses_thinking
from saccade.models.tolerances import argument_piece, end_of, flat, read_usage
from saccade.record.content import ImagePart, Message, Part, TextPart, ToolCall
from saccade.record.execution import Status
from saccade.record.trajectory import FinishReason

# OpenAI's Responses protocol, as pure data: a request as keyword arguments, an answer from its output items.
#
# Nothing is stored by the service (`store` is false), so a turn's reasoning, which it encrypts, is recorded with the
# call that ended the turn and goes back before it. Items go back without the service's own ids, which it would look up
# in its store. The result of a native call holds its pictures. The protocol knows no stop strings. No IO but reading
# pictures.
#
# Source: https://platform.openai.com/docs/api-reference/responses, and the types of openai 3.52.

_REASONING: Final = "reasoning.encrypted_content"
_INCOMPLETE: Final = ("max_output_tokens", "content_filter")
_CUT: Final = (FinishReason.LENGTH, FinishReason.FILTERED)


def request_fields(
    request: Request, media: MediaReader, *, without: Collection[str] = (), rules: PictureRules = NO_RULES
) -> dict[str, Any]:
    """Return the fields of the request, model and streaming apart.

    Those of `hosted.DISPENSABLE` in `without` are left out.

    Raises `ModelRefusedError`: the API cannot take what is asked for; `MediaError`: a picture cannot be read.
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
    fields: dict[str, Any] = {"input": _items(messages, media, rules), "store": False}
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

    def piece(self, sent: Sent, *, asked_whole: bool = False) -> None:
        if sent.whole is not asked_whole:
            self._answer.bend("whole" if sent.whole else "streamed")
        if sent.whole:
            self.response(sent.body)
        elif sent.body is not None:
            self.event(sent.body)

    def response(self, body: Mapping[str, Any]) -> None:
        """Read the response. Raises `OutageError` if it failed, or does not follow the protocol."""
        try:
            raise_sent(body)
            for item in body.get("output") or ():
                self._texts(item)
                self._item(item)
            self._end(body)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise OutageError("sent an answer that does not follow the protocol.") from error

    def event(self, event: Mapping[str, Any]) -> None:
        """Read the next event. Raises `OutageError` as `response` does."""
        kind = str(event.get("type")).removeprefix("response.")
        try:
            if kind == "output_text.delta":
                self._answer.add_text(event["delta"])
            elif kind == "refusal.delta":
                self._answer.decline(event["delta"])
            elif kind in ("reasoning_summary_text.delta", "reasoning_text.delta"):
                self._answer.add_thought(event["delta"])
            elif kind == "output_item.done":
                self._item(event["item"])
            elif kind in ("completed", "incomplete", "failed"):
                self._end(event["response"])
            elif kind == "error":
                raise_sent(event, flat=True)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise OutageError(f"sent an event {kind!r} that does not follow the protocol.") from error

    def _texts(self, item: Mapping[str, Any]) -> None:
        """Take what a stream would send piece by piece."""
        if item["type"] == "reasoning":
            self._answer.add_thought(flat(item.get("summary") or item.get("content")))
        elif item["type"] == "message" and isinstance(item["content"], str):
            self._answer.add_text(item["content"])
        elif item["type"] == "message":
            for part in item["content"]:
                if part["type"] == "refusal":
                    self._answer.decline(part["refusal"])
                elif part["type"] in ("output_text", "text"):
                    self._answer.add_text(part["text"])
                else:
                    self._answer.bend("unknown part", repr(part["type"]))

    def _item(self, item: Mapping[str, Any]) -> None:
        kind = item["type"]
        if kind == "reasoning" and (sealed := item.get("encrypted_content")):
            summary = item.get("summary") or []
            self._reasoning.append({"type": "reasoning", "summary": summary, "encrypted_content": sealed})
        elif kind == "function_call":
            call = self._answer.call(len(self._answer.calls))
            call.name, call.call_id = item["name"], item.get("call_id") or item.get("id")
            call.arguments = argument_piece(item.get("arguments"), self._answer)
            call.sealed = json.dumps(self._reasoning) if self._reasoning else None
            self._reasoning = []

    def _end(self, body: Mapping[str, Any]) -> None:
        answer, status = self._answer, body.get("status")
        answer.model = body.get("model") or answer.model
        read_usage(body, answer)
        if status == "incomplete":
            reason = (body.get("incomplete_details") or {}).get("reason")
            if end_of(reason, answer, _INCOMPLETE) not in _CUT:
                raise OutageError(f"broke its answer off for the reason {reason!r}.")
            answer.finish = end_of(reason, answer, _INCOMPLETE)
        elif status == "completed" or (not status and isinstance(body.get("output"), list)):
            if not status:
                answer.bend("no end", "being a whole body")
            answer.finish = FinishReason.TOOL_CALL if answer.calls else FinishReason.STOP
        else:
            raise_sent(body)
            raise OutageError(f"ended its answer as {status}: no reason was given.")


def _items(messages: Sequence[Message], media: MediaReader, rules: PictureRules) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for message in messages:
        if message.call_id is not None:
            output = _content(message.parts, media, rules) or ""
            items.append({"type": "function_call_output", "call_id": message.call_id, "output": output})
            continue
        if message.role == "assistant" and message.media:
            raise ModelRefusedError("responses takes no pictures in an assistant's message; use another dialect")
        role = "user" if message.role == "tool" else message.role
        for call in message.calls:
            items += json.loads(call.sealed or "[]")
        if message.parts:
            content = message.text if role == "assistant" else _content(message.parts, media, rules)
            items.append({"type": "message", "role": role, "content": content})
        items += map(_call, message.calls)
    return items


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": arguments}


def _content(parts: Sequence[Part], media: MediaReader, rules: PictureRules) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, TextPart):
            content.append({"type": "input_text", "text": part.text})
        elif isinstance(part, ImagePart):
            content.append(
                {"type": "input_image", "image_url": encoded_picture(part, media, rules).url, "detail": "auto"}
            )
        else:
            raise ModelRefusedError("responses takes no videos; use a dialect that shows frames")
    return content


# The code interpreter of OpenAI's Responses API, as pure data: what is asked, and what is read of its calls.
#
# Each answer gets a container of its own, made before and deleted after it, in which the pictures of the question lie
# as they are; what the code leaves there is listed and fetched. The protocol calls a call completed also where the code
# raised an exception: that stands in the output only.
#
# Source: https://platform.openai.com/docs/guides/tools-code-interpreter, and the types of openai 3.52.


OUTPUTS: Final = "code_interpreter_call.outputs"
TOOL_NAME: Final = "code_interpreter"
_STATUSES: Final = {
    "completed": Status.OK,
    "failed": Status.ERROR,
    **dict.fromkeys(("incomplete", "in_progress", "interpreting"), None),
}
"""None where the call had not ended."""


def hosted_fields(fields: Mapping[str, Any], container: str) -> dict[str, Any]:
    """Return the fields of a request with the tool in that container, whose outputs come back."""
    return {**fields, "tools": [{"type": TOOL_NAME, "container": container}], "include": [OUTPUTS]}


class InterpreterReader(ResponseReader):
    """Reads a response and its calls, which are put into `calls`."""

    def __init__(self, answer: PartialAnswer, calls: list[OpenCall]) -> None:
        super().__init__(answer)
        self._calls = calls

    def _item(self, item: Mapping[str, Any]) -> None:
        if item["type"] != "code_interpreter_call":
            super()._item(item)
            return
        call = OpenCall(TOOL_NAME, len(self._answer.raw), call_id=item["id"], container=item.get("container_id") or "")
        if item.get("code") is None:
            call.notes.append("The provider does not tell the code.")
        call.code = item.get("code") or ""
        call.status = _STATUSES[item["status"]]
        call.reason = "" if call.status is Status.OK else f"the provider calls it {item['status']}"
        printed = []
        for output in item.get("outputs") or ():
            if output["type"] == "logs":
                printed.append(output["logs"])
            elif output["type"] == "image":
                add_url(call, output["url"])
            else:
                call.notes.append(f"An output of type {output['type']!r} is not known and not kept.")
        call.stdout = "\n".join(printed)
        self._calls.append(call)


EXPIRY_MINUTES: Final = 20
"""After which an idle container is deleted by the service."""


class ResponsesModel(HostedModel):
    """A model behind the Responses API."""

    def __init__(self, endpoint: Endpoint, *, api_key: str | None = None) -> None:
        super().__init__(RESPONSES, endpoint, "openai", client="AsyncOpenAI", api_key=api_key)

    def _fields(self, request: Request, media: MediaReader, without: Collection[str]) -> dict[str, Any]:
        fields = request_fields(request, media, without=without, rules=self._manners.rules)
        return self._own(request.sampling, fields)

    async def _read(
        self, fields: Mapping[str, Any], answer: PartialAnswer, reader: ResponseReader | None = None
    ) -> None:
        reader = reader or ResponseReader(answer)
        if answer.listener.wants_pieces or answer.stops:
            await self._stream(fields, answer, reader)
        else:
            await self._fetch(fields, reader)

    def batch_api(self) -> BatchApi:
        return OpenAIBatches(self._client, self._endpoint.model, "/v1/responses")

    def _read_body(self, body: Any, answer: PartialAnswer) -> None:
        ResponseReader(answer).piece(Sent(body, whole=True), asked_whole=True)

    async def _fetch(self, fields: Mapping[str, Any], reader: ResponseReader) -> None:
        reply = await self._client.responses.with_raw_response.create(model=self._endpoint.model, **fields)
        for piece in sent_whole(reply.content):
            reader.piece(piece, asked_whole=True)

    async def _stream(self, fields: Mapping[str, Any], answer: PartialAnswer, reader: ResponseReader) -> None:
        stream = await self._client.responses.create(model=self._endpoint.model, stream=True, **fields)

        await read_stream(sent(stream.response), reader.piece, answer, close=stream.close, cuts=True)

    async def _answer(
        self, request: Request, fields: dict[str, Any], media: MediaReader, listener: Listener
    ) -> Completion:
        if not request.hosted:
            return await super()._answer(request, fields, media, listener)
        keeper = need_keeper(media, self.name)
        files = await asyncio.to_thread(question_files, request, keeper)

        async def ask() -> Completion:
            listener.begin()
            answer, calls = PartialAnswer(request.stop, listener), list[OpenCall]()
            async with self._container(files) as container:
                reader = InterpreterReader(answer, calls)

                async def read() -> None:
                    await self._read(hosted_fields(fields, container), answer, reader)
                    self._count(answer)
                    answer.check_ended()

                await self._once(read)
                if calls:
                    await fetch(await self._patiently(lambda: self._left(container, calls[-1])), self._patiently)
            answer.hosted = await asyncio.to_thread(kept, calls, keeper)
            return answer.completion()

        return await self._patiently_in_steps(ask)

    @asynccontextmanager
    async def _container(self, files: Sequence[SandboxFile]) -> AsyncIterator[str]:
        """Yield the name of a new container with the files; it is deleted in the end."""
        containers = self._client.containers
        ends = {"anchor": "last_active_at", "minutes": EXPIRY_MINUTES}
        made = await self._once(lambda: containers.create(name="saccade", expires_after=ends))
        try:
            for file in files:
                await self._once(partial(containers.files.create, made.id, file=file.upload))
            yield made.id
        finally:
            await tidy(self.name, f"container {made.id}", [partial(containers.delete, made.id)])

    async def _left(self, container: str, call: OpenCall) -> list[LeftFile]:
        """List what the code left in the container, shown with its last call: the service does not say which it was."""
        listed = self._client.containers.files.list(container)
        left = [item async for item in listed if item.source == "assistant"]
        return [LeftFile(item.path, item.bytes or 0, partial(self._content, container, item.id), call) for item in left]

    async def _content(self, container: str, file_id: str) -> bytes:
        content = await self._client.containers.files.content.retrieve(file_id, container_id=container)
        data: bytes = content.content
        return data


def _model(provider: Provider, name: str) -> ResponsesModel:
    return ResponsesModel(endpoint_of(name, provider.name))


RESPONSES = Provider(
    name="responses",
    telemetry_name="openai",
    description="OpenAI's Responses API, as in `responses:gpt-5.4`.",
    example="responses:gpt-5.4",
    make=_model,
    key_names=("OPENAI_API_KEY",),
    needs_key=True,
    price_table="openai",
    unknown_sampling=frozenset({"seed", "top_k"}),
    reasoning=responses_thinking,
    takes_extra=True,
    stop_strings="the client",
    result_pictures=True,
    hosted_code=True,
    no_hosted_code=r"gpt-3\.5",
    continues=False,
    dialect="native",
    dialect_reason="the function calls of its API",
)
