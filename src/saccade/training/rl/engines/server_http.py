"""Send JSON over HTTP to a server that samples, with retries of outages and typed failures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import httpx

from saccade.core.http import Server, checked_address, is_outage
from saccade.core.retry import ENGINE_RETRY, Clock, OutageError, RetryPolicy, retry_after
from saccade.errors import ModelRefusedError
from saccade.models.failures import ApiKey, find_key
from saccade.training.rl.engines.picture_files import PictureFile, streamed_body

T = TypeVar("T")

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
        """Connect with the key of the environment, SACCADE_ENGINE_API_KEY, where the server needs one.

        Args:
            address: `http://host:port`, without `/v1`.
            retry: how often and how long.
            clock: how to wait between tries.
            transport: another way than the network's.

        Raises `SettingsError`: `address` is none.
        """
        self.address = engine_address(address)
        self._key: ApiKey = find_key("engine", needed=False)
        secret = self._key.reveal()
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        self._server = Server(
            self.address, headers, retry=retry, seconds=retry.seconds, clock=clock, transport=transport
        )

    async def get(self, path: str) -> Any:
        """Get JSON from the server. Raises as `ask`."""
        return await self._server.ask("GET", path, lambda response: self._json(response, path))

    async def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the server's answer as JSON, None for an empty one. Raises as `ask`."""
        return await self.ask(path, body, lambda answer: answer)

    async def ask(
        self, path: str, body: dict[str, Any] | None, read: Callable[[Any], T], pictures: Sequence[PictureFile] = ()
    ) -> T:
        """Return `read` of the server's answer to a POST; an `OutageError` of `read` is retried too.

        `body` holds marks in place of `pictures`, whose files are sent.

        Raises:
            ModelLostError: it cannot be reached or kept failing, after all tries.
            ModelRefusedError: it refuses; no retry can help.
        """
        sent = None if body is None else streamed_body(body, pictures)
        headers = {} if sent is None else {"content-type": "application/json", "content-length": str(sent.size)}
        content = b"" if sent is None else sent.pieces
        return await self._server.ask(
            "POST", path, lambda response: read(self._json(response, path)), content, headers=headers
        )

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._server.close()

    def _json(self, response: httpx.Response, path: str) -> Any:
        if not response.is_success:
            status, words = response.status_code, self._key.hide(_words(response))
            if is_outage(response):
                raise OutageError(f"{self.address}{path} failed ({status}): {words}.", retry_after(response.headers))
            raise ModelRefusedError(f"{self.address}{path} refused ({status}): {words}.")
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError:
            raise OutageError(f"{self.address}{path} sent an answer that is not JSON.") from None


def _words(response: httpx.Response) -> str:
    """Extract the server's message."""
    try:
        body = response.json()
    except ValueError:
        body = response.text
    while isinstance(body, dict) and (inner := next((body[k] for k in ("error", "message", "detail") if k in body), 0)):
        body = inner
    text = body if isinstance(body, str) else json.dumps(body)
    return text.strip().rstrip(".")[:_LONGEST_DETAIL] or "no reason given"


def engine_address(address: str) -> str:
    """Normalise `address`. Raises `SettingsError` unless it is one of a server."""
    return checked_address(address, "the engine's", 8000, "a key goes into SACCADE_ENGINE_API_KEY").removesuffix("/v1")
