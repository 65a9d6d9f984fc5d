"""One tool of an MCP server as a model calls it here: checked against its schema, within a time limit, outages LOST."""

from __future__ import annotations

import asyncio
import atexit
import base64
import io
import json
import os
import re
import shlex
import tempfile
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from PIL import Image
from pydantic import ValidationError

from saccade.core.png import quick_png
from saccade.core.registry import install
from saccade.core.sync import in_background
from saccade.errors import MediaError, ToolError, ToolLostError, UnavailableError
from saccade.record.execution import Status
from saccade.tools.base import TASK, OutsideTool, done
from saccade.tools.context import Problem, ProblemKind, ToolContext, ToolPicture, ToolResult, failed
from saccade.tools.definition import Cost, Needs, ToolDefinition
from saccade.tools.setup import ToolCallSettings

if TYPE_CHECKING:
    import mcp_types as types
    from jsonschema import Draft202012Validator
    from mcp import Client, MCPError

# A connection to an MCP server, by the official client: opened once in a process, and again when it broke.
#
# A server that is a program is started with a small environment, as the client does it: no keys of this process.

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
        """Return the open client. Raises `ToolLostError` if the server does not start, or cannot be reached."""
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
    """Return the connection of this process to that server; not opened yet if it is new. Raises `UnavailableError` if
    the package `mcp` is not installed.
    """
    try:
        import mcp as installed
    except ModuleNotFoundError as missing:
        raise UnavailableError(f"tools of an MCP server need the package `mcp`. Run: {install('mcp')}") from missing
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


# Pictures into the arguments of an MCP tool, and out of its results.
#
# MCP has no type for a picture in an argument. So an argument whose whole value is the name of a picture of the episode
# is filled with that picture, as PNG: base64 where the schema says `contentEncoding: base64` or the argument's name
# ends in `base64`, `data` or `bytes`; the path of a temporary file where its name ends in `path` or `file` and the
# server is a program of this machine; a data URL otherwise.


MOST_PIXELS: Final = 40_000_000
"""Of a picture that a server sends; a larger one is left out, with a line that says so."""


def filled(
    arguments: Mapping[str, Any], schema: Mapping[str, Any], context: ToolContext, folder: Path | None
) -> dict[str, Any]:
    """Put pictures in place of their names in `arguments`; without a `folder` no paths. Raises `MediaError`."""
    properties = schema.get("properties", {})
    return {
        name: _picture(name, properties.get(name, {}), context, value, folder)
        if isinstance(value, str) and value in context.images
        else value
        for name, value in arguments.items()
    }


def wants_text(schema: Mapping[str, Any]) -> bool:
    """Return whether any argument may be a text, and so a picture."""
    return any(_may_be_text(given) for given in schema.get("properties", {}).values())


def taken(data: str) -> Image.Image | str:
    """Return the picture that a server sent as base64, or why it is left out."""
    try:
        image = Image.open(io.BytesIO(base64.b64decode(data)))
        if image.width * image.height > MOST_PIXELS:
            return f"(A picture of {image.width} × {image.height} pixels was left out: it is too large.)"
        image.load()
        return image.convert("RGB") if image.mode not in ("L", "RGB", "RGBA") else image
    except (ValueError, OSError, Image.DecompressionBombError) as error:
        return f"(A picture was left out: it cannot be read, {type(error).__name__}.)"


def _may_be_text(schema: Mapping[str, Any] | bool) -> bool:
    if isinstance(schema, bool):  # true: anything at all
        return schema
    return "string" in str(schema.get("type", schema.get("anyOf", "")))


def _picture(name: str, schema: Mapping[str, Any] | bool, context: ToolContext, value: str, folder: Path | None) -> str:
    png = quick_png(context.image(value).image)
    if folder is not None and name.lower().endswith(("path", "file")):
        path = folder / f"{value}.png"
        path.write_bytes(png)
        return str(path)
    encoded = base64.b64encode(png).decode()
    is_base64 = not isinstance(schema, bool) and schema.get("contentEncoding") == "base64"
    if is_base64 or name.lower().endswith(("base64", "data", "bytes")):
        return encoded
    return f"data:image/png;base64,{encoded}"


_NAMES = " Where it takes a picture, give the picture's name, such as image_1."
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_INVALID_PARAMS: Final = -32602
_OUTAGES: Final = (-32000, -32001)
"""Codes that the client gives itself when the connection is closed, or an answer does not come."""
_NO_ANSWERS: Final = ((-32600, "Session terminated"), (-32603, "Server returned an error response"))
"""Words of the MCP package for a server that was started anew, and for an HTTP status that is an error."""
_LIST_SECONDS: Final = 60.0
_KINDS: Final = {"required": ProblemKind.SCHEMA, "additionalProperties": ProblemKind.ARGUMENT_NAME}


class McpTool(OutsideTool):
    """See the module's head."""

    def __init__(self, connection: McpConnection, tool: types.Tool, settings: ToolCallSettings) -> None:
        self._connection, self._settings = connection, settings
        self._server_name, self._schema = tool.name, tool.input_schema
        self.name = _NO_NAME.sub("_", tool.name)
        self._arguments = _validator(connection.where, tool)
        description = " ".join((tool.description or tool.title or tool.name).split())
        self._definition = ToolDefinition(
            name=self.name,
            aliases=(),
            description=description.rstrip(".") + "." + (_NAMES if wants_text(tool.input_schema) else ""),
            parameters=dict(tool.input_schema),
            returns=dict(tool.output_schema or {}),
            needs=Needs(),
            cost=Cost.MEDIUM,
        )

    @property
    def definition(self) -> ToolDefinition:
        return self._definition

    def submit(self, arguments: object, context: ToolContext, *, alias: str | None = None) -> Future[ToolResult]:
        if not isinstance(arguments, Mapping):
            problem = Problem(ProblemKind.SCHEMA, "Arguments are a JSON object. Write them as one.")
            return done(failed(self.name, Status.ERROR, problem))
        given = {str(name): value for name, value in arguments.items()}
        if TASK not in self._schema.get("properties", {}):
            given.pop(TASK, None)  # VISTA's words next to the name of a tool
        return in_background(self._call(given, context))

    async def _call(self, given: dict[str, Any], context: ToolContext) -> ToolResult:
        with tempfile.TemporaryDirectory(prefix="saccade-mcp-") as folder:
            own = Path(folder) if self._connection.is_local else None
            try:
                arguments = await asyncio.to_thread(filled, given, self._schema, context, own)
            except MediaError as error:
                return self._lost(f"an image of the task cannot be decoded: {error}")
            if (problem := self._mistake(arguments)) is not None:
                return failed(self.name, Status.ERROR, problem)
            try:
                client = await self._connection.client()
                async with asyncio.timeout(self._settings.seconds):
                    result = await client.call_tool(self._server_name, arguments)
            except TimeoutError:
                message = f"{self.name} took longer than {self._settings.seconds:g} s. Use other arguments or tools."
                return failed(self.name, Status.TIMEOUT, Problem(ProblemKind.TOOL_FAILURE, message))
            except ToolLostError as error:
                return self._lost(str(error))
            except Exception as error:  # of many kinds: the server ended, the connection broke, an error of JSON-RPC
                return await self._broken(error)
        return await asyncio.to_thread(self._read, result, context)

    async def _broken(self, error: Exception) -> ToolResult:
        from mcp import MCPError

        if isinstance(error, MCPError) and error.code == _INVALID_PARAMS:
            return failed(self.name, Status.ERROR, Problem(ProblemKind.ARGUMENT_FORMAT, str(error)[:2000]))
        if isinstance(error, MCPError) and not _is_outage(error):  # the server is there and says no
            message = str(error)[:2000] or f"{self.name} failed."
            return failed(self.name, Status.ERROR, Problem(ProblemKind.TOOL_FAILURE, message))
        # The client raises a bare RuntimeError with the tool's name for content that breaks the schema of its results.
        if isinstance(error, ValidationError) or (isinstance(error, RuntimeError) and self._server_name in str(error)):
            return self._unusable(f"the server's answer is no result of this tool: {error}")
        await self._connection.close()  # the next call opens it anew
        return self._lost(f"{self._connection.where}: {type(error).__name__}: {str(error)[:300]}")

    def _mistake(self, arguments: Mapping[str, Any]) -> Problem | None:
        from referencing.exceptions import Unresolvable

        try:
            errors = list(self._arguments.iter_errors(arguments))
        except Unresolvable as error:
            message = f"{self.name} cannot be called: its schema refers to what it does not hold. Use another tool."
            return Problem(ProblemKind.TOOL_FAILURE, message, str(error))
        if not errors:
            return None
        lines = [f"{'.'.join(map(str, item.path)) or 'arguments'}: {item.message[:200]}" for item in errors[:4]]
        kind = _KINDS.get(str(errors[0].validator), ProblemKind.ARGUMENT_FORMAT)
        known = ", ".join(self._schema.get("properties", {}))
        return Problem(kind, f"{'; '.join(lines)}. Arguments are {known or '(none)'}.")

    def _read(self, result: types.CallToolResult, context: ToolContext) -> ToolResult:
        lines, images = [], []
        for item in result.content:
            if item.type == "text":
                lines.append(item.text)
            elif item.type == "image":
                image = taken(item.data)
                if isinstance(image, str):
                    lines.append(image)
                else:
                    images.append(image)
            else:
                lines.append(f"(Content of type {item.type} was left out.)")
        text = "\n".join(lines)
        if result.is_error:
            return failed(self.name, Status.ERROR, Problem(ProblemKind.TOOL_FAILURE, text or f"{self.name} failed."))
        try:
            json.dumps(result.structured_content, allow_nan=False)
        except ValueError as error:
            return self._unusable(f"its structured content is no JSON: {error}")
        names = context.fresh_names(self.name for _ in images)
        pictures = tuple(ToolPicture(name, image) for name, image in zip(names, images, strict=True))
        notes = [f"New image {p.name}: {p.image.width} × {p.image.height} pixels." for p in pictures]
        value = {"text": text, "structured": result.structured_content}
        return ToolResult(self.name, Status.OK, value, pictures, "\n".join([*lines, *notes]) or "(no content)")

    def _unusable(self, detail: str) -> ToolResult:
        message = f"{self.name} gave a result that cannot be used. Use another tool."
        return failed(self.name, Status.ERROR, Problem(ProblemKind.TOOL_FAILURE, message, detail))

    def _lost(self, detail: str) -> ToolResult:
        return failed(self.name, Status.LOST, Problem(ProblemKind.TOOL_FAILURE, "", detail))


def _is_outage(error: MCPError) -> bool:
    return error.code in _OUTAGES or (error.code, str(error)) in _NO_ANSWERS


def _validator(where: str, tool: types.Tool) -> Draft202012Validator:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from referencing import Registry

    if not tool.name:
        raise ToolError(f"the MCP server {where} has a tool without a name, so no model can call it. Name it there.")
    try:
        Draft202012Validator.check_schema(tool.input_schema)
    except SchemaError as error:
        raise ToolError(
            f"{tool.name} of the MCP server {where} has arguments whose schema is no JSON Schema: "
            f"{error.json_path}: {error.message}. Correct it there."
        ) from error
    # With a registry of its own, nothing that a schema refers to is fetched from the network.
    return Draft202012Validator(tool.input_schema, registry=Registry())


def mcp_tools(where: str, settings: ToolCallSettings) -> list[McpTool]:
    """Return the tools of the MCP server that is started by a command, or is at an address.

    Raises `UnavailableError`: the package `mcp` is missing, or the server cannot be used; `ToolError`: it has no tools,
    or one without a name or with a schema that is none.
    """
    connection = connection_to(where)

    async def listed() -> list[types.Tool]:
        client = await connection.client()
        tools, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools += page.tools
            if (cursor := page.next_cursor) is None:
                return tools

    from mcp import MCPError

    try:
        offered = in_background(asyncio.wait_for(listed(), _LIST_SECONDS)).result()
    except ToolLostError as error:
        raise UnavailableError(f"{error} Check the command or the address after mcp:.") from error
    except (MCPError, ValidationError, TimeoutError) as error:
        why = f"no end of it came in {_LIST_SECONDS:g} s" if isinstance(error, TimeoutError) else str(error)
        raise UnavailableError(f"the MCP server {where} gives no list of tools: {why}. Repair the server.") from error
    if not offered:
        raise ToolError(f"the MCP server {where} offers no tools.")
    return [McpTool(connection, tool, settings) for tool in offered]
