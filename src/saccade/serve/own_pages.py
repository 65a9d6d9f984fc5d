"""What a browser sends for a page of another site is refused: a page that somebody has open drives no server here.

A browser says in `Origin` for which page it asks. A name of another host that leads to this machine makes such a page
its own; a server that only this machine reaches refuses every host but its own names.
"""

from __future__ import annotations

import re
from typing import Final

from saccade.serve.asgi import AsgiApp, Receive, Scope, Send, refuse

LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
"""Hosts that requests may name where only this machine reaches the server."""
OTHER_HOST: Final = (
    f"this server answers only to the names of its own machine ({', '.join(LOCAL_NAMES)}). Use one in the address."
)
"""Why a request that names another host is refused."""
_LOCAL: Final = re.compile(f"(?:{'|'.join(map(re.escape, LOCAL_NAMES))})(?::[0-9]*)?".encode(), re.IGNORECASE)
_OTHER_ORIGIN = b'{"detail": "no page of another site may use this server"}'


class OwnPages:
    """An ASGI application that refuses what a browser sends for a page of another site, WebSockets above all."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        origin, host = headers.get(b"origin"), headers.get(b"host", b"")
        if origin is None or is_origin_of(origin.decode("latin-1"), host.decode("latin-1")):
            await self._app(scope, receive, send)
        else:
            await refuse(scope, send, _OTHER_ORIGIN, 403)


class OwnNames:
    """An ASGI application that refuses what names another host than this machine, or none."""

    def __init__(self, app: AsgiApp, *, refusal: bytes, status: int = 400) -> None:
        """`refusal` is the JSON body, in the form of the errors of what is served."""
        self._app, self._refusal, self._status = app, refusal, status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or _names_this_machine(scope):
            await self._app(scope, receive, send)
        else:
            await refuse(scope, send, self._refusal, self._status)


def _names_this_machine(scope: Scope) -> bool:
    named = [value for name, value in scope["headers"] if name == b"host"]
    return bool(named) and all(_LOCAL.fullmatch(value) for value in named)


def is_origin_of(origin: str, host: str) -> bool:
    """Whether the header `Origin` names a page of the host that the request was sent to, whatever else it holds."""
    _, scheme, named = origin.partition("://")
    return bool(scheme) and bool(host) and named == host
