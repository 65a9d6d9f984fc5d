"""The server of the environment: OpenEnv's own HTTP and WebSocket application, with a token and a lock for browsers.

The protocol is OpenEnv's library; this says what it serves and who may reach it. There is no encryption.
"""

from __future__ import annotations

from functools import partial

from saccade.errors import UnavailableError
from saccade.serve.bearer import AsgiApp, BearerGate, Receive, Scope, Send
from saccade.serve.live_guard import is_origin_of
from saccade.serve.openenv.environment import NAME, SessionEnvironment
from saccade.serve.openenv.settings import OpenEnvSettings
from saccade.serve.openenv.wire import LookObservation, LookState, TurnAction

try:
    from openenv.core.env_server.http_server import create_fastapi_app
    from openenv.core.env_server.types import ConcurrencyConfig
    from starlette.middleware.trustedhost import TrustedHostMiddleware
except ModuleNotFoundError as missing:
    raise UnavailableError(
        "OpenEnv's protocol needs the package `openenv`. Run: pip install 'saccade[openenv]'"
    ) from missing

_UNAUTHORIZED = b'{"detail": "this server asks for a token, in the header Authorization as Bearer TOKEN"}'
_OTHER_ORIGIN = b'{"detail": "no page of another site may use this server"}'
_POLICY_VIOLATION = 1008


def openenv_app(settings: OpenEnvSettings, *, token: str | None, only_local: bool) -> AsgiApp:
    """The ASGI application: `/ws`, `/mcp`, `/reset`, `/step`, `/state`, `/schema`, `/metadata`, `/health`.

    One environment is made and closed first, so that settings that cannot work are refused before anybody connects.
    `only_local`: requests must name this machine as their host. Only `/health` is answered without the token.

    Raises:
        SettingsError: the token is empty, or the settings cannot work; the errors of `LookAgainEnv` too.
    """
    SessionEnvironment(settings).close()
    app = create_fastapi_app(
        partial(SessionEnvironment, settings),
        TurnAction,
        LookObservation,
        concurrency_config=ConcurrencyConfig(
            max_concurrent_envs=settings.max_sessions, session_timeout=settings.idle_seconds
        ),
        env_name=NAME,
        state_cls=LookState,
        mode="simulation",
    )
    if only_local:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost", "[::1]"])
    return BearerGate(OwnPages(app), token, refusal=_UNAUTHORIZED, free=("/health",))


class OwnPages:
    """An ASGI application that refuses what a browser sends for a page of another site, WebSockets above all."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        origin = headers.get(b"origin")
        host = headers.get(b"host", b"")
        if origin is None or is_origin_of(origin.decode("latin-1"), host.decode("latin-1")):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            await send(
                {"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"application/json")]}
            )
            await send({"type": "http.response.body", "body": _OTHER_ORIGIN})
