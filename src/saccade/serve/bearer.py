"""The bearer token in front of an ASGI application: who does not show it gets a 401 and nothing else, or no WebSocket.

There is no encryption here: put TLS in front of it, or keep it on a network that you trust.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

from saccade.errors import SettingsError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
_POLICY_VIOLATION = 1008


class BearerGate:
    """An ASGI application that lets requests through to `app` if they show the token."""

    def __init__(self, app: AsgiApp, token: str | None, *, refusal: bytes, free: Collection[str] = ()) -> None:
        """`token` None asks nobody; `refusal` is the JSON body of the 401; `free` are paths that everybody may ask.

        Raises:
            SettingsError: the token is empty.
        """
        if token is not None and not token.strip():
            raise SettingsError("the token is empty; give a long random one, for example of `openssl rand -hex 32`.")
        self._app = app
        self._expected = None if token is None else f"Bearer {token}".encode()
        self._refusal = refusal
        self._free = frozenset(free)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"] in self._free or self._shown(scope):
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":  # before it is accepted, which the client sees as 403
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(self._refusal)).encode()),
            (b"www-authenticate", b"Bearer"),
        ]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": self._refusal})

    def _shown(self, scope: Scope) -> bool:
        if self._expected is None:
            return True
        received = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        return hmac.compare_digest(received, self._expected)
