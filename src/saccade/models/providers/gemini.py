"""Gemini behind Google's developer API, by the package `google-genai`.

    model = GeminiModel(Endpoint("gemini-3-flash"))

The API swallows stop strings without naming them: closing tags are put back by inference (see `stops.unclosed`); other
stop strings, and more than five, are cut off here by ending the stream, and then tokens and money of the call are
unknown (None). Thoughts are not asked for; their tokens are counted and paid as sampled ones. A function call that the
API could not read (`MALFORMED_FUNCTION_CALL`) is sampled again.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import httpx

from saccade.core.retry import OutageError, retry_after
from saccade.errors import ModelDeniedError, ModelRefusedError, SaccadeError
from saccade.models.answer import Listener, PartialAnswer
from saccade.models.base import Completion, MediaReader, Request, Usage, can_be_inferred
from saccade.models.batches import BatchApi, GeminiBatches
from saccade.models.endpoint import Endpoint, endpoint_of
from saccade.models.exchanges import hooks
from saccade.models.failures import COMMON, ErrorDetails, FilteredRequestError, PackageErrors, SentError
from saccade.models.hosted import HostedModel, OpenCall, OpenPicture, kept, need_keeper, read_stream
from saccade.models.pictures import decoded_picture, encoded_picture, frames_not_chosen, saved_picture
from saccade.models.providers.openai import paired
from saccade.models.registry import Provider
from saccade.models.thinking import gemini_thinking, headers_of
from saccade.models.tolerances import end_of
from saccade.record.content import ImagePart, Message, Part, TextPart, ToolCall
from saccade.record.execution import ExecutionFile, Status
from saccade.record.trajectory import FinishReason

# Gemini's code execution tool, as pure data: what is read of the parts of an answer.
#
# The code is a part, its outcome the next, and pictures that it drew are parts of their own behind it. The service lays
# the pictures of the question into its sandbox.
#
# Source: https://ai.google.dev/gemini-api/docs/code-execution, and the types of google-genai 3.6.

TOOL_NAME: Final = "code_execution"
_OK: Final = "OUTCOME_OK"
_STATUSES: Final = {_OK: Status.OK, "OUTCOME_DEADLINE_EXCEEDED": Status.TIMEOUT}
"""Any other is an error of the call."""


def read_part(part: Mapping[str, Any], at: int, calls: list[OpenCall]) -> None:
    """Read a part that is neither text nor a native call, after `at` characters of text, into `calls`."""
    if code := part.get("executable_code"):
        calls.append(OpenCall(TOOL_NAME, at, code=code.get("code") or "", call_id=code.get("id")))
    elif result := part.get("code_execution_result"):
        _read_result(result, at, calls)
    elif blob := part.get("inline_data"):
        call = calls[-1] if calls else _alone(at, calls)
        if str(blob.get("mime_type")).startswith("image/"):
            call.pictures.append(OpenPicture(blob["data"], "display"))
        else:
            call.files.append(ExecutionFile(path=str(blob.get("mime_type")), size=len(blob["data"])))


def _read_result(result: Mapping[str, Any], at: int, calls: list[OpenCall]) -> None:
    call = _called(result.get("id"), calls) or _alone(at, calls)
    outcome = result["outcome"]
    name = str(getattr(outcome, "value", outcome))
    call.status = _STATUSES.get(name, Status.ERROR)
    output = result.get("output") or ""
    if call.status is Status.OK:
        call.stdout = output
    else:
        call.stderr, call.reason = output, name


def _called(call_id: str | None, calls: list[OpenCall]) -> OpenCall | None:
    """Return the call that a result is for: of its id, or the last one without an outcome."""
    waiting = [call for call in calls if call.status is None]
    if call_id is not None:
        return next((call for call in waiting if call.call_id == call_id), None)
    return waiting[-1] if waiting else None


def _alone(at: int, calls: list[OpenCall]) -> OpenCall:
    call = OpenCall(TOOL_NAME, at)
    call.notes.append("The provider told the outcome of this call alone.")
    calls.append(call)
    return call


# The generateContent protocol of Gemini, as pure data: a request as keyword arguments, an answer from its chunks.
#
# System messages go apart. Neighbours of one role are one content, and blank texts are left out. A result of a native
# call is text there, and its pictures stand behind it in the same content, which models before Gemini 3 take too. The
# signature of a call is sent back with it: Gemini 3 refuses a call of its own without. GIF is no format of the API, so
# such pictures are sent as PNG. No IO but reading pictures.
#
# Source: https://ai.google.dev/api/generate-content, and the types of google-genai 3.6.


_MOST_STOPS = 5
"""Stop strings that the API takes."""
_FINISH: Final = (
    *("STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR"),
)
"""The protocol's reasons for an end."""
_UNSIGNED: Final = b"skip_thought_signature_validator"
"""What the API documents for a call that none of its models made, as in a conversation begun with another one."""
_NEEDS_NONE: Final = re.compile(r"(models/)?gemini-[12][.-]")
"""Models that do not ask for signatures."""


def takes_stops(stops: tuple[str, ...]) -> bool:
    """Return whether `stops` are sent, because the one that was swallowed can be inferred; else the client cuts."""
    return bool(stops) and can_be_inferred(stops) and len(stops) <= _MOST_STOPS


def request_fields(request: Request, media: MediaReader, model: str) -> dict[str, Any]:
    """Return the fields of the request. Raises `ModelRefusedError` if the API cannot take what is asked for,
    `MediaError` if a picture or a video cannot be read.
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

    Raises `OutageError`: it does not follow the protocol, or the model's function call could not be read by its API;
    `FilteredRequestError`: the service refuses to let the model read the request.
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
        raise FilteredRequestError(
            f"gemini does not let the model read this request ({_name(reason)}){': ' * bool(words)}{words}."
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
    name, words = _name(reason), candidate.get("finish_message") or ""
    try:
        finish = end_of(name, answer, _FINISH)
    except OutageError:
        raise OutageError(f"ended its answer for the reason {name}{': ' * bool(words)}{words}.") from None
    if finish is FinishReason.FILTERED and words:
        answer.note(words)
    answer.finish = FinishReason.TOOL_CALL if answer.calls and finish is FinishReason.STOP else finish


def _name(value: Any) -> str:
    """Return the name of a value of an enumeration of the package, or the text that it did not know."""
    return str(getattr(value, "value", value))


def _usage(usage: Mapping[str, Any]) -> Usage:
    """Read the usage; thoughts count as sampled tokens, as they are paid."""
    prompt, written = usage.get("prompt_token_count"), usage.get("candidates_token_count")
    thought = usage.get("thoughts_token_count")
    counted = [count for count in (written, thought) if count is not None]
    return Usage(
        prompt_tokens=None if prompt is None else prompt + (usage.get("tool_use_prompt_token_count") or 0),
        cached_tokens=usage.get("cached_content_token_count") or 0,
        sampled_tokens=sum(counted) if counted else None,
        reasoning_tokens=thought,
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


_ADDRESS = "https://generativelanguage.googleapis.com/"
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


class GeminiModel(HostedModel):
    """A model behind the generateContent API."""

    def __init__(self, endpoint: Endpoint, *, api_key: str | None = None) -> None:
        super().__init__(GEMINI, endpoint, "google.genai", client="Client", api_key=api_key)

    def _connected(self, client: str) -> Any:
        self._http = httpx.AsyncClient(event_hooks=hooks(), timeout=None)  # the policy bounds the whole try
        options = self._package.types.HttpOptions(base_url=self._address, httpx_async_client=self._http)
        return getattr(self._package, client)(vertexai=False, api_key=self._key.reveal(), http_options=options)

    @property
    def _address(self) -> str:
        return self._endpoint.base_url or _ADDRESS

    def _fields(self, request: Request, media: MediaReader, without: Collection[str]) -> dict[str, Any]:
        fields = request_fields(request, media, self._endpoint.model)
        sampling = request.sampling
        fields["config"] |= self._thinking(sampling)
        own = {"extra_body": dict(sampling.extra_body or {}), "headers": headers_of(sampling)}
        if options := {name: value for name, value in own.items() if value}:
            fields["config"]["http_options"] = options
        return fields

    async def _answer(
        self, request: Request, fields: dict[str, Any], media: MediaReader, listener: Listener
    ) -> Completion:
        if not request.hosted:
            return await super()._answer(request, fields, media, listener)
        keeper = need_keeper(media, self.name)

        async def ask() -> Completion:
            listener.begin()
            answer, calls = PartialAnswer(request.stop, listener), list[OpenCall]()
            await self._read(fields, answer, calls)
            answer.hosted = await asyncio.to_thread(kept, calls, keeper)
            self._count(answer)
            return answer.completion()

        return await self._patiently(ask)

    async def _read(
        self, fields: Mapping[str, Any], answer: PartialAnswer, calls: list[OpenCall] | None = None
    ) -> None:
        calls = [] if calls is None else calls
        answer.infers_stop = "stop_sequences" in fields["config"]
        cuts = bool(answer.stops) and not answer.infers_stop
        if answer.listener.wants_pieces or cuts:
            await self._stream(fields, answer, calls, cuts)
        else:
            read_chunk(_plain(await self._models.generate_content(**fields)), answer, calls)
            if answer.finish is None and (answer.raw or answer.calls):
                answer.bend("no end", "being a whole body")
                answer.finish = FinishReason.TOOL_CALL if answer.calls else FinishReason.STOP

    def batch_api(self) -> BatchApi:
        return GeminiBatches(self._client, self._package, self._endpoint.model)

    def _read_body(self, body: Any, answer: PartialAnswer) -> None:
        answer.infers_stop = takes_stops(answer.stops)
        read_chunk(_plain(self._package.types.GenerateContentResponse.model_validate(body)), answer)

    @property
    def _models(self) -> Any:
        return self._client.aio.models

    async def _stream(
        self, fields: Mapping[str, Any], answer: PartialAnswer, calls: list[OpenCall], cuts: bool
    ) -> None:
        stream = await self._models.generate_content_stream(**fields)

        def read(chunk: Any) -> None:
            read_chunk(_plain(chunk), answer, calls)

        await read_stream(stream, read, answer, close=stream.aclose, cuts=cuts)

    async def close(self) -> None:
        await self._http.aclose()

    def failure(self, error: Exception) -> SaccadeError | None:
        """Return the error of ours for one of google-genai or of its HTTP client; None for any other."""
        read = PackageErrors(self._package, self._key, self.name, self._address, self._provider.errors or COMMON)
        if isinstance(error, self._package.errors.APIError):
            return _of_api(read, error)
        if isinstance(error, SentError):
            return read.of_status(error.status, error.details, None)
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return read.unreachable(self._key.hide(str(error)) or type(error).__name__)
        return read.unreadable(error, also=("google", "pydantic"))


def _plain(response: Any) -> dict[str, Any]:
    fields = {"candidates", "prompt_feedback", "usage_metadata", "model_version"}
    plain: dict[str, Any] = response.model_dump(include=fields, exclude_none=True)
    return plain


def _of_api(read: PackageErrors, error: Any) -> SaccadeError:
    """Return the error of ours for an answer with a status, or for an error in a stream, which has its own code."""
    body = error.details if isinstance(error.details, dict) else {}
    inner = body.get("error", body)
    items = [item for item in inner.get("details") or () if isinstance(item, dict)]
    reasons = [str(item["reason"]) for item in items if "reason" in item]
    words = str(error.message or error.status or "no reason was given").strip().rstrip(".")
    details = ErrorDetails(words, reasons[0] if reasons else "", str(error.status or ""), "")
    status = error.code if isinstance(error.code, int) else 500
    if "API_KEY_INVALID" in reasons:  # comes as a 400
        return ModelDeniedError(f"{read.who} refused the key: {read.key.hide(words)}. {read.key.advice}")
    return read.of_status(status, details, _asked_to_wait(error, items))


def _asked_to_wait(error: Any, items: list[dict[str, Any]]) -> float | None:
    """Return seconds: of a header, or of the `RetryInfo` among the details."""
    delays = [_SECONDS.fullmatch(str(item.get("retryDelay", ""))) for item in items]
    in_body = next((float(delay[1]) for delay in delays if delay), None)
    headers = getattr(error.response, "headers", None)
    return in_body if headers is None else retry_after(headers) or in_body


def _model(provider: Provider, name: str) -> GeminiModel:
    return GeminiModel(endpoint_of(name, provider.name))


GEMINI = Provider(
    name="gemini",
    telemetry_name="gcp.gemini",
    description="Google's Gemini API, as in `gemini:gemini-3-flash`.",
    example="gemini:gemini-3-flash",
    make=_model,
    key_names=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    needs_key=True,
    errors=COMMON,
    reasoning=gemini_thinking,
    takes_extra=True,
    stop_strings="closing tags by inference, others by the client",
    hosted_code=True,
    no_hosted_code=r"(models/)?(gemini-(1\.0|pro\b|embedding)|embedding|imagen|veo)",
    videos=True,
    continues=False,
    dialect="native",
    dialect_reason="the function calls of its API",
)
