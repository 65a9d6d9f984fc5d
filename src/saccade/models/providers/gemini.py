"""Gemini behind Google's developer API, by the package `google-genai`.

    model = GeminiModel(Endpoint("gemini-3-flash"))

The API swallows stop strings without naming them: closing tags are put back by inference (see `stops.unclosed`); other
stop strings, and more than five, are cut off here by ending the stream, and then tokens and money of the call are
unknown (None). Thoughts are not asked for; their tokens are counted and paid as sampled ones. A function call that the
API could not read (`MALFORMED_FUNCTION_CALL`) is sampled again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping
from typing import Any

import httpx

from saccade.core.retry import retry_after
from saccade.errors import ModelDeniedError, SaccadeError
from saccade.models.answer import Listener, PartialAnswer
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.endpoint import Endpoint, endpoint_of
from saccade.models.error_words import COMMON
from saccade.models.exchanges import hooks
from saccade.models.failures import ErrorDetails, PackageErrors
from saccade.models.gemini_wire import read_chunk, request_fields
from saccade.models.hosted import HostedModel, read_stream
from saccade.models.hosted_calls import OpenCall, kept, need_keeper
from saccade.models.provider import Provider

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
        return request_fields(request, media, self._endpoint.model)

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
        """Give back the connections."""
        await self._http.aclose()

    def failure(self, error: Exception) -> SaccadeError | None:
        """The error of ours for one of google-genai or of its HTTP client; None for any other."""
        read = PackageErrors(self._package, self._key, self.name, self._address, self._provider.errors)
        if isinstance(error, self._package.errors.APIError):
            return _of_api(read, error)
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return read.unreachable(self._key.hide(str(error)) or type(error).__name__)
        return read.unreadable(error, also=("google", "pydantic"))


def _plain(response: Any) -> dict[str, Any]:
    fields = {"candidates", "prompt_feedback", "usage_metadata", "model_version"}
    plain: dict[str, Any] = response.model_dump(include=fields, exclude_none=True)
    return plain


def _of_api(read: PackageErrors, error: Any) -> SaccadeError:
    """The error of ours for an answer with a status, or for an error in a stream, which has its own code."""
    body = error.details if isinstance(error.details, dict) else {}
    inner = body.get("error", body)
    items = [item for item in inner.get("details") or () if isinstance(item, dict)]
    reasons = [str(item["reason"]) for item in items if "reason" in item]
    words = str(error.message or error.status or "no reason was given").strip().rstrip(".")
    details = ErrorDetails(words, reasons[0] if reasons else "", str(error.status or ""), "")
    status = error.code if isinstance(error.code, int) else 500
    if "API_KEY_INVALID" in reasons:  # comes as a 400
        return ModelDeniedError(
            f"{read.who} refused the key: {read.key.hide(words)}. Check the key in the environment."
        )
    return read.of_status(status, details, _asked_to_wait(error, items))


def _asked_to_wait(error: Any, items: list[dict[str, Any]]) -> float | None:
    """Seconds: of a header, or of the `RetryInfo` among the details."""
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
    stop_strings="closing tags by inference, others by the client",
    hosted_code=True,
    no_hosted_code=r"(models/)?(gemini-(1\.0|pro\b|embedding)|embedding|imagen|veo)",
    videos=True,
    continues=False,
    dialect="native",
    dialect_reason="the function calls of its API",
)
