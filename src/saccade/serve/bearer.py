"""The bearer token in front of an ASGI application: who does not show it gets a 401 and nothing else, or no WebSocket.

There is no encryption here: put TLS in front of it, or keep it on a network that you trust.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection

from saccade.errors import SettingsError
from saccade.serve.asgi import AsgiApp, Receive, Scope, Send, refuse


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
        else:
            await refuse(scope, send, self._refusal, 401, [(b"www-authenticate", b"Bearer")])

    def _shown(self, scope: Scope) -> bool:
        if self._expected is None:
            return True
        received = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        return hmac.compare_digest(received, self._expected)
