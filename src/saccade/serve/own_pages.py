"""What a browser sends for a page of another site is refused: a page that somebody has open drives no server here.

A browser says in `Origin` for which page it asks. A name of another host that leads to this machine makes such a page
its own; a server that only this machine reaches refuses every host but its own names.
"""

from __future__ import annotations

from typing import Final

from saccade.serve.bearer import AsgiApp, Receive, Scope, Send

LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
"""Hosts that requests may name where only this machine reaches the server."""
_OTHER_ORIGIN = b'{"detail": "no page of another site may use this server"}'
_POLICY_VIOLATION = 1008


class OwnPages:
    """An ASGI application that refuses what a browser sends for a page of another site, WebSockets above all."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        origin, host = headers.get(b"origin"), headers.get(b"host", b"")
        if origin is None or is_origin_of(origin.decode("latin-1"), host.decode("latin-1")):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            kind = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 403, "headers": kind})
            await send({"type": "http.response.body", "body": _OTHER_ORIGIN})


def is_origin_of(origin: str, host: str) -> bool:
    """Whether the header `Origin` names a page of the host that the request was sent to, whatever else it holds."""
    _, scheme, named = origin.partition("://")
    return bool(scheme) and bool(host) and named == host
