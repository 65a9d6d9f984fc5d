"""Serves any sandbox provider over HTTP, for `RemoteSandbox`.

Everything but `/v1/health` needs the bearer token. What clients may ask for is bounded: the number of sessions, the
size of a body, the pictures kept, and the time that a session may be idle. The provider's own limits and isolation
bound what a program does. There is no encryption: put TLS in front, or keep it on a network that you trust.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from saccade.core.registry import install, own_version
from saccade.core.web import OTHER_HOST, AsgiApp, BearerGate, OwnNames, OwnPages
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
from saccade.plugins.serve.sandbox_sessions import (
    AwaitedPictures,
    ClientPicture,
    PictureStore,
    SessionError,
    SessionTable,
    verified,
)
from saccade.sandbox import remote_wire as wire
from saccade.sandbox.base import MIB, Binding, Sandbox, Session, SessionOptions
from saccade.sandbox.remote_codec import pack_result, picture_names, unpack_bindings
from saccade.sandbox.remote_wire import MEDIA_TYPE, PROTOCOL, WORKING, is_hex
from saccade.sandbox.result import PictureMode

# What a sandbox server does for each request, without HTTP: frames in, frames out.
#
# Sessions live in `SessionTable`, pictures in `PictureStore`, pictures that stay with the client in
# `AwaitedPictures`; this ties them to the provider.

T = TypeVar("T")


class ServeSettings(BaseModel):
    """Limits of a sandbox server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_sessions: int = Field(default=256, ge=1)
    """Most sessions at once, of all clients together."""
    idle_seconds: float = Field(default=1800.0, gt=0)
    """A session that is not used for so long is closed."""
    max_body_bytes: int = Field(default=512 * MIB, ge=MIB)
    """Largest message of a client."""
    answer_seconds: float = Field(default=30.0, gt=0)
    """Work that takes longer is answered with "still working", and the client asks again: it need not take a full
    server for a lost one, and no proxy between them closes a silent connection."""
    picture_bytes: int = Field(default=1024 * MIB, ge=MIB)
    """Most bytes of uploaded pictures (as PNG) that are kept."""


class MissingPicturesError(SandboxError):
    """The client has to send pixels first: `missing` by their hash, `lazy` by the client's own name."""

    def __init__(self, *, missing: list[str], lazy: list[str]) -> None:
        super().__init__("pictures are missing; send them and repeat the request.")
        self.missing = missing
        self.lazy = lazy


class SandboxService:
    """Serves sessions of a provider that is already started, by name; frames in, frames out. An async context.

    Knows nothing of HTTP.
    """

    def __init__(self, sandbox: Sandbox, settings: ServeSettings) -> None:
        self.sandbox = sandbox
        self.settings = settings
        self._table = SessionTable(settings.max_sessions, settings.idle_seconds)
        self._pictures = PictureStore(settings.picture_bytes)
        # Not the loop's own threads: the provider blocks those while it waits for pixels that arrive through here.
        self._threads = ThreadPoolExecutor(4, "saccade-serve")

    async def __aenter__(self) -> Self:
        self._needs = AwaitedPictures(self._pictures)
        self._reaper = asyncio.create_task(self._table.reap())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._reaper.cancel()
        with suppress(asyncio.CancelledError):
            await self._reaper
        self._needs.close()
        await self._table.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def sessions(self) -> int:
        return len(self._table)

    async def put_picture(self, sha256: str, png: bytes) -> None:
        """Keep a picture whose pixels have that hash."""
        self._pictures.add(await self._off_loop(lambda: verified(sha256, png)))

    async def answer_need(self, client: str, name: str, body: bytes) -> None:
        """Take an answer about pixels: a frame of `picture` (hash of uploaded pixels) or `failed` (a reason)."""
        fields, _ = wire.unpack(body)
        if "failed" in fields:
            self._needs.refuse(client, name, wire.text(fields, "failed")[:1000])
            return
        sha256 = wire.text(fields, "picture")
        pictures = self._pictures.find([sha256])
        if not pictures:
            raise MissingPicturesError(missing=[sha256], lazy=[])
        self._needs.give(client, name, pictures[sha256])

    async def open(self, client: str, name: str, body: bytes) -> None:
        """Open a session; the body is a frame of `bindings`, `files` (paths, contents as blobs) and `options`."""
        fields, blobs = wire.unpack(body)
        wire.keys(fields, frozenset({"bindings", "files", "options"}))
        paths = wire.texts(fields, "files")
        if len(paths) != len(blobs):
            raise ProtocolError("another number of files is named than is sent.")
        options = _options(fields["options"])
        bindings = await self._bindings(client, fields["bindings"])
        files = dict(zip(paths, blobs, strict=True))

        async def start() -> Session:
            return await self.sandbox.open(bindings, files=files, options=options)

        await self._table.open(name, hashlib.sha256(body).hexdigest(), start)

    async def end(self, name: str) -> None:
        """Close a session; idempotent."""
        await self._table.end(name)

    async def branch(self, name: str, body: bytes) -> None:
        fields, _ = wire.unpack(body)
        names = wire.texts(wire.keys(fields, frozenset({"names"})), "names", most=self.settings.max_sessions)
        if len(set(names)) != len(names) or not all(wire.is_hex(branch, 32) for branch in names):
            raise ProtocolError("branches need different names of 32 hexadecimal digits.")
        if names:
            await self._table.branch(name, names)

    async def run(self, client: str, name: str, number: int, body: bytes) -> bytes:
        """Run a call and return its result frame; the body is a frame of `code`, `wall_seconds` and `bindings`.

        Raises `MissingPicturesError` while the call waits for pixels of this client; the call continues meanwhile.
        """
        fields, _ = wire.unpack(body)
        wire.keys(fields, frozenset({"code", "wall_seconds", "bindings"}))
        code, seconds = wire.text(fields, "code"), wire.optional_number(fields, "wall_seconds")
        bindings = await self._bindings(client, fields["bindings"])

        async def start(session: Session) -> bytes:
            if bindings:
                session.bind(bindings)
            result = await session.run(code, wall_seconds=seconds)
            return await self._off_loop(lambda: pack_result(result))

        call = await self._table.call(name, number, start)
        needed = asyncio.create_task(self._needs.opened(client))
        try:
            await asyncio.wait({call, needed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            needed.cancel()
        if not call.done():
            raise MissingPicturesError(missing=[], lazy=self._needs.of(client))
        return await self._table.answer(name, call)

    async def cancel(self, name: str, number: int) -> None:
        await self._table.cancel(name, number)

    async def _bindings(self, client: str, fields: object) -> dict[str, Binding]:
        names = picture_names(fields)
        pictures = self._pictures.find(names)
        if len(pictures) != len(names):
            raise MissingPicturesError(missing=sorted(names - pictures.keys()), lazy=[])

        def lazy(sha256: str, mode: PictureMode, width: int, height: int) -> ClientPicture:
            return ClientPicture(client, sha256, mode, width, height, self._needs)

        return await self._off_loop(lambda: unpack_bindings(fields, pictures, lazy))

    async def _off_loop(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _options(fields: object) -> SessionOptions | None:
    if fields is None:
        return None
    try:
        return SessionOptions.model_validate(fields)
    except ValidationError as error:
        raise SettingsError(f"the session's options cannot be used: {error}") from error


try:
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
except ModuleNotFoundError as missing:
    raise UnavailableError(
        f"serving sandboxes needs Starlette and uvicorn, which are not installed. Run: {install('serve')}"
    ) from missing

_UNAUTHORIZED = b'{"error": "token", "message": "a bearer token is needed"}'
_OTHER_HOST = json.dumps({"error": "host", "message": OTHER_HOST}).encode()
_NO_TOKEN = b'{"detail": "a bearer token is needed"}'
_HEALTH = "/v1/health"
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
"""Exception -> status code and `error` of the answer; the first that fits."""


def sandbox_app(sandbox: Sandbox, *, token: str | None, settings: ServeSettings | None = None) -> AsgiApp:
    """Make an ASGI application that serves sessions of `sandbox`, which it starts and closes itself.

    With `token` None no token is required: only for a server that no other machine can reach. Then requests must name
    this machine as their host, and no page of another site may send them.

    Raises:
        SettingsError: the token is empty.
    """
    service = SandboxService(sandbox, settings or ServeSettings())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with sandbox, service:
            yield

    async def gone(_: Request, __: Exception) -> Response:
        return Response(status_code=499)

    handlers = {SaccadeError: _failure, ClientDisconnect: gone}
    app = Starlette(lifespan=lifespan, routes=_routes(service), exception_handlers=handlers)
    if token is None:  # a page in a browser of this machine must not take its place
        return OwnNames(OwnPages(app), refusal=_OTHER_HOST)
    return BearerGate(app, token, refusal=_NO_TOKEN, free=(_HEALTH,))


@dataclass(frozen=True, slots=True)
class _Asked:
    """One request, read."""

    request: Request
    body: bytes

    @property
    def client(self) -> str:
        return _hex(self.request.headers.get("x-saccade-client", ""), 32)

    @property
    def name(self) -> str:
        return _hex(self.request.path_params["name"], 32)

    @property
    def sha256(self) -> str:
        return _hex(self.request.path_params["sha256"], 64)

    @property
    def number(self) -> int:
        number: int = self.request.path_params["number"]
        if not 1 <= number < 1 << 62:
            raise ProtocolError("calls are numbered from 1.")
        return number


def _routes(service: SandboxService) -> list[Route]:
    async def health(_: Request) -> Response:
        return JSONResponse({"ok": True})  # and nothing else, since anyone may ask

    async def about(_: Request) -> Response:
        return JSONResponse(
            {
                "protocol": PROTOCOL,
                "version": own_version(),
                "limits": service.sandbox.limits.model_dump(mode="json"),
                "sessions": service.sessions,
                "max_sessions": service.settings.max_sessions,
            }
        )

    async def isolation(_: Request) -> Response:
        report = await service.sandbox.isolation()
        return Response(report.model_dump_json(), media_type="application/json")

    def route(
        method: str, path: str, work: Callable[[_Asked], Awaitable[bytes | None]], seconds: float | None = None
    ) -> Route:
        """Do `work`; if it takes longer than `seconds` it goes on, and the client sends the same request again."""

        async def answered(request: Request) -> Response:
            asked = _Asked(request, await _body(request, service.settings.max_body_bytes))
            try:
                async with asyncio.timeout(seconds) as bound:
                    frame = await work(asked)
            except TimeoutError:
                if not bound.expired():
                    raise
                return Response(status_code=WORKING)
            return Response(status_code=204) if frame is None else Response(frame, media_type=MEDIA_TYPE)

        return Route(path, answered, methods=[method])

    session, run, most = "/v1/sessions/{name}", "/v1/sessions/{name}/runs/{number:int}", service.settings.answer_seconds
    return [
        Route(_HEALTH, health),
        Route("/v1/about", about),
        Route("/v1/isolation", isolation),
        route("PUT", "/v1/media/{sha256}", lambda it: service.put_picture(it.sha256, it.body)),
        route("PUT", "/v1/lazy/{sha256}", lambda it: service.answer_need(it.client, it.sha256, it.body)),
        route("PUT", session, lambda it: service.open(it.client, it.name, it.body), most),
        route("DELETE", session, lambda it: service.end(it.name)),
        route("POST", f"{session}/branches", lambda it: service.branch(it.name, it.body), most),
        route("PUT", run, lambda it: service.run(it.client, it.name, it.number, it.body), most),
        route("DELETE", run, lambda it: service.cancel(it.name, it.number)),
    ]


def _hex(value: str, digits: int) -> str:
    if not is_hex(value, digits):
        raise ProtocolError(f"a name must be {digits} hexadecimal digits.")
    return value


async def _body(request: Request, most: int) -> bytes:
    """Read the whole body; stop as soon as it is over the limit."""
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
