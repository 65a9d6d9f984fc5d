"""A local sandbox behind a real server, and its client: one more provider for the suites."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any, Self

from tests.plugins.serve.fakes import TOKEN, serving

from saccade.sandbox.base import Limits
from saccade.sandbox.isolation import Isolation
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.remote import RemoteSandbox, RemoteSession


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
