"""HTTP to servers that many episodes ask at once: sandboxes, tools, and engines that sample.

    server = Server("http://127.0.0.1:8000", {"authorization": "Bearer ..."}, retry=RetryPolicy(tries=3))
    answer = await server.ask("GET", "/v1/models", lambda response: response.json())

Hosted models talk through the client packages of their providers, and share only the retries with this.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import httpx

from saccade.core.retry import Clock, OutageError, RetryPolicy, with_retries
from saccade.errors import ModelLostError, SettingsError

T = TypeVar("T")

CONNECT_SECONDS = 60.0
"""Hundreds of episodes connect in the same moment, and what this process itself is late for counts against each."""
NO_KEEPALIVE = httpx.Limits(max_connections=None, max_keepalive_connections=0)
"""A connection for each request. httpx gives one that is free to all requests that wait, and all but one wait again, so
that of hundreds at once some would wait for as long as others come."""


class Server:
    """One server. Not bound to an event loop until the first request; uses no proxy that the environment names."""

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str],
        *,
        retry: RetryPolicy,
        seconds: float | None = None,
        lost: Callable[[str], Exception] = ModelLostError,
        level: int = logging.WARNING,
        clock: Clock | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Reach for nothing yet.

        Args:
            address: as `checked_address` gives it.
            headers: sent with every request.
            retry: how often and how long a request is tried.
            seconds: limit of one try; None: whoever asks sets one.
            lost: makes the error of a request that was given up.
            level: of the log messages about waits.
            clock: how to wait between tries.
            transport: another way than the network's.
        """
        self.address = address
        self._retry = retry
        self._seconds = seconds
        self._lost = lost
        self._level = level
        self._clock = clock
        self._client = httpx.AsyncClient(
            base_url=address,
            headers=dict(headers),
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            limits=NO_KEEPALIVE,
            trust_env=False,
            transport=transport,
        )

    async def ask(
        self,
        method: str,
        path: str,
        read: Callable[[httpx.Response], T],
        body: bytes | Callable[[], Any] = b"",
        *,
        headers: Mapping[str, str] | None = None,
        tries: int | None = None,
    ) -> T:
        """Return what `read` makes of the answer; an `OutageError`, its own too, is tried again.

        Args:
            method: of the request.
            path: below the address.
            read: is given every answer, whatever its status.
            body: what is sent, or makes it anew for every try (an async iterator of bytes).
            headers: of this request.
            tries: in place of the policy's.
        """
        retry = self._retry if tries is None else self._retry.model_copy(update={"tries": tries})

        async def once() -> T:
            return await self.once(method, path, read, body, headers=headers)

        return await with_retries(once, retry, self._clock, lost=self._lost, level=self._level)

    async def once(
        self,
        method: str,
        path: str,
        read: Callable[[httpx.Response], T],
        body: bytes | Callable[[], Any] = b"",
        *,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """Ask a single time. Raises `OutageError` for a failure that another try may cure."""
        try:
            async with asyncio.timeout(self._seconds):
                content = body() if callable(body) else body
                response = await self._client.request(method, path, content=content, headers=headers)
        except TimeoutError:
            failure = OutageError(f"{self.address} did not answer within {self._seconds:g} s (retry.seconds).")
        except httpx.HTTPError as error:
            failure = OutageError(f"{self.address} cannot be reached: {str(error) or type(error).__name__}.")
        except OSError as error:
            failure = OutageError(f"a file for {self.address} cannot be read again: {error}.")
        else:
            return read(response)
        raise failure  # out here without a chain to the client's exception, which holds the request

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._client.aclose()


def is_outage(response: httpx.Response) -> bool:
    """Return whether another try may get a better answer than this one."""
    return response.status_code in (408, 425, 429) or response.status_code >= 500


def checked_address(address: str, whose: str, port: int, secret: str) -> str:
    """Return `address` as it is requested, without a slash at its end.

    Args:
        address: `http://host:port` or `https://host`.
        whose: the server, as a message names it ("the engine's").
        port: that of the message's example.
        secret: where a key or token belongs, since no address may hold one.

    Raises `SettingsError`: it is none.
    """
    try:
        parsed = httpx.URL(address)
    except (httpx.InvalidURL, TypeError) as error:
        raise SettingsError(f"{whose} address cannot be read: {error}. Example: http://127.0.0.1:{port}") from error
    # What can be in no name is escaped, a lone bracket too; %25 alone begins the zone of an IPv6 address.
    named = bool(parsed.host) and "%" not in parsed.host.partition("%25")[0]
    more = parsed.userinfo or parsed.query or parsed.fragment
    if parsed.scheme not in ("http", "https") or not named or more:
        raise SettingsError(
            f"{whose} address {parsed.host or address!r} must look like http://host:port, without user, password or "
            f"query; {secret}. Example: http://127.0.0.1:{port}"
        )
    if parsed.port is not None and not 0 < parsed.port < 65536:
        raise SettingsError(f"{whose} address has port {parsed.port}; ports are 1 to 65535.")
    return str(parsed).rstrip("/")
