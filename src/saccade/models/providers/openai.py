"""OpenAI, and the model behind the chat-completions protocol that all servers of it share.

    model = OpenAIModel(Endpoint("gpt-4.1"))
    model = OpenAIModel(Endpoint("Qwen/Qwen2.5-VL-7B-Instruct", base_url="http://localhost:8000/v1"), server="vllm")

Text and stop strings are exact on vLLM and SGLang. OpenAI swallows stop strings without naming them: closing tags
are put back by inference (see `stops.unclosed`); other stop strings, and all on models that refuse them, are cut off
here by ending the stream, and then tokens and money of the call are unknown (None), for the server tells them last.
A model that refuses stop strings, a temperature, or to be told to make one native call at a time, is asked without
from then on. A request that is refused with the room that an episode's limits leave, which may be more than the server
gives to any answer, is sent once more without it: then the server's own limit holds.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from saccade.core.retry import OutageError
from saccade.errors import ModelDeniedError, ModelRefusedError, RegistryError, SettingsError
from saccade.models.answer import PartialAnswer
from saccade.models.base import MediaReader, Request
from saccade.models.endpoint import Endpoint, endpoint_of
from saccade.models.failures import RefusedParameterError
from saccade.models.hosted import DISPENSABLE, HostedModel, read_stream
from saccade.models.hosted_calls import refuse_hosted
from saccade.models.openai_wire import Server, read_body, request_fields
from saccade.models.registry import PROVIDERS

_log = logging.getLogger(__name__)


class OpenAIModel(HostedModel):
    """A model behind the chat-completions protocol."""

    def __init__(self, endpoint: Endpoint, *, server: str | Server = "openai", api_key: str | None = None) -> None:
        """`server` is who is asked: a `Server`, or the name of one.

        Raises:
            RegistryError: there is no such server.
            SettingsError: it needs an address.
            UnavailableError: the client package is not installed.
            ModelRefusedError: a key is needed, and there is none.
        """
        self._server = _server(server)
        if self._server.needs_address and not endpoint.base_url:
            name = self._server.name
            raise SettingsError(f"{name} needs an address: {name}:{endpoint.model}@http://host:8000/v1")
        self._said_unbounded = False
        super().__init__(self._server, endpoint, "openai", client="AsyncOpenAI", api_key=api_key)

    def _fields(self, request: Request, media: MediaReader, without: Collection[str]) -> dict[str, Any]:
        refuse_hosted(request, self.name)
        return request_fields(request, media, self._server, without=without)

    def _after(self, refusal: ModelRefusedError, request: Request, fields: Mapping[str, Any]) -> Request:
        left_out = isinstance(refusal, RefusedParameterError) and refusal.parameter in DISPENSABLE
        if left_out or isinstance(refusal, ModelDeniedError) or not _bounded(request):
            return super()._after(refusal, request, fields)
        return self._unbounded(request, refusal)

    def _unbounded(self, request: Request, refusal: ModelRefusedError) -> Request:
        """The request without the room that the limits leave; said once for each model."""
        if not self._said_unbounded:
            says = "%s refused a turn of at most %d tokens, which is what the limits leave (%s); it is asked without."
            _log.warning(says, self.name, request.room, refusal)
            self._said_unbounded = True
        return replace(request, room=None)

    async def _read(self, fields: Mapping[str, Any], answer: PartialAnswer) -> None:
        sends_stops = "stop" in fields
        answer.infers_stop = sends_stops and not self._server.names_stop
        cuts = bool(answer.stops) and not sends_stops
        if answer.listener.wants_pieces or cuts:
            await self._stream(fields, answer, cuts)
        else:
            await self._fetch(fields, answer)

    async def _fetch(self, fields: Mapping[str, Any], answer: PartialAnswer) -> None:
        body = await self._client.chat.completions.create(model=self._endpoint.model, **fields)
        if not hasattr(body, "model_dump"):
            raise OutageError("sent an answer that is no JSON.")
        read_body(body.model_dump(warnings=False), answer, streamed=False)

    async def _stream(self, fields: Mapping[str, Any], answer: PartialAnswer, cuts: bool) -> None:
        if not self._server.ids_in_streams:
            fields = _without_ids(fields)
        stream = await self._client.chat.completions.create(
            model=self._endpoint.model, stream=True, stream_options={"include_usage": True}, **fields
        )

        def read(chunk: Any) -> None:
            read_body(chunk.model_dump(warnings=False), answer, streamed=True)

        await read_stream(stream, read, answer, close=stream.close, cuts=cuts)


def _without_ids(fields: Mapping[str, Any]) -> dict[str, Any]:
    extra = {
        name: value for name, value in fields["extra_body"].items() if name not in ("logprobs", "return_meta_info")
    }
    return {**fields, "extra_body": extra}


def _bounded(request: Request) -> bool:
    """Whether the most tokens of the answer come from an episode's limits."""
    return request.room is not None and request.max_tokens != request.sampling.max_tokens


def _server(server: str | Server) -> Server:
    found = PROVIDERS.load(server) if isinstance(server, str) else server
    if not isinstance(found, Server):
        raise RegistryError(f"{server!r} is no server of chat completions. See `saccade list models`.")
    return found


def chat_model(server: Server, name: str) -> OpenAIModel:
    """The model of `server` that `NAME` or `NAME@http://address` means."""
    return OpenAIModel(endpoint_of(name, server.name), server=server)


OPENAI = Server(
    name="openai",
    description="OpenAI's API, as in `openai:gpt-4.1`.",
    example="openai:gpt-4.1",
    make=chat_model,
    key_names=("OPENAI_API_KEY",),
    needs_key=True,
    needs_address=False,
    length_field="max_completion_tokens",
    one_call=True,
    dialect="native",
    dialect_reason="the function calls of its API",
)
