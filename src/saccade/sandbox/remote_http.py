"""HTTP of the remote sandbox: the token, retries with back-off, and foreign errors turned into ours.

Every request of this client may be repeated safely, because sessions and calls are named by the client and the server
remembers what it has done under a name. So whatever fails on the way (no connection, a connection that breaks, 429,
5xx) is tried again a few times; then it is `SandboxLostError`. A server that says that it still works is asked
again for as long as it says so: it may have thousands of calls to make, and bounds each by itself. The token goes into
one header and nowhere else. Proxies named in the environment are not used.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from saccade.core.http import Server, checked_address, is_outage
from saccade.core.retry import SANDBOX_RETRY, OutageError, RetryPolicy, retry_after
from saccade.errors import (
    IsolationError,
    MediaError,
    ProtocolError,
    SandboxError,
    SandboxFullError,
    SandboxLostError,
    SettingsError,
    TooLargeError,
)
from saccade.sandbox import remote_wire as wire

TICK_SECONDS = 1.0
"""Most that counts from one look at the clock to the next, however much later that comes."""


class Patience:
    """The rest of a limit of time; made by `patience`.

    A process that plays a thousand episodes comes to each of them only every few seconds: by the clock, it would take
    servers for lost that have answered long ago.
    """

    def __init__(self, seconds: float, bound: asyncio.Timeout) -> None:
        self._seconds = seconds
        self._left = seconds
        self._bound = bound
        self._loop = asyncio.get_running_loop()
        self._wait()

    def renew(self) -> None:
        """Begin anew: there was a sign of life."""
        self._timer.cancel()
        self._left = self._seconds
        self._wait()

    def end(self) -> None:
        """Count no more."""
        self._timer.cancel()

    def _wait(self) -> None:
        step = min(TICK_SECONDS, self._left)
        self._timer = self._loop.call_later(step, self._count, step)

    def _count(self, step: float) -> None:
        self._left -= step
        if self._left > 0:
            self._wait()
        else:
            self._bound.reschedule(self._loop.time())


@asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[Patience]:
    """Let the block take `seconds` in which this process was not late itself.

    Raises:
        TimeoutError: it takes longer.
    """
    async with asyncio.timeout(None) as bound:
        left = Patience(seconds, bound)
        try:
            yield left
        finally:
            left.end()


TOKEN_VARIABLE = "SACCADE_SANDBOX_TOKEN"
_ERRORS: Mapping[str, type[Exception]] = {
    "settings": SettingsError,
    "media": MediaError,
    "too_large": TooLargeError,
    "isolation": IsolationError,
    "protocol": ProtocolError,
    "sandbox": SandboxError,
    "full": SandboxFullError,
    "lost": SandboxLostError,
    "unknown_session": SandboxLostError,
    "gone": SandboxLostError,
    "conflict": SandboxLostError,
    "cancelled": SandboxLostError,
}
"""The `error` of a server's answer -> what is raised here."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An answer of the server that is no failure: its status code and its body."""

    code: int
    body: bytes

    def json(self) -> wire.WireFields:
        """The body as a JSON object; raises `ProtocolError` if it is none."""
        value = wire.parse_json(self.body)
        if not isinstance(value, dict):
            raise ProtocolError("the sandbox server did not answer with a JSON object.")
        return value


class Http:
    """One server. Not bound to an event loop until the first request."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        retry: RetryPolicy | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = checked_address(url, "the sandbox's", 8719, f"a token goes into {TOKEN_VARIABLE}")
        token = os.environ.get(TOKEN_VARIABLE) if token is None else token
        headers = {**_authorization(token), "x-saccade-client": secrets.token_hex(16)}
        # The whole request has a deadline in `request`; a long call is silent while it runs.
        self._server = Server(
            self.url, headers, retry=retry or SANDBOX_RETRY, lost=self._lost, level=logging.INFO, transport=transport
        )

    def __repr__(self) -> str:
        """Without the token."""
        return f"Http({self.url!r})"

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._server.close()

    async def request(
        self, method: str, path: str, body: bytes = b"", *, seconds: float = 60.0, tries: int | None = None
    ) -> HttpReply:
        """Send a request that may be repeated, for at most `seconds` since the server last said that it works on it.

        Codes 2xx and 409 (the server lacks pictures) with `missing` come back; everything else is raised.

        Raises:
            SandboxLostError: the server cannot be reached, does not answer in time, or does not know the session.
            SandboxFullError: the server has no room for another session.
            SandboxError: the token is refused, or the server reports a failure of its own.
            SettingsError, MediaError: the server refuses what was asked for.
            ProtocolError: the answer is not one of a Saccade server.
        """
        headers = {"content-type": wire.MEDIA_TYPE} if body else {}
        try:
            async with patience(seconds) as left:
                while True:
                    reply = await self._server.ask(method, path, self._checked, body, headers=headers, tries=tries)
                    if reply.code != wire.WORKING:
                        return reply
                    left.renew()
        except TimeoutError:
            raise self._lost(f"No answer within {seconds:.0f} s.") from None

    def _lost(self, problem: str) -> SandboxLostError:
        return SandboxLostError(
            f"the sandbox server at {self.url} cannot be used: {problem} "
            "Check that `saccade sandbox serve` runs there and can be reached; its sessions may be gone."
        )

    def _checked(self, response: httpx.Response) -> HttpReply:
        code = response.status_code
        kind = _kind(response)
        if kind is None and is_outage(response):
            raise OutageError(f"{self.url}: HTTP {code}.", retry_after(response.headers))
        if 200 <= code < 300 or kind == "missing_media":
            return HttpReply(code, response.content)
        if code in (401, 403):
            raise SandboxError(
                f"the sandbox server at {self.url} refuses the token. Pass token=... or set {TOKEN_VARIABLE} "
                "to the token that the server was started with."
            )
        if kind is None:
            raise ProtocolError(f"{self.url} answers HTTP {code} as no Saccade sandbox server does. Is the URL right?")
        message = wire.text(HttpReply(code, response.content).json(), "message")
        raise _ERRORS.get(kind, SandboxError)(message)


def _kind(response: httpx.Response) -> str | None:
    """The `error` that a Saccade server states in a failure; None if there is none."""
    if response.is_success:
        return None
    try:
        value = wire.parse_json(response.content)
    except ProtocolError:
        return None
    if not isinstance(value, dict) or not isinstance(value.get("message"), str):
        return None
    kind = value.get("error")
    return kind if isinstance(kind, str) else None


def _authorization(token: str | None) -> dict[str, str]:
    if not token:
        return {}
    if not token.isascii() or not token.isprintable() or " " in token:
        raise SettingsError("the sandbox token holds characters that a header cannot carry; use printable ASCII.")
    return {"authorization": f"Bearer {token}"}
