"""`sandbox_app`: any sandbox provider behind HTTP, for `RemoteSandbox`.

Everything but `/v1/health` needs the bearer token. What clients may ask for is bounded: the number of sessions, the
size of a body, the pictures kept, and the time that a session may be idle. The provider's own limits and isolation
bound what a program does. There is no encryption here: put TLS in front of it, or keep it on a network that you trust.
"""

from __future__ import annotations

import asyncio
import hmac
import importlib.metadata
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from saccade.errors import (
    IsolationError,
    MediaError,
    ProtocolError,
    SaccadeError,
    SandboxError,
    SandboxFullError,
    SandboxLostError,
    SettingsError,
    TooLargeError,
    UnavailableError,
)
from saccade.sandbox.base import Sandbox
from saccade.sandbox.remote_wire import MEDIA_TYPE, PROTOCOL, WORKING, is_hex
from saccade.serve.own_pages import OTHER_HOST, OwnNames, OwnPages
from saccade.serve.sandbox_service import MissingPicturesError, SandboxService, ServeSettings
from saccade.serve.sandbox_sessions import SessionError

try:
    from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
    from fastapi.responses import JSONResponse
    from starlette.requests import ClientDisconnect
except ModuleNotFoundError as missing:
    raise UnavailableError(
        "serving sandboxes needs FastAPI and uvicorn, which are not installed. Run: pip install 'saccade[serve]'"
    ) from missing

T = TypeVar("T")

_OTHER_HOST = json.dumps({"error": "host", "message": OTHER_HOST}).encode()
_SESSION_CODES = {"unknown_session": 404, "gone": 410, "conflict": 409, "cancelled": 409, "full": 429, "lost": 503}
_CODES: tuple[tuple[type[SaccadeError], int, str], ...] = (
    (ProtocolError, 400, "protocol"),
    (IsolationError, 500, "isolation"),
    (SandboxLostError, 503, "lost"),
    (SandboxFullError, 429, "full"),
    (SandboxError, 422, "sandbox"),
    (TooLargeError, 413, "too_large"),
    (MediaError, 422, "media"),
    (SettingsError, 422, "settings"),
)
"""What is raised -> status code and `error` of the answer; the first that fits."""


def sandbox_app(sandbox: Sandbox, *, token: str | None, settings: ServeSettings | None = None) -> FastAPI:
    """An ASGI application that lends out sessions of `sandbox`, which it starts and closes itself.

    `token` None means that nobody is asked for one: only for a server that no other machine can reach. Then requests
    must name this machine as their host, and no page of another site may send them.

    Raises:
        SettingsError: the token is empty.
    """
    if token is not None and not token.strip():
        raise SettingsError("the token is empty; give a long random one, for example of `openssl rand -hex 32`.")
    settings = settings or ServeSettings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with sandbox, SandboxService(sandbox, settings) as service:
            app.state.service = service
            yield

    app = FastAPI(title="Saccade sandbox", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_api_route("/v1/health", health, methods=["GET"])
    app.include_router(_routes(), dependencies=[Depends(_bearer(token))])
    app.add_exception_handler(SaccadeError, _failure)
    app.add_exception_handler(ClientDisconnect, _disconnected)
    if token is None:  # a page in a browser of this machine must not take its place
        app.add_middleware(OwnPages)
        app.add_middleware(OwnNames, refusal=_OTHER_HOST)
    return app


def _routes() -> APIRouter:
    router = APIRouter(prefix="/v1")
    for method, path, endpoint in (
        ("GET", "/about", about),
        ("GET", "/isolation", isolation),
        ("PUT", "/media/{sha256}", put_picture),
        ("PUT", "/lazy/{sha256}", answer_need),
        ("PUT", "/sessions/{name}", open_session),
        ("DELETE", "/sessions/{name}", end_session),
        ("POST", "/sessions/{name}/branches", branch_session),
        ("PUT", "/sessions/{name}/runs/{number}", run_code),
        ("DELETE", "/sessions/{name}/runs/{number}", cancel_run),
    ):
        router.add_api_route(path, endpoint, methods=[method])
    return router


def _bearer(token: str | None) -> Callable[[Request], Awaitable[None]]:
    expected = None if token is None else f"Bearer {token}".encode()

    async def check(request: Request) -> None:
        received = request.headers.get("authorization", "").encode("utf-8", "replace")
        if expected is not None and not hmac.compare_digest(received, expected):
            raise HTTPException(401, "a bearer token is needed", {"www-authenticate": "Bearer"})

    return check


async def health() -> Response:
    """Whether the server answers; tells nothing else, since everybody may ask."""
    return JSONResponse({"ok": True})


async def about(request: Request) -> Response:
    """Protocol, version, limits and how full the server is."""
    service = _service(request)
    return JSONResponse(
        {
            "protocol": PROTOCOL,
            "version": importlib.metadata.version("saccade"),
            "limits": service.sandbox.limits.model_dump(mode="json"),
            "sessions": service.sessions,
            "max_sessions": service.settings.max_sessions,
        }
    )


async def isolation(request: Request) -> Response:
    """The provider's isolation report."""
    report = await _service(request).sandbox.isolation()
    return Response(report.model_dump_json(), media_type="application/json")


async def put_picture(request: Request, sha256: str) -> Response:
    """Keep a picture (PNG) under the hash of its pixels."""
    await _service(request).put_picture(_hex(sha256, 64), await _body(request))
    return Response(status_code=204)


async def answer_need(request: Request, sha256: str) -> Response:
    """The client says which uploaded picture a lazy one is, or why there is none."""
    await _service(request).answer_need(_client(request), _hex(sha256, 64), await _body(request))
    return Response(status_code=204)


async def open_session(request: Request, name: str) -> Response:
    """Open a session under the client's name for it."""
    work = _service(request).open(_client(request), _hex(name, 32), await _body(request))
    return await _answered(request, work, lambda _: Response(status_code=204))


async def end_session(request: Request, name: str) -> Response:
    """Close a session."""
    await _service(request).end(_hex(name, 32))
    return Response(status_code=204)


async def branch_session(request: Request, name: str) -> Response:
    """Open branches of a session."""
    work = _service(request).branch(_hex(name, 32), await _body(request))
    return await _answered(request, work, lambda _: Response(status_code=204))


async def run_code(request: Request, name: str, number: int) -> Response:
    """Run a cell, or hand out what the call of that number gave."""
    work = _service(request).run(_client(request), _hex(name, 32), _call(number), await _body(request))
    return await _answered(request, work, lambda frame: Response(frame, media_type=MEDIA_TYPE))


async def cancel_run(request: Request, name: str, number: int) -> Response:
    """Cancel a call."""
    await _service(request).cancel(_hex(name, 32), _call(number))
    return Response(status_code=204)


async def _answered(request: Request, work: Coroutine[Any, Any, T], answer: Callable[[T], Response]) -> Response:
    """What `answer` makes of `work`, or that it goes on: what was begun waits for the same request to come again."""
    try:
        async with asyncio.timeout(_service(request).settings.answer_seconds) as bound:
            return answer(await work)
    except TimeoutError:
        if not bound.expired():
            raise
        return Response(status_code=WORKING)


def _service(request: Request) -> SandboxService:
    service: SandboxService = request.app.state.service
    return service


def _client(request: Request) -> str:
    return _hex(request.headers.get("x-saccade-client", ""), 32)


def _hex(value: str, digits: int) -> str:
    if not is_hex(value, digits):
        raise ProtocolError(f"a name must be {digits} hexadecimal digits.")
    return value


def _call(number: int) -> int:
    if not 1 <= number < 1 << 62:
        raise ProtocolError("calls are numbered from 1.")
    return number


async def _body(request: Request) -> bytes:
    """The whole body; stops reading as soon as it is over the limit."""
    most = _service(request).settings.max_body_bytes
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise TooLargeError(
                f"a message is over the server's limit of {most} bytes; send less, or give it a larger max_body_bytes."
            )
        parts.append(part)
    return b"".join(parts)


async def _failure(_request: Request, error: Exception) -> Response:
    if isinstance(error, MissingPicturesError):
        content = {"error": "missing_media", "message": str(error), "missing": error.missing, "lazy": error.lazy}
        return JSONResponse(content, 409)
    if isinstance(error, SessionError):
        return JSONResponse({"error": error.kind, "message": str(error)}, _SESSION_CODES[error.kind])
    for kind, code, name in _CODES:
        if isinstance(error, kind):
            return JSONResponse({"error": name, "message": str(error)}, code)
    return JSONResponse({"error": "sandbox", "message": str(error)}, 500)


async def _disconnected(_request: Request, _error: Exception) -> Response:
    return Response(status_code=499)
