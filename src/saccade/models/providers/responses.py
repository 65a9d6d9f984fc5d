"""OpenAI's models behind its Responses API.

    model = ResponsesModel(Endpoint("gpt-5.4"))

The protocol knows no stop strings: they are cut off here by ending the stream, and then tokens and money of the call
are unknown (None). Reasoning goes back to the service as it came, encrypted, before the call that it led to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from saccade.models.answer import PartialAnswer
from saccade.models.base import MediaReader, Request
from saccade.models.endpoint import Endpoint, endpoint_of
from saccade.models.hosted import HostedModel, read_stream
from saccade.models.provider import Provider
from saccade.models.responses_wire import ResponseReader, request_fields
from saccade.models.retry import OutageError


class ResponsesModel(HostedModel):
    """A model behind the Responses API."""

    def __init__(self, endpoint: Endpoint, *, api_key: str | None = None) -> None:
        super().__init__(RESPONSES, endpoint, "openai", client="AsyncOpenAI", api_key=api_key)

    def _fields(self, request: Request, media: MediaReader, without: Collection[str]) -> dict[str, Any]:
        return request_fields(request, media, without=without)

    async def _read(self, fields: Mapping[str, Any], answer: PartialAnswer) -> None:
        if answer.listener.wants_pieces or answer.stops:
            await self._stream(fields, answer)
        else:
            await self._whole(fields, answer)

    async def _whole(self, fields: Mapping[str, Any], answer: PartialAnswer) -> None:
        body = await self._client.responses.create(model=self._endpoint.model, **fields)
        if not hasattr(body, "model_dump"):
            raise OutageError("sent an answer that is no JSON.")
        ResponseReader(answer).whole(body.model_dump(warnings=False))

    async def _stream(self, fields: Mapping[str, Any], answer: PartialAnswer) -> None:
        reader = ResponseReader(answer)
        stream = await self._client.responses.create(model=self._endpoint.model, stream=True, **fields)

        def read(event: Any) -> None:
            reader.event(event.model_dump(warnings=False))

        await read_stream(stream, read, answer, close=stream.close, cuts=True)


def _model(provider: Provider, name: str) -> ResponsesModel:
    return ResponsesModel(endpoint_of(name, provider.name))


RESPONSES = Provider(
    name="responses",
    description="OpenAI's Responses API, as in `responses:gpt-5.4`.",
    example="responses:gpt-5.4",
    make=_model,
    key_names=("OPENAI_API_KEY",),
    needs_key=True,
    price_table="openai",
    unknown_sampling=frozenset({"seed", "top_k"}),
    stop_strings="the client",
    result_pictures=True,
    continues=False,
    dialect="native",
    dialect_reason="the function calls of its API",
)
