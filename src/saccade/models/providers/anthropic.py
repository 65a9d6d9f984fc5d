"""Claude behind Anthropic's own API.

    model = AnthropicModel(Endpoint("claude-opus-4-8"))

Answers are always streamed, so that long ones do not time out and a stop string that the API does not take can be cut
off here; then the sampled tokens and money of the call are unknown (None). Thinking is neither asked for nor recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from saccade.models.answer import Listener, PartialAnswer
from saccade.models.anthropic_wire import EventReader, request_fields, sendable_stops
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.endpoint import Endpoint, endpoint_of
from saccade.models.error_words import COMMON, ErrorWords
from saccade.models.failures import RefusedParameterError
from saccade.models.hosted import HostedModel
from saccade.models.provider import Provider
from saccade.models.stops import check_stops


class AnthropicModel(HostedModel):
    """A model behind the messages API."""

    def __init__(self, endpoint: Endpoint, *, api_key: str | None = None) -> None:
        super().__init__(ANTHROPIC, endpoint, "anthropic", client="AsyncAnthropic", api_key=api_key)

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The model's next message; an empty piece to `on_text` says that a broken answer begins again.

        Raises:
            ModelRefusedError: no retry can help.
            ModelLostError: an outage outlasted the retries.
            MediaError: a picture of the messages cannot be read.
        """
        check_stops(request.stop)
        listener = Listener(on_text)
        while True:
            without = frozenset(self._refused)
            fields = await asyncio.to_thread(request_fields, request, media, self._endpoint.model, without=without)
            try:
                return await self._tried(request, fields, listener)
            except RefusedParameterError as refusal:
                self._leave_out(refusal, fields.get("extra_body", {}))

    async def _tried(self, request: Request, fields: dict[str, Any], listener: Listener) -> Completion:
        async def ask() -> Completion:
            listener.begin()
            return await self._stream(fields, PartialAnswer(request.stop, listener))

        return await self._patiently(ask)

    async def _stream(self, fields: dict[str, Any], answer: PartialAnswer) -> Completion:
        reader = EventReader(answer)
        cuts = len(sendable_stops(answer.stops)) < len(answer.stops)
        stream = await self._client.messages.create(stream=True, **fields)
        try:
            async for event in stream:
                reader.read(event.model_dump(warnings=False))
                answer.tell()
                if cuts and answer.watch.stopped is not None:
                    break  # what follows is paid for and thrown away
        finally:
            await stream.close()
        if answer.finish is None:  # the count so far is only that of the beginning
            answer.usage = replace(answer.usage, sampled_tokens=None)
        answer.usage = self._priced(answer.usage, reader.cache_written)
        return answer.completion()


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
