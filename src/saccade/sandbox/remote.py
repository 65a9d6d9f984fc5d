"""`RemoteSandbox`: sessions of a `saccade sandbox serve` on another host, with the interface of the local provider.

A session is named by the client and a call by a number, so a request that is repeated is never executed twice.
Cancelling the task that awaits `run` cancels the call on the server. A picture is uploaded once, by its hash. A session
whose server cannot be reached, has restarted, or has closed it for being idle is lost for good. Nothing here encrypts:
use https, or a network that you trust.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

import httpx
from pydantic import ValidationError

from saccade.core.http import Server, checked_address, is_outage
from saccade.core.retry import SANDBOX_RETRY, OutageError, RetryPolicy, retry_after
from saccade.errors import (
    IsolationError,
    MediaError,
    ProtocolError,
    SandboxClosedError,
    SandboxError,
    SandboxFullError,
    SandboxLostError,
    SettingsError,
    TooLargeError,
)
from saccade.record.execution import Status
from saccade.sandbox import remote_wire as wire
from saccade.sandbox.base import Binding, LazyImage, Limits, SessionOptions, check_call
from saccade.sandbox.isolation import Isolation
from saccade.sandbox.remote_codec import Outgoing, RawPixels, from_lazy, prepare, snapshot, unpack_result
from saccade.sandbox.result import RunResult

TICK_SECONDS = 1.0
"""Most that counts from one look at the clock to the next, however much later that comes."""


@asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[Callable[[], None]]:
    """Let the block take `seconds` in which this process was not late itself; what is yielded begins them anew.

    By the clock, a process that plays a thousand episodes, and comes to each only every few seconds, would take servers
    for lost that answered long ago. Raises TimeoutError.
    """
    left, loop = seconds, asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def wait() -> asyncio.TimerHandle:
        step = min(TICK_SECONDS, left)
        return loop.call_later(step, count, step)

    def count(step: float) -> None:
        nonlocal left, timer
        left -= step
        if left > 0:
            timer = wait()
        else:
            bound.reschedule(loop.time())

    def renew() -> None:
        nonlocal left, timer
        timer.cancel()
        left = seconds
        timer = wait()

    async with asyncio.timeout(None) as bound:
        timer = wait()
        try:
            yield renew
        finally:
            timer.cancel()


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
        """Return the body as a JSON object; raises `ProtocolError` if it is none."""
        value = wire.parse_json(self.body)
        if not isinstance(value, dict):
            raise ProtocolError("the sandbox server did not answer with a JSON object.")
        return value


class Http:
    """One server. Not bound to an event loop until the first request. Proxies of the environment are not used.

    A failure on the way (no or a broken connection, 429, 5xx) is tried again a few times, then `SandboxLostError`; a
    server that says it still works is asked for as long as it says so.
    """

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
        """Describe it without the token."""
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
            async with patience(seconds) as renew:
                while True:
                    reply = await self._server.ask(method, path, self._checked, body, headers=headers, tries=tries)
                    if reply.code != wire.WORKING:
                        return reply
                    renew()
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
    """Return the `error` that a Saccade server states in a failure; None if there is none."""
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


ROUNDS = 5
"""How often one picture is sent for one request: the server may drop it again to make room for others."""
UPLOAD_SECONDS = 120.0


class Uploads:
    """The pictures of one client; `find_lazy` knows the lazy images of its open sessions by sha256.

    A request is first sent without pixels. If the server answers that it lacks some, they are uploaded and the request
    is repeated. Lazy images are decoded only when a guest looks at them, and once for all calls that wait for them.
    """

    def __init__(self, http: Http, find_lazy: Callable[[str], LazyImage | None]) -> None:
        self._http = http
        self._find_lazy = find_lazy
        self._answering: dict[str, asyncio.Task[None]] = {}

    async def send(self, method: str, path: str, body: bytes, outgoing: Outgoing, seconds: float) -> HttpReply:
        """Send a request, and again whenever pictures were missing; `seconds` bounds each attempt.

        Raises what `Http.request` raises, and `SandboxError` if the server drops pictures before they are used.
        """
        sent: Counter[str] = Counter()
        while True:
            reply = await self._http.request(method, path, body, seconds=seconds)
            if reply.code != 409:
                return reply
            fields = reply.json()
            missing, lazy = wire.texts(fields, "missing"), wire.texts(fields, "lazy")
            sent.update([*missing, *lazy])
            if not sent or max(sent.values()) > ROUNDS:
                raise SandboxError(
                    "the server dropped pictures before they were used; give it more room (picture_bytes in its "
                    "settings file) or bind fewer pictures at once."
                )
            for sha256 in missing:
                await self._upload(sha256, outgoing)
            await asyncio.gather(*(self._answer_once(sha256) for sha256 in lazy))

    async def _upload(self, sha256: str, outgoing: Outgoing) -> None:
        pixels = outgoing.pixels.get(sha256)
        if pixels is None:
            raise ProtocolError("the server asks for a picture that was not announced.")
        png = await asyncio.to_thread(pixels.png)
        await self._http.request("PUT", f"/v1/media/{sha256}", png, seconds=UPLOAD_SECONDS)

    async def _answer_once(self, sha256: str) -> None:
        """Answer a need, or wait for the answer that is under way for another call."""
        task = self._answering.get(sha256)
        if task is None:
            task = self._answering[sha256] = asyncio.create_task(self._answer(sha256))
            task.add_done_callback(lambda _: self._answering.pop(sha256, None))
        await asyncio.shield(task)

    async def _answer(self, sha256: str) -> None:
        path = f"/v1/lazy/{sha256}"
        lazy = self._find_lazy(sha256)
        try:
            if lazy is None:
                raise SandboxError("no open session of this client binds it any more")
            pixels = await asyncio.to_thread(_decoded, lazy)
        except Exception as error:  # `decode` is foreign code; whatever it raises goes to the guest as a failed read
            reason = f"{type(error).__name__}: {error}"
            await self._http.request("PUT", path, wire.pack({"failed": reason}), seconds=UPLOAD_SECONDS)
            return
        name = await asyncio.to_thread(pixels.sha256)
        await self.send("PUT", path, wire.pack({"picture": name}), Outgoing({}, {name: pixels}), UPLOAD_SECONDS)


def _decoded(lazy: LazyImage) -> RawPixels:
    pixels = from_lazy(lazy)
    if (pixels.width, pixels.height) != (lazy.width, lazy.height):
        raise SandboxError(
            f"the picture has {pixels.width}x{pixels.height} pixels, not the {lazy.width}x{lazy.height} that it states"
        )
    return pixels


GRACE_SECONDS = 60.0
"""Time that an answer may need beyond the wall limit of the call: waiting for a core, capturing, the network."""
OPEN_SECONDS = 120.0
ROOM_SECONDS = 5.0


class RemoteSandbox:
    """Sessions of a `saccade sandbox serve` elsewhere.

    `url` is like `http://127.0.0.1:8719`; `token` is taken from the environment variable SACCADE_SANDBOX_TOKEN unless
    given. `retry` tunes the repetition of requests; `transport` replaces the network (tests).

    Raises:
        SettingsError: the URL or the token cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        retry: RetryPolicy | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = Http(url, token, retry=retry, transport=transport)
        self._limits: Limits | None = None
        self._max_sessions = 0
        self._sessions: dict[str, RemoteSession] = {}
        self._uploads = Uploads(self._http, self._find_lazy)
        self._closed = False

    def __repr__(self) -> str:
        """Describe it without the token."""
        return f"RemoteSandbox({self._http.url!r})"

    @property
    def url(self) -> str:
        """Of the server."""
        return self._http.url

    @property
    def max_sessions(self) -> int:
        """Most sessions that the server holds, of all clients; 0 until `limits` are known."""
        return self._max_sessions

    @property
    def limits(self) -> Limits:
        """The server's limits; known once the sandbox was entered or the first session was opened."""
        if self._limits is None:
            raise SandboxError(f"the limits of {self._http.url} are not known yet; use `async with` or open a session.")
        return self._limits

    async def open(
        self,
        bindings: Mapping[str, Binding] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        options: SessionOptions | None = None,
    ) -> RemoteSession:
        """Return a new session with `bindings` as variables and `files` (relative path -> bytes) in its workspace.

        Raises:
            SandboxLostError: the server cannot be reached.
            SandboxFullError: the server holds as many sessions as it may.
            SandboxError: the token is refused, or a binding or a file cannot be used.
            SettingsError, MediaError: an option or a picture cannot be used.
        """
        await self._connect()
        taken = snapshot(bindings or {})
        outgoing = await asyncio.to_thread(prepare, taken)
        files = dict(files or {})
        fields = {
            "bindings": outgoing.fields,
            "files": list(files),
            "options": None if options is None else options.model_dump(mode="json"),
        }
        session = RemoteSession(self, secrets.token_hex(16), lazy_images(taken))
        body = wire.pack(fields, [bytes(data) for data in files.values()])
        try:
            await self._uploads.send("PUT", f"/v1/sessions/{session.id}", body, outgoing, OPEN_SECONDS)
        except BaseException:
            # The server may have opened it all the same; the name must not live on there.
            await asyncio.shield(session.close())
            raise
        return session

    async def room(self) -> int:
        """Return how many sessions more the server would open now.

        Asked once, with a short deadline.

        Raises:
            SandboxLostError: the server cannot be reached.
            ProtocolError: its answer cannot be read.
        """
        about = (await self._http.request("GET", "/v1/about", seconds=ROOM_SECONDS, tries=1)).json()
        return wire.integer(about, "max_sessions") - wire.integer(about, "sessions")

    async def isolation(self) -> Isolation:
        """Return the isolation layers that are on at the server."""
        await self._connect()
        reply = await self._http.request("GET", "/v1/isolation")
        try:
            return Isolation.model_validate_json(reply.body)
        except ValidationError as error:
            raise ProtocolError(f"the server's isolation report cannot be read: {error}") from error

    async def close(self) -> None:
        """End every session that this client opened; idempotent. A server that is gone is no error."""
        self._closed = True
        await asyncio.gather(*(session.close() for session in list(self._sessions.values())))
        await self._http.close()

    async def __aenter__(self) -> Self:
        await self._connect()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _connect(self) -> None:
        if self._closed:
            raise SandboxClosedError("this RemoteSandbox is closed; make a new one.")
        if self._limits is not None:
            return
        about = (await self._http.request("GET", "/v1/about")).json()
        if about.get("protocol") != wire.PROTOCOL:
            raise ProtocolError(
                f"{self._http.url} speaks protocol {about.get('protocol')!r}, this client {wire.PROTOCOL}; "
                "install the same version of Saccade on both sides."
            )
        self._max_sessions = wire.integer(about, "max_sessions")
        try:
            self._limits = Limits.model_validate(about.get("limits"))
        except ValidationError as error:
            raise ProtocolError(f"the server's limits cannot be read: {error}") from error

    def _find_lazy(self, sha256: str) -> LazyImage | None:
        return next((s._lazy[sha256] for s in self._sessions.values() if sha256 in s._lazy), None)


def lazy_images(bindings: Mapping[str, Binding]) -> dict[str, LazyImage]:
    """Return the lazy images among the bindings, by sha256."""
    return {value.sha256: value for value in bindings.values() if isinstance(value, LazyImage)}


class RemoteSession:
    """One interpreter on the server. Calls are run one after the other, in the order in which they were made."""

    def __init__(self, sandbox: RemoteSandbox, name: str, lazy: Mapping[str, LazyImage]) -> None:
        self.id = name
        self._sandbox = sandbox
        self._lazy = dict(lazy)
        """Lazy images that a guest of this session may come to look at, by sha256."""
        self._pending: dict[str, Binding] = {}
        self._turn = asyncio.Lock()
        self._number = 0
        self._lost: str | None = None
        self._closed = False
        self._cancelling: asyncio.Task[None] | None = None
        sandbox._sessions[name] = self

    async def run(self, code: str, *, wall_seconds: float | None = None) -> RunResult:
        """Run one cell; never raises for what the code does. `wall_seconds` may only shorten the limit.

        Status `lost` if the server cannot be reached or no longer knows the session; the session then stays lost.

        Raises:
            SandboxClosedError: the session or its sandbox is closed.
            SandboxError, MediaError: the token is refused, a value bound before this call cannot be used, or what is
                given is no code or no time.
        """
        check_call(code, wall_seconds)
        async with self._turn:
            self._check_open()
            await self._finish_cancelling()
            if self._lost is not None:
                return RunResult(Status.LOST, traceback=self._lost)
            try:
                return await self._run(code, wall_seconds)
            except SandboxLostError as error:
                self._lost = str(error)
                return RunResult(Status.LOST, traceback=self._lost)

    def bind(self, bindings: Mapping[str, Binding]) -> None:
        """Bind further names; they are there in the next call. Pictures are copied now and sent with that call."""
        self._check_open()
        taken = snapshot(bindings)
        self._pending.update(taken)
        self._lazy.update(lazy_images(taken))

    async def branch(self, n: int) -> Sequence[RemoteSession]:
        """Return `n` new sessions that start from this one's state, with what is bound but not yet used as well."""
        async with self._turn:
            self._check_open()
            await self._finish_cancelling()
            if self._lost is not None:
                raise SandboxLostError(self._lost)
            branches = [RemoteSession(self._sandbox, secrets.token_hex(16), self._lazy) for _ in range(n)]
            for branch in branches:
                branch._pending.update(self._pending)
            body = wire.pack({"names": [branch.id for branch in branches]})
            try:
                path = f"/v1/sessions/{self.id}/branches"
                await self._sandbox._http.request("POST", path, body, seconds=OPEN_SECONDS)
            except BaseException:
                await asyncio.shield(asyncio.gather(*(branch.close() for branch in branches)))
                raise
            return branches

    async def close(self) -> None:
        """End the session; idempotent, and quiet if the server is gone."""
        if self._closed:
            return
        self._closed = True
        if self._cancelling is not None:
            self._cancelling.cancel()
        self._sandbox._sessions.pop(self.id, None)
        if self._lost is None:
            await self._best_effort("DELETE", f"/v1/sessions/{self.id}")

    async def _run(self, code: str, wall_seconds: float | None) -> RunResult:
        limit = self._sandbox.limits.wall_seconds
        seconds = limit if wall_seconds is None else float(min(limit, wall_seconds))
        sent, self._pending = self._pending, {}
        self._number += 1
        path = f"/v1/sessions/{self.id}/runs/{self._number}"
        try:
            outgoing = await asyncio.to_thread(prepare, sent) if sent else Outgoing()
            fields = {"code": code, "wall_seconds": seconds, "bindings": outgoing.fields}
            body = wire.pack(fields)
            reply = await self._sandbox._uploads.send("PUT", path, body, outgoing, seconds + GRACE_SECONDS)
            return await asyncio.to_thread(unpack_result, reply.body)
        except asyncio.CancelledError:
            # A cancelled call leaves the state as it was, so what was bound for it is bound again for the next one.
            self._pending = {**sent, **self._pending}
            self._cancelling = asyncio.create_task(self._best_effort("DELETE", path))
            raise

    async def _finish_cancelling(self) -> None:
        """Wait until the server has heard of a cancelled call, so that the next call cannot overtake the news."""
        if self._cancelling is not None:
            await asyncio.shield(self._cancelling)
            self._cancelling = None

    async def _best_effort(self, method: str, path: str) -> None:
        try:
            await self._sandbox._http.request(method, path, seconds=10.0, tries=2)
        except (SandboxError, RuntimeError):
            # RuntimeError: the HTTP client was closed meanwhile. The server's idle limit ends what stays behind.
            return

    def _check_open(self) -> None:
        if self._closed or self._sandbox._closed:
            raise SandboxClosedError("this session is closed; open a new one.")
