"""Claude behind Anthropic's own API.

    model = AnthropicModel(Endpoint("claude-opus-4-8"))

Answers are always streamed, so that long ones do not time out and a stop string that the API does not take can be cut
off here; then the sampled tokens and money of the call are unknown (None). Thinking is neither asked for nor recorded.

Where the API's own sandbox is to run code, the pictures of the question are uploaded for it, and deleted afterwards;
counts and dollars are those of all requests of the answer, and what the sandbox costs is not among them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final

from saccade.errors import ModelError
from saccade.models.answer import Listener, PartialAnswer
from saccade.models.anthropic_sandbox import MOST_PAUSES, SandboxReader, hosted_fields
from saccade.models.anthropic_wire import EventReader, request_fields, sendable_stops
from saccade.models.base import Completion, MediaReader, Request, Usage, added
from saccade.models.endpoint import Endpoint, endpoint_of
from saccade.models.error_words import COMMON, ErrorWords
from saccade.models.hosted import HostedModel, read_stream
from saccade.models.hosted_calls import OpenCall, kept, need_keeper
from saccade.models.hosted_files import LeftFile, fetch, question_files, tidy
from saccade.models.provider import Provider
from saccade.record.turn import FinishReason

FILE_SECONDS: Final = 3600
"""After which the API deletes an uploaded picture by itself, should we not."""
_log = logging.getLogger(__name__)


class AnthropicModel(HostedModel):
    """A model behind the messages API."""

    def __init__(self, endpoint: Endpoint, *, api_key: str | None = None) -> None:
        super().__init__(ANTHROPIC, endpoint, "anthropic", client="AsyncAnthropic", api_key=api_key)

    def _fields(self, request: Request, media: MediaReader, without: Collection[str]) -> dict[str, Any]:
        return request_fields(request, media, self._endpoint.model, without=without)

    async def _read(self, fields: Mapping[str, Any], answer: PartialAnswer, reader: EventReader | None = None) -> None:
        reader = reader or EventReader(answer)
        cuts = len(sendable_stops(answer.stops)) < len(answer.stops)
        stream = await self._client.messages.create(stream=True, **fields)

        def read(event: Any) -> None:
            reader.read(event.model_dump(warnings=False))

        await read_stream(stream, read, answer, close=stream.close, cuts=cuts)

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
        """One answer, continued as often as the API pauses it; gives the files that its calls left."""
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
        """The file of that id, which `call` left; None if the API knows nothing of it, which is noted."""
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
    stop_strings="the API, those of white space alone by the client",
    result_pictures=True,
    hosted_code=True,
    no_hosted_code=r"claude-(2|instant|3-(opus|sonnet|haiku|5-sonnet))",
    dialect="native",
    dialect_reason="the function calls of its API",
)
