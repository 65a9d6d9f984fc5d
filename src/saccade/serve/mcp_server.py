"""`saccade mcp`: the sandbox and the typed tools behind the Model Context Protocol, over stdio or streamable HTTP.

Written on the official package `mcp`, which speaks all versions of the protocol.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from saccade.errors import UnavailableError
from saccade.sandbox.base import Sandbox
from saccade.serve.asgi import AsgiApp
from saccade.serve.bearer import BearerGate
from saccade.serve.own_pages import LOCAL_NAMES, OTHER_HOST, OwnNames
from saccade.serve.vision_sessions import McpSettings, VisionSessions
from saccade.tools.toolbox import Toolbox

try:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp.server.transport_security import TransportSecuritySettings

    from saccade.serve.mcp_tools import McpTools
except ModuleNotFoundError as missing:
    raise UnavailableError(
        "the MCP server needs the package `mcp`, version 2.3 or later. Run: pip install 'saccade[mcp]'"
    ) from missing

_INSTRUCTIONS = (
    "A Python sandbox for looking at pictures and videos. upload puts one into a session and shows it; run_python cuts "
    "out, enlarges, measures and draws, and its pictures come back to you. Give the `session` that an answer names in "
    "your next calls, or variables and pictures will not be there."
)
_UNAUTHORIZED = (
    b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "this server asks for a token, in the header '
    b'Authorization as Bearer TOKEN"}}'
)
_OTHER_HOST = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": OTHER_HOST}}).encode()


def mcp_server(sandbox: Sandbox, toolbox: Toolbox, settings: McpSettings) -> Server[McpTools]:
    """The server, which starts `sandbox` and closes it."""

    @asynccontextmanager
    async def lifespan(_: Server[McpTools]) -> AsyncIterator[McpTools]:
        async with sandbox, VisionSessions(sandbox, toolbox, settings) as sessions:
            yield McpTools(sessions, toolbox)

    async def listed(
        context: ServerRequestContext[McpTools, Any], _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=context.lifespan_context.listed())

    async def called(
        context: ServerRequestContext[McpTools, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        return await context.lifespan_context.call(params.name, params.arguments)

    return Server(
        "saccade",
        version=importlib.metadata.version("saccade"),
        title="Saccade",
        instructions=_INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=listed,
        on_call_tool=called,
    )


async def serve_stdio(server: Server[McpTools]) -> None:
    """Serve the one client at stdin and stdout, until it closes them."""
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


def mcp_app(server: Server[McpTools], settings: McpSettings, *, token: str | None, only_local: bool) -> AsgiApp:
    """An ASGI application that speaks streamable HTTP at `/mcp`.

    `only_local`: requests that name another host than this machine are refused, so that no page of the web reaches a
    server without a token through the user's browser.

    Raises:
        SettingsError: the token is empty.
    """
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=only_local,
        allowed_hosts=[f"{name}:*" for name in LOCAL_NAMES],
        allowed_origins=[f"http://{name}:*" for name in LOCAL_NAMES],
    )
    app = server.streamable_http_app(
        transport_security=security,
        session_idle_timeout=settings.idle_seconds,
        max_request_body_size=settings.max_upload_bytes * 4 // 3 + (1 << 20),
    )
    named = OwnNames(app, refusal=_OTHER_HOST, status=421) if only_local else app
    return BearerGate(named, token, refusal=_UNAUTHORIZED)
