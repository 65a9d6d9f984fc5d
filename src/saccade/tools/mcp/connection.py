"""A connection to an MCP server, by the official client: opened once in a process, and again when it broke.

A server that is a program is started with a small environment, as the client does it: no keys of this process.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import shlex
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final

from saccade.core.sync import in_background
from saccade.errors import ToolLostError, UnavailableError

if TYPE_CHECKING:
    from mcp import Client

TOKEN_VARIABLE: Final = "SACCADE_MCP_TOKEN"
"""Environment variable with the token of servers that are reached by their address."""
_OPEN_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 5.0

_connections: dict[tuple[int, str], McpConnection] = {}


class McpConnection:
    """To the server that `where` names, a command or an address. Its coroutines run on the loop of `in_background`."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._lock = asyncio.Lock()
        self._client: Client | None = None
        self._leave = asyncio.Event()
        self._held: asyncio.Task[None] | None = None

    @property
    def is_local(self) -> bool:
        """Whether the server is a program of this machine, which can read its files."""
        return not self.where.startswith(("http://", "https://"))

    async def client(self) -> Client:
        """The open client.

        Raises:
            ToolLostError: the server does not start, or cannot be reached.
        """
        async with self._lock:
            if self._client is None or self._held is None or self._held.done():
                await self.close()
                opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
                self._leave = asyncio.Event()
                # The client is entered and left in one task, which anyio demands; others call it.
                self._held = asyncio.create_task(self._hold(opened, self._leave))
                try:
                    self._client = await asyncio.wait_for(opened, _OPEN_SECONDS)
                except TimeoutError:
                    await self.close()
                    raise ToolLostError(f"the MCP server {self.where} did not answer in {_OPEN_SECONDS:g} s") from None
            return self._client

    async def close(self) -> None:
        """End the connection, and the server if it is a program; idempotent."""
        self._leave.set()
        opened = self._client is not None
        held, self._held, self._client = self._held, None, None
        if held is not None:
            if not opened:
                held.cancel()  # it waits for a first answer, and not to be told to leave
            done, _ = await asyncio.wait([held], timeout=_CLOSE_SECONDS)
            if not done:
                held.cancel()

    async def _hold(self, opened: asyncio.Future[Client], leave: asyncio.Event) -> None:
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(await self._made(stack))
                if not opened.done():
                    opened.set_result(client)
                await leave.wait()
        except Exception as error:  # of many kinds, and in groups
            if not opened.done():
                opened.set_exception(ToolLostError(f"the MCP server {self.where} cannot be used: {_words(error)}"))

    async def _made(self, stack: AsyncExitStack) -> Client:
        from mcp import Client, StdioServerParameters

        if self.is_local:
            command, *arguments = shlex.split(self.where)
            return Client(StdioServerParameters(command=command, args=arguments))
        token = os.environ.get(TOKEN_VARIABLE)
        if not token:
            return Client(self.where)
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        headers = {"authorization": f"Bearer {token}"}
        connection = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
        return Client(streamable_http_client(self.where, http_client=connection))


def connection_to(where: str) -> McpConnection:
    """The connection of this process to that server; not opened yet if it is new.

    Raises:
        UnavailableError: the package `mcp` is not installed.
    """
    try:
        import mcp as installed
    except ModuleNotFoundError as missing:
        raise UnavailableError(
            "tools of an MCP server need the package `mcp`. Run: pip install 'saccade[mcp]'"
        ) from missing
    assert installed is not None
    key = (os.getpid(), where)
    if key not in _connections:
        _connections[key] = McpConnection(where)
        atexit.register(_close, key)
    return _connections[key]


def _close(key: tuple[int, str]) -> None:
    if key[0] == os.getpid() and (connection := _connections.pop(key, None)) is not None:
        with suppress(Exception):
            in_background(connection.close()).result(_CLOSE_SECONDS)


def close_connections() -> None:
    """End every connection of this process."""
    for key in [key for key in _connections if key[0] == os.getpid()]:
        _close(key)


def _words(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {str(error)[:300]}"
