"""The way to a server that samples: JSON over HTTP, tried again while it is an outage, every failure typed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import httpx

from saccade.errors import ModelError, ModelRefusedError
from saccade.models.failures import retry_after
from saccade.models.keys import ApiKey, find_key
from saccade.models.retry import ENGINE_RETRY, Clock, OutageError, RetryPolicy, with_retries
from saccade.record.server_address import checked_address
from saccade.record.server_client import server_client
from saccade.rl.engines.picture_files import PictureFile, StreamedBody, streamed_body

T = TypeVar("T")

_CURABLE = frozenset({408, 425, 429})
_LONGEST_DETAIL = 400
"""Characters of a server's own words in a message."""


class Connection:
    """One server. Not bound to an event loop until the first request."""

    def __init__(
        self,
        address: str,
        *,
        retry: RetryPolicy = ENGINE_RETRY,
        clock: Clock | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """A key, where the server wants one, is that of the environment: SACCADE_ENGINE_API_KEY.

        Args:
            address: `http://host:port`, without `/v1`.
            retry: how often and how long.
            clock: how to wait between tries.
            transport: another way than the network's.

        Raises:
            SettingsError: `address` is none.
        """
        self.address = engine_address(address)
        self._retry = retry
        self._clock = clock
        self._key: ApiKey = find_key("engine", needed=False)
        secret = self._key.reveal()
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        self._client = server_client(self.address, headers, transport)

    async def get(self, path: str) -> Any:
        """What the server has there, as JSON; raises what `ask` raises."""
        return await self._retried("GET", path, None, lambda response: self._json(response, path))

    async def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The server's answer as JSON, None for an empty one; raises what `ask` raises."""
        return await self.ask(path, body, lambda answer: answer)

    async def ask(
        self, path: str, body: dict[str, Any] | None, read: Callable[[Any], T], pictures: Sequence[PictureFile] = ()
    ) -> T:
        """What `read` makes of the server's answer to a POST; an `OutageError` of `read` is tried again as well.

        `body` holds the marks of `pictures`, in whose place their files are sent.

        Raises:
            ModelLostError: it cannot be reached or kept failing, after all tries.
            ModelRefusedError: it refuses; no retry can help.
        """
        sent = None if body is None else streamed_body(body, pictures)
        return await self._retried("POST", path, sent, lambda response: read(self._json(response, path)))

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._client.aclose()

    async def _retried(
        self, method: str, path: str, body: StreamedBody | None, read: Callable[[httpx.Response], T]
    ) -> T:
        async def once() -> T:
            return read(await self._try(method, path, body))

        return await with_retries(once, self._retry, self._clock)

    async def _try(self, method: str, path: str, body: StreamedBody | None) -> httpx.Response:
        sent: dict[str, Any] = {}
        if body is not None:
            headers = {"content-type": "application/json", "content-length": str(body.size)}
            sent = {"content": body.pieces(), "headers": headers}
        try:
            async with asyncio.timeout(self._retry.seconds):
                response = await self._client.request(method, path, **sent)
        except TimeoutError:
            seconds = f"{self._retry.seconds:g} s (retry.seconds)"
            failure: ModelError = OutageError(f"{self.address} did not answer within {seconds}.")
        except httpx.HTTPError as error:
            failure = OutageError(f"{self.address} cannot be reached: {str(error) or type(error).__name__}.")
        except OSError as error:
            failure = OutageError(f"a picture for {self.address} cannot be read again: {error}.")
        else:
            self._check(response, path)
            return response
        raise failure  # out here without a chain to the client's exception, which holds the request

    def _check(self, response: httpx.Response, path: str) -> None:
        status = response.status_code
        if not response.is_success:
            said = self._key.hide(_words(response))
            if status in _CURABLE or status >= 500:
                raise OutageError(f"{self.address}{path} failed ({status}): {said}.", retry_after(response.headers))
            raise ModelRefusedError(f"{self.address}{path} refused ({status}): {said}.")

    def _json(self, response: httpx.Response, path: str) -> Any:
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError:
            raise OutageError(f"{self.address}{path} sent an answer that is not JSON.") from None


def _words(response: httpx.Response) -> str:
    """The server's own words."""
    try:
        body = response.json()
    except ValueError:
        body = response.text
    while isinstance(body, dict) and (inner := next((body[k] for k in ("error", "message", "detail") if k in body), 0)):
        body = inner
    text = body if isinstance(body, str) else json.dumps(body)
    return text.strip().rstrip(".")[:_LONGEST_DETAIL] or "no reason given"


def engine_address(address: str) -> str:
    """`address` without what need not be said. Raises `SettingsError` unless it is one of a server."""
    return checked_address(address, "the engine's", 8000, "a key goes into SACCADE_ENGINE_API_KEY").removesuffix("/v1")
