"""`saccade mcp`: a sandbox for looking at pictures, for every agent that speaks the Model Context Protocol."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.sandbox import is_loopback, read_token
from saccade.cli.web import serve_app
from saccade.errors import SettingsError

if TYPE_CHECKING:
    from saccade.tools.settings import ToolCallSettings
    from saccade.tools.toolbox import Toolbox

TOKEN_VARIABLE = "SACCADE_MCP_TOKEN"
_WAIT = 20.0
"""Seconds that an agent waits for a session where the sandbox hosts are full."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    epilog="An agent starts the server itself, for example: claude mcp add saccade -- saccade mcp --folder . "
    "(docs/mcp.md has the lines for other agents). Over HTTP the address is http://HOST:PORT/mcp, and the token comes "
    "from --token-file or SACCADE_MCP_TOKEN. There is no encryption: between machines, put a TLS proxy in front."
)
def mcp(
    folder: Annotated[
        list[Path] | None,
        typer.Option(help="Folder from which pictures may be uploaded by path. May be repeated.  [default: none]"),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(
            "--tools", metavar="NAME", help="Typed tool to offer. May be repeated.  [default: all that are installed]"
        ),
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Serve over streamable HTTP and not over stdio.")] = False,
    host: Annotated[str, typer.Option(help="With --http: address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="With --http: port; 0 takes a free one.")] = 8720,
    token_file: Annotated[
        Path | None, typer.Option(help="With --http: file with the token; without it, SACCADE_MCP_TOKEN is used.")
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="With --http: ask nobody for a token. Only for a loopback address.")
    ] = False,
    sandbox: Annotated[
        str, typer.Option(help="local, or addresses of `saccade sandbox serve` with commas between them.")
    ] = "local",
    max_sessions: Annotated[int | None, typer.Option(min=1, help="Most sessions at once.  [default: 32]")] = None,
    idle_seconds: Annotated[
        float | None, typer.Option(min=1, help="A session not used for so long is closed.  [default: 1800]")
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(help="TOML file: table [limits] (fields of Limits), [mcp] (shown_pixels, ...), [tool_calls]."),
    ] = None,
) -> None:
    """Give agents a Python sandbox that shows pictures, over the Model Context Protocol."""
    from saccade.cli.server_settings import check_tables, of_table, read_tables
    from saccade.episode.settings import sandbox_at
    from saccade.sandbox.limits import Limits
    from saccade.serve.mcp_server import mcp_app, mcp_server, serve_stdio
    from saccade.serve.vision_sessions import McpSettings
    from saccade.tools.settings import ToolCallSettings

    if not http and (token_file is not None or no_token):
        raise SettingsError("--token-file and --no-token are for --http: over stdio there is one client, its owner.")
    folders = checked_folders(folder or [])
    named = {"max_sessions": max_sessions, "idle_seconds": idle_seconds, "folders": folders or None}
    tables = read_tables(settings)
    check_tables(settings, tables, "limits", "mcp", "tool_calls")
    limits, serving = of_table(Limits, tables.get("limits")), of_table(McpSettings, tables.get("mcp"), named)
    calls = of_table(ToolCallSettings, tables.get("tool_calls"))
    server = mcp_server(sandbox_at(sandbox, limits, wait=_WAIT), _toolbox(tool or [], calls), serving)
    if not http:
        asyncio.run(serve_stdio(server))
        return
    token = read_token(token_file, host, no_token=no_token, variable=TOKEN_VARIABLE)
    application = mcp_app(server, serving, token=token, only_local=is_loopback(host))
    raise typer.Exit(serve_app(application, host, port, "saccade mcp: {url}/mcp"))


def _toolbox(names: list[str], calls: ToolCallSettings) -> Toolbox:
    """The tools of these names; without names all that can be called here, and a line about the others."""
    from saccade.tools.toolbox import Toolbox

    tools = Toolbox.of(*names, calls=calls)
    missing = tools.missing()
    listed = "; ".join(f"{name} ({need})" for name, need in missing.items())
    if names and missing:
        raise SettingsError(f"not available here: {listed}. Or do not name it.")
    if missing:
        print(f"saccade mcp: not available here, so not offered: {listed}.", file=sys.stderr)
        tools = Toolbox.of(*(tool.name for tool in tools.definitions if tool.name not in missing), calls=calls)
    return tools


def checked_folders(folders: list[Path]) -> tuple[Path, ...]:
    """The folders, resolved. Raises `SettingsError` if one is none."""
    for item in folders:
        if not item.is_dir():
            raise SettingsError(f"--folder {item} is no folder. Name one that there is.")
    return tuple(item.resolve() for item in folders)
