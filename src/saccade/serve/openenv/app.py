"""The server of the environment: OpenEnv's own HTTP and WebSocket application, with a token and a lock for browsers.

The protocol is OpenEnv's library; this says what it serves and who may reach it. There is no encryption.
"""

from __future__ import annotations

import json
from functools import partial

from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.types import ConcurrencyConfig

from saccade.serve.asgi import AsgiApp
from saccade.serve.bearer import BearerGate
from saccade.serve.openenv.environment import NAME, SessionEnvironment
from saccade.serve.openenv.settings import OpenEnvSettings
from saccade.serve.openenv.wire import LookObservation, LookState, TurnAction
from saccade.serve.own_pages import OTHER_HOST, OwnNames, OwnPages

_UNAUTHORIZED = b'{"detail": "this server asks for a token, in the header Authorization as Bearer TOKEN"}'
_OTHER_HOST = json.dumps({"detail": OTHER_HOST}).encode()


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
    named = OwnNames(app, refusal=_OTHER_HOST) if only_local else app
    return BearerGate(OwnPages(named), token, refusal=_UNAUTHORIZED, free=("/health",))
