"""OpenAI's models behind its Responses API.

    model = ResponsesModel(Endpoint("gpt-5.4"))

The protocol knows no stop strings: they are cut off here by ending the stream, and then tokens and money of the call
are unknown (None). Reasoning goes back to the service as it came, encrypted, before the call that it led to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from saccade.models.answer import Listener, PartialAnswer
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.endpoint import Endpoint, endpoint_of
from saccade.models.failures import RefusedParameterError
from saccade.models.hosted import HostedModel
from saccade.models.provider import Provider
from saccade.models.responses_wire import ResponseReader, request_fields
from saccade.models.retry import OutageError
from saccade.models.stops import check_stops


class ResponsesModel(HostedModel):
    """A model behind the Responses API."""

    def __init__(self, endpoint: Endpoint, *, api_key: str | None = None) -> None:
        super().__init__(RESPONSES, endpoint, "openai", client="AsyncOpenAI", api_key=api_key)

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
            fields = await asyncio.to_thread(request_fields, request, media, without=without)
            try:
                return await self._tried(request, fields, listener)
            except RefusedParameterError as refusal:
                self._leave_out(refusal, fields)

    async def _tried(self, request: Request, fields: dict[str, Any], listener: Listener) -> Completion:
        async def ask() -> Completion:
            listener.begin()
            answer = PartialAnswer(request.stop, listener)
            if listener.wants_pieces or request.stop:
                await self._stream(fields, answer)
            else:
                await self._whole(fields, answer)
            answer.usage = self._priced(answer.usage)
            answer.model = answer.model or self._endpoint.model
            return answer.completion()

        return await self._patiently(ask)

    async def _whole(self, fields: dict[str, Any], answer: PartialAnswer) -> None:
        body = await self._client.responses.create(model=self._endpoint.model, **fields)
        if not hasattr(body, "model_dump"):
            raise OutageError("sent an answer that is no JSON.")
        ResponseReader(answer).whole(body.model_dump(warnings=False))

    async def _stream(self, fields: dict[str, Any], answer: PartialAnswer) -> None:
        reader = ResponseReader(answer)
        stream = await self._client.responses.create(model=self._endpoint.model, stream=True, **fields)
        try:
            async for event in stream:
                reader.event(event.model_dump(warnings=False))
                answer.tell()
                if answer.watch.stopped is not None:
                    break  # what follows is paid for and thrown away
        finally:
            await stream.close()


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
