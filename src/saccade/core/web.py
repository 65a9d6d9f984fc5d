"""The interface between a web server and an application in types, and one answer sent over it without a framework."""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from typing import Any, Final

from saccade.errors import SettingsError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_POLICY_VIOLATION = 1008


async def send_json(send: Send, body: bytes, status: int = 200, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Send one whole answer; `body` is JSON."""
    size = str(len(body)).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", size), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def refuse(
    scope: Scope, send: Send, body: bytes, status: int, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Refuse a request with `body`, or a WebSocket before it is accepted, which its client sees as 403."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
    else:
        await send_json(send, body, status, headers)


# The bearer token in front of an ASGI application: who does not show it gets a 401 and nothing else, or no WebSocket.
#
# There is no encryption here: put TLS in front of it, or keep it on a network that you trust.


class BearerGate:
    """An ASGI application that lets requests through to `app` if they show the token."""

    def __init__(self, app: AsgiApp, token: str | None, *, refusal: bytes, free: Collection[str] = ()) -> None:
        """`token` None asks nobody; `refusal` is the JSON body of the 401; `free` are paths that everybody may ask.
        Raises `SettingsError` if the token is empty.
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


# What a browser sends for a page of another site is refused: a page that someone has open drives no server here.
#
# A browser says in `Origin` for which page it asks. A name of another host that leads to this machine makes such a page
# its own; a server that only this machine reaches refuses every host but its own names.


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
    """Tell whether the header `Origin` names a page of the host that was asked, whatever else it holds."""
    _, scheme, named = origin.partition("://")
    return bool(scheme) and bool(host) and named == host
