"""Claude behind Anthropic's own API.

    model = AnthropicModel(Endpoint("claude-opus-4-8"))

Answers are always streamed, so that long ones do not time out and a stop string that the API does not take can be cut
off here; then the sampled tokens and money of the call are unknown (None). Thinking is neither asked for nor recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from saccade.models.answer import PartialAnswer
from saccade.models.anthropic_wire import EventReader, request_fields, sendable_stops
from saccade.models.base import MediaReader, Request
from saccade.models.endpoint import Endpoint, endpoint_of
from saccade.models.error_words import COMMON, ErrorWords
from saccade.models.hosted import HostedModel, read_stream
from saccade.models.provider import Provider


class AnthropicModel(HostedModel):
    """A model behind the messages API."""

    def __init__(self, endpoint: Endpoint, *, api_key: str | None = None) -> None:
        super().__init__(ANTHROPIC, endpoint, "anthropic", client="AsyncAnthropic", api_key=api_key)

    def _fields(self, request: Request, media: MediaReader, without: Collection[str]) -> dict[str, Any]:
        return request_fields(request, media, self._endpoint.model, without=without)

    async def _read(self, fields: Mapping[str, Any], answer: PartialAnswer) -> None:
        reader = EventReader(answer)
        cuts = len(sendable_stops(answer.stops)) < len(answer.stops)
        stream = await self._client.messages.create(stream=True, **fields)

        def read(event: Any) -> None:
            reader.read(event.model_dump(warnings=False))

        await read_stream(stream, read, answer, close=stream.close, cuts=cuts)


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
    stop_strings="the API, those of white space alone by the client",
    result_pictures=True,
    dialect="native",
    dialect_reason="the function calls of its API",
)
