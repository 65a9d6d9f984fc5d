"""OpenAI's models behind its Responses API.

    model = ResponsesModel(Endpoint("gpt-5.4"))

The protocol knows no stop strings: they are cut off here by ending the stream, and then tokens and money of the call
are unknown (None). Reasoning goes back to the service as it came, encrypted, before the call that it led to.

Where the service's own sandbox is to run code, each try of an answer has a container of its own, which is deleted after
it; what such a container costs is not among the dollars of the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from saccade.core.retry import OutageError
from saccade.models.answer import Listener, PartialAnswer
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.endpoint import Endpoint, endpoint_of
from saccade.models.hosted import HostedModel, read_stream
from saccade.models.hosted_calls import OpenCall, kept, need_keeper
from saccade.models.hosted_files import LeftFile, SandboxFile, fetch, question_files, tidy
from saccade.models.provider import Provider
from saccade.models.responses_sandbox import InterpreterReader, hosted_fields
from saccade.models.responses_wire import ResponseReader, request_fields

EXPIRY_MINUTES: Final = 20
"""After which an idle container is deleted by the service."""


class ResponsesModel(HostedModel):
    """A model behind the Responses API."""

    def __init__(self, endpoint: Endpoint, *, api_key: str | None = None) -> None:
        super().__init__(RESPONSES, endpoint, "openai", client="AsyncOpenAI", api_key=api_key)

    def _fields(self, request: Request, media: MediaReader, without: Collection[str]) -> dict[str, Any]:
        return request_fields(request, media, without=without)

    async def _read(
        self, fields: Mapping[str, Any], answer: PartialAnswer, reader: ResponseReader | None = None
    ) -> None:
        reader = reader or ResponseReader(answer)
        if answer.listener.wants_pieces or answer.stops:
            await self._stream(fields, answer, reader)
        else:
            await self._fetch(fields, reader)

    async def _fetch(self, fields: Mapping[str, Any], reader: ResponseReader) -> None:
        body = await self._client.responses.create(model=self._endpoint.model, **fields)
        if not hasattr(body, "model_dump"):
            raise OutageError("sent an answer that is no JSON.")
        reader.response(body.model_dump(warnings=False))

    async def _stream(self, fields: Mapping[str, Any], answer: PartialAnswer, reader: ResponseReader) -> None:
        stream = await self._client.responses.create(model=self._endpoint.model, stream=True, **fields)

        def read(event: Any) -> None:
            reader.event(event.model_dump(warnings=False))

        await read_stream(stream, read, answer, close=stream.close, cuts=True)

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
        """The name of a new container with the files, deleted in the end."""
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
        """What the code left in the container, shown with its last call: the service does not say which it was."""
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
    stop_strings="the client",
    result_pictures=True,
    hosted_code=True,
    no_hosted_code=r"gpt-3\.5",
    continues=False,
    dialect="native",
    dialect_reason="the function calls of its API",
)
