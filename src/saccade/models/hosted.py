"""What models behind a provider's own client package share: name, key, connections, and how a request is asked.

Some models of a server refuse parameters that others know. One without which a request still asks for the same
(`DISPENSABLE`) is left out from the first refusal on; that is said once where it changes what is sampled.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from saccade.core.retry import RetryPolicy, with_retries
from saccade.errors import ModelRefusedError, SaccadeError
from saccade.models.answer import Listener, PartialAnswer
from saccade.models.base import Completion, MediaReader, Request, Usage
from saccade.models.endpoint import Endpoint
from saccade.models.exchanges import hooks, one_try
from saccade.models.failures import PackageErrors, RefusedParameterError, converted, load_client
from saccade.models.keys import find_key
from saccade.models.prices import Price
from saccade.models.provider import Provider
from saccade.models.stops import check_stops

DISPENSABLE: Final = frozenset({"stop", "parallel_tool_calls", "temperature", "top_p"})
"""Parameters that some models of a server refuse, and that are left out then."""
_SAMPLING: Final = frozenset({"temperature", "top_p"})
_CONNECT_SECONDS = 10.0
_log = logging.getLogger(__name__)
T = TypeVar("T")


class HostedModel(ABC):
    """The base of such models; a subclass says what is sent (`_fields`) and how an answer is read (`_read`)."""

    def __init__(
        self, provider: Provider, endpoint: Endpoint, package: str, *, client: str, api_key: str | None
    ) -> None:
        """Its `package` has the class `client` to talk with, made as those of OpenAI's and Anthropic's packages are; a
        subclass for another package says so in `_connected`, `failure` and `close`.

        Raises:
            UnavailableError: it is not installed.
            ModelRefusedError: a key is needed, and there is none.
        """
        self.name = f"{provider.name}:{endpoint.model}"
        self.retry: RetryPolicy = endpoint.retry
        """How often a request is tried, and for how long."""
        self._provider = provider
        self._endpoint = endpoint
        self._package = load_client(package)
        given = api_key or (endpoint.key.reveal() if endpoint.key is not None else None)
        self._key = find_key(provider.name, given, usual=provider.key_names, needed=provider.needs_key)
        self._client: Any = self._connected(client)
        self._refused: set[str] = set()

    def _connected(self, client: str) -> Any:
        return getattr(self._package, client)(
            api_key=self._key.reveal() or "none",
            base_url=self._endpoint.base_url,
            max_retries=0,
            http_client=self._package.DefaultAsyncHttpxClient(event_hooks=hooks()),
            timeout=self._package.Timeout(None, connect=_CONNECT_SECONDS),  # the policy bounds the whole try
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def has_price(self) -> bool:
        """Whether the table of prices knows the model."""
        return self.price is not None

    @property
    def price(self) -> Price | None:
        """What its tokens cost; None if the table of prices does not know the model."""
        return self._endpoint.prices.price(self.name.partition(":")[0], self._endpoint.model)

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The model's next message; an empty piece to `on_text` says that a broken answer begins again.

        Raises:
            ModelRefusedError: no retry can help, or the service blocks the request.
            ModelLostError: an outage outlasted the retries.
            MediaError: a picture or a video of the messages cannot be read.
        """
        check_stops(request.stop)
        listener = Listener(on_text)
        while True:
            fields = await asyncio.to_thread(self._fields, request, media, frozenset(self._refused))
            try:
                return await self._answer(request, fields, media, listener)
            except ModelRefusedError as refusal:
                request = self._after(refusal, request, fields)

    @abstractmethod
    def _fields(self, request: Request, media: MediaReader, without: Collection[str]) -> dict[str, Any]:
        """What is sent, without the parameters `without`; may take long (pictures are encoded), so runs in a thread."""

    @abstractmethod
    async def _read(self, fields: Mapping[str, Any], answer: PartialAnswer) -> None:
        """Send `fields` once and read what comes into `answer`."""

    def _after(self, refusal: ModelRefusedError, request: Request, fields: Mapping[str, Any]) -> Request:
        """What to ask after the server refused `fields`; raises `refusal` if nothing else asks for the same."""
        if not isinstance(refusal, RefusedParameterError):
            raise refusal
        self._leave_out(refusal, (*fields, *fields.get("extra_body", ())))
        return request

    async def _answer(
        self, request: Request, fields: dict[str, Any], media: MediaReader, listener: Listener
    ) -> Completion:
        """The answer to `fields`, tried as often as `retry` says; a subclass may ask in several requests instead."""

        async def ask() -> Completion:
            listener.begin()
            answer = PartialAnswer(request.stop, listener)
            await self._read(fields, answer)
            self._count(answer)
            return answer.completion()

        return await self._patiently(ask)

    def _count(self, answer: PartialAnswer) -> None:
        """Put what is known of the answer's price and model into it, when all of it is there."""
        if answer.finish is None:  # the count so far is only that of the beginning
            answer.usage = replace(answer.usage, sampled_tokens=None)
        answer.usage = self._priced(answer.usage, answer.cache_written)
        answer.model = answer.model or self._endpoint.model

    async def close(self) -> None:
        """Give back the connections."""
        await self._client.close()

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What `ask`, one try, gives; outages are tried again, and all failures are errors of ours."""
        return await with_retries(lambda: self._once(ask), self.retry, self._endpoint.clock)

    async def _patiently_in_steps(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The same for a try of several requests, of which each goes through `_once`."""
        return await with_retries(ask, self.retry, self._endpoint.clock)

    async def _once(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What one request gives; it is heard, and its failures are errors of ours."""
        return await one_try(
            lambda: converted(ask, self.failure, key=self._key, who=self.name, seconds=self.retry.seconds),
            self._key.hide,
        )

    def failure(self, error: Exception) -> SaccadeError | None:
        """The error of ours for one of the client package; None for what is no failure of connection or server."""
        address = str(self._client.base_url)
        return PackageErrors(self._package, self._key, self.name, address, self._provider.errors)(error)

    def _priced(self, usage: Usage, cache_written: int = 0) -> Usage:
        """`usage` with its dollars, as far as they are known."""
        return self._endpoint.prices.priced(usage, self._provider.prices, self._endpoint.model, cache_written)

    def _leave_out(self, refusal: RefusedParameterError, sent: Collection[str]) -> None:
        """From now on ask without the refused parameter; raises `refusal` if it was not `sent`, or is needed."""
        name = refusal.parameter
        if name not in DISPENSABLE or name not in sent:
            raise refusal
        if name in _SAMPLING and name not in self._refused:
            _log.warning("%s takes no %s; it is asked without, so its own default holds.", self.name, name)
        self._refused.add(name)


async def read_stream(
    pieces: AsyncIterable[Any],
    read: Callable[[Any], None],
    answer: PartialAnswer,
    *,
    close: Callable[[], Awaitable[None]],
    cuts: bool,
) -> None:
    """Read a stream into `answer`, telling its listener of every piece, and end it.

    Args:
        pieces: the stream, as the client package gives it.
        read: reads one piece into `answer`.
        answer: what has come in so far.
        close: ends the stream.
        cuts: the server does not know a stop string, so the stream ends here at the first one; what follows is paid
            for and thrown away.
    """
    try:
        async for piece in pieces:
            read(piece)
            answer.tell()
            if cuts and answer.watch.stopped is not None:
                break
    finally:
        await close()
