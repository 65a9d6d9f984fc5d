"""A sandbox provider that isolates nothing, a server for any provider, and a local sandbox behind such a server."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

import httpx
from PIL import Image
from tests.prompt_uvicorn import prompt_server

from saccade.record.execution import Status
from saccade.sandbox.base import Binding, LazyImage, Limits, SessionOptions
from saccade.sandbox.isolation import Isolation, Layer, LayerState
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.remote import RemoteSandbox, RemoteSession
from saccade.sandbox.remote_codec import pixels_of
from saccade.sandbox.result import Picture, RunResult

TOKEN = "a-token-for-tests"


class FakeSession:
    """Runs code in this process. `look(name)` decodes a lazy image, `show(image)` returns one, `sleep` waits."""

    def __init__(self, sandbox: FakeSandbox, names: dict[str, Any]) -> None:
        self.sandbox = sandbox
        self.names = names
        self.closed = False
        self.cancelled = 0
        sandbox.live.add(self)

    async def run(self, code: str, *, wall_seconds: float | None = None) -> RunResult:
        self.sandbox.runs.append(code)
        if code == "sleep":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if code == "lost":
            return RunResult(Status.LOST, traceback="the zygote died")
        return await asyncio.to_thread(self._exec, code)

    def _exec(self, code: str) -> RunResult:
        shown: list[Picture] = []
        helpers = {"look": self._look, "show": lambda image: shown.append(picture(image))}
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(code, {**helpers, "names": self.names})
        except Exception as error:
            return RunResult(Status.ERROR, stdout=out.getvalue(), traceback=f"{type(error).__name__}: {error}")
        return RunResult(Status.OK, stdout=out.getvalue(), pictures=tuple(shown), committed=True)

    def _look(self, name: str) -> Any:
        value = self.names[name]
        return value.decode() if isinstance(value, LazyImage) else value

    def bind(self, bindings: Mapping[str, Binding]) -> None:
        self.names.update(bindings)

    async def branch(self, n: int) -> Sequence[FakeSession]:
        return [FakeSession(self.sandbox, dict(self.names)) for _ in range(n)]

    async def close(self) -> None:
        self.closed = True
        self.sandbox.live.discard(self)


class FakeSandbox:
    """Counts what is asked of it."""

    def __init__(self) -> None:
        self.limits = Limits(wall_seconds=5)
        self.live: set[FakeSession] = set()
        self.opened = 0
        self.runs: list[str] = []
        self.files: dict[str, bytes] = {}
        self.options: SessionOptions | None = None
        self.closed = False

    async def open(
        self,
        bindings: Mapping[str, Binding] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        options: SessionOptions | None = None,
    ) -> FakeSession:
        self.opened += 1
        self.files, self.options = dict(files or {}), options
        return FakeSession(self, dict(bindings or {}))

    async def isolation(self) -> Isolation:
        return Isolation(platform="fake", layers=(LayerState(layer=Layer.SECCOMP, on=False, detail="a fake"),))

    async def close(self) -> None:
        for session in list(self.live):
            await session.close()
        self.closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class Wire(httpx.AsyncHTTPTransport):
    """The network to one server. It can be cut, at once or after so many calls."""

    def __init__(self, calls: int | None = None) -> None:
        super().__init__()
        self.cut = False
        self._calls = calls

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._calls is not None and "/runs/" in request.url.path:
            self._calls -= 1
            self.cut = self.cut or self._calls < 0
        if self.cut:
            raise httpx.ConnectError("cut")
        return await super().handle_async_request(request)


def picture(image: Image.Image) -> Picture:
    pixels = pixels_of(image)
    assert pixels is not None
    return Picture("show", pixels.mode, pixels.width, pixels.height, pixels.data)


@asynccontextmanager
async def serving(sandbox: Any, *, token: str | None = TOKEN, port: int = 0, **settings: float) -> AsyncIterator[str]:
    """A real server of the plug-in `serve` on the loopback interface; gives its URL."""
    from saccade.plugins.serve.sandbox_app import ServeSettings, sandbox_app

    app = sandbox_app(sandbox, token=token, settings=ServeSettings.model_validate(settings))
    server = prompt_server(
        app, host="127.0.0.1", port=port, log_level="warning", ws="none", timeout_graceful_shutdown=0.5
    )
    task = asyncio.create_task(server.serve())
    while not server.started:
        if task.done():
            task.result()
            raise RuntimeError("the server ended before it started")
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


class ServedSandbox:
    """`RemoteSandbox` together with the server that it uses, which is up between entering and closing."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._stack = AsyncExitStack()
        self._client: RemoteSandbox | None = None

    async def open(self, *args: Any, **kwargs: Any) -> RemoteSession:
        assert self._client is not None
        return await self._client.open(*args, **kwargs)

    async def isolation(self) -> Isolation:
        assert self._client is not None
        return await self._client.isolation()

    async def close(self) -> None:
        await self._stack.aclose()

    async def __aenter__(self) -> Self:
        url = await self._stack.enter_async_context(serving(LocalSandbox(limits=self.limits)))
        self._client = await self._stack.enter_async_context(RemoteSandbox(url, token=TOKEN))
        assert self._client.limits == self.limits
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
