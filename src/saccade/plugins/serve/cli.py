"""`saccade serve` (agents behind OpenAI's protocol), `saccade mcp` and `saccade sandbox` (sandboxes for others)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.ask import SETTINGS_HELP, named
from saccade.cli.output import ToolNames
from saccade.cli.web import check_tables, is_loopback, of_table, read_tables, read_token, serve_app
from saccade.errors import SettingsError

if TYPE_CHECKING:
    from saccade.episode.ask import AskSettings
    from saccade.models.base import Model
    from saccade.plugins.serve.sandbox_app import ServeSettings
    from saccade.sandbox.base import Limits
    from saccade.tools.setup import ToolCallSettings
    from saccade.tools.toolbox import Toolbox

TOKEN_VARIABLE = "SACCADE_SERVE_TOKEN"
GRACE_SECONDS = 30

serve_verb = typer.Typer(add_completion=False, rich_markup_mode=None)
mcp_verb = typer.Typer(add_completion=False, rich_markup_mode=None)


@serve_verb.command(
    epilog="Clients: OpenAI(base_url='http://127.0.0.1:8721/v1', api_key=TOKEN). Stop with Ctrl-C: what is being "
    "answered has 30 seconds, and a second Ctrl-C ends it. There is no encryption: between machines, put a TLS proxy "
    "in front. docs/serve.md has the fields of requests and answers."
)
def serve(
    model: Annotated[
        list[str] | None,
        typer.Option(help="PROVIDER:NAME, as `saccade ask` takes it. May be repeated.  [default: tiny]"),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 or :: for every interface.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes a free one.")] = 8721,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token; without it, SACCADE_SERVE_TOKEN is used.")
    ] = None,
    dialect: Annotated[str | None, typer.Option(help="Dialect of all models.  [default: what suits each]")] = None,
    allow_urls: Annotated[
        bool, typer.Option("--allow-urls", help="Fetch pictures from addresses that a request names.")
    ] = False,
    max_requests: Annotated[int | None, typer.Option(min=1, help="Most episodes at once.  [default: 64]")] = None,
    settings: Annotated[
        Path | None,
        typer.Option(help="TOML file: table [ask] (settings of `saccade ask`) and table [serve] (max_requests, ...)."),
    ] = None,
    tools: ToolNames = None,
    option: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SETTINGS_HELP)] = None,
) -> None:
    """Serve models that look again behind OpenAI's protocol: Chat Completions and Responses."""
    from saccade.core.settings import load_settings, merged
    from saccade.episode.ask import AskSettings
    from saccade.models.registry import load_model
    from saccade.plugins.serve.agent_app import agent_app
    from saccade.plugins.serve.agent_request import AgentServeSettings
    from saccade.plugins.serve.agents import AgentPool

    names = list(dict.fromkeys(model or ["tiny"]))
    tables = read_tables(settings)
    check_tables(settings, tables, "ask", "serve")
    serving = of_table(AgentServeSettings, tables.get("serve"), {"max_requests": max_requests})
    asked = tables.get("ask")
    given = merged(asked if isinstance(asked, dict) else {}, named(model=names[0], dialect=dialect, tools=tools))
    if allow_urls:
        given = merged(given, {"media": {"allow_urls": True}})
    base = load_settings(AskSettings, None, option or [], given)
    if base.media.allow_urls is not allow_urls:
        raise SettingsError("media.allow_urls is set by --allow-urls here. Leave it out of the settings.")
    for name in names:
        _check_spoken(base, name)
    token = find_token(token_file, host)
    models: dict[str, Model] = {name: load_model(name, base.retry) for name in names}
    pool = AgentPool(models, base, serving)
    application = agent_app(pool, token=token, only_local=is_loopback(host), allow_urls=allow_urls)
    if token is None:
        print("saccade serve: no token is asked for, so every program of this machine may ask.", file=sys.stderr)
    known = ", ".join(short if short == spec else f"{short} is {spec}" for short, spec in pool.specs.items())
    listed = known.replace("{", "{{").replace("}", "}}")
    line = f"saccade serve: {{url}}/v1 ({listed}; Ctrl-C ends it)\nsaccade serve: {{url}}/ is the page to ask from"
    raise typer.Exit(serve_app(application, host, port, line, grace_seconds=GRACE_SECONDS))


def _check_spoken(base: AskSettings, model: str) -> None:
    """Say which dialect is spoken with the model. Raises `SettingsError` or `RegistryError` if none can be."""
    from saccade.episode.ask import check_speaks, suited
    from saccade.models.registry import check_sampling

    settings, says = suited(base.model_copy(update={"model": model}))
    check_sampling(model, settings.sampling)
    check_speaks(model, settings.spoken()[0])
    for line in says:
        print(f"saccade serve: {line}", file=sys.stderr)


def find_token(file: Path | None, host: str) -> str | None:
    """Find the token; None if there is none and only this machine can reach the server.

    Raises `SettingsError`: other machines could reach the server, and there is no token; or it is too short to be safe.
    """
    import os

    free = file is None and not os.environ.get(TOKEN_VARIABLE, "").strip() and is_loopback(host)
    return read_token(file, host, no_token=free, variable=TOKEN_VARIABLE)


MCP_TOKEN_VARIABLE = "SACCADE_MCP_TOKEN"
_WAIT = 20.0
"""Seconds that an agent waits for a session where the sandbox hosts are full."""


@mcp_verb.command(
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
        typer.Option("--tools", metavar="NAME", help="Typed tool to offer as well. May be repeated.  [default: none]"),
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
    from saccade.episode.settings import sandbox_at
    from saccade.plugins.serve.mcp_server import mcp_app, mcp_server, serve_stdio
    from saccade.plugins.serve.vision_session import McpSettings
    from saccade.sandbox.base import Limits
    from saccade.tools.setup import ToolCallSettings

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
    token = read_token(token_file, host, no_token=no_token, variable=MCP_TOKEN_VARIABLE)
    application = mcp_app(server, serving, token=token, only_local=is_loopback(host))
    raise typer.Exit(serve_app(application, host, port, "saccade mcp: {url}/mcp"))


def _toolbox(names: list[str], calls: ToolCallSettings) -> Toolbox:
    """Load the tools of these names. Raises `SettingsError` if one lacks something here, `RegistryError` as it does."""
    from saccade.tools.toolbox import Toolbox

    tools = Toolbox.of(*names, calls=calls) if names else Toolbox(())
    if missing := tools.missing():
        listed = "; ".join(f"{name} ({need})" for name, need in missing.items())
        raise SettingsError(f"not available here: {listed}. Or do not name it.")
    return tools


def checked_folders(folders: list[Path]) -> tuple[Path, ...]:
    """Resolve the folders. Raises `SettingsError` if one is not a folder."""
    for item in folders:
        if not item.is_dir():
            raise SettingsError(f"--folder {item} is no folder. Name one that there is.")
    return tuple(item.resolve() for item in folders)


# `saccade sandbox serve`: serve sandboxes of this machine to other hosts.
#
# The token is read from a file or from the environment, never from the command line, where every user of the machine
# could read it, and is never printed. The server refuses to start without one, unless only this machine can reach it
# and `--no-token` says so.


SANDBOX_TOKEN = "SACCADE_SANDBOX_TOKEN"

sandbox_verb = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@sandbox_verb.callback()
def sandbox() -> None:
    """Lend sandboxes to other hosts."""


@sandbox_verb.command(
    "serve",
    epilog="The other side: RemoteSandbox('http://host:8719'), with the same token in SACCADE_SANDBOX_TOKEN or as "
    "token=... . A token: `openssl rand -hex 32 > token; chmod 600 token`. There is no encryption: between machines, "
    "put a TLS proxy in front or use a network that you trust. Stop with Ctrl-C; every session then ends.",
)
def serve_sandboxes(
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 or :: for every interface.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes a free one.")] = 8719,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token; without it, the variable SACCADE_SANDBOX_TOKEN is used.")
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Ask nobody for a token. Only for a loopback address.")
    ] = False,
    max_sessions: Annotated[
        int | None, typer.Option(min=1, help="Most sessions at once, of all clients.  [default: 256]")
    ] = None,
    idle_seconds: Annotated[
        float | None, typer.Option(min=1, help="A session not used for so long is closed.  [default: 1800]")
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(help="TOML file: table [limits] (fields of Limits) and table [serve] (max_body_bytes, ...)."),
    ] = None,
) -> None:
    """Lend out sandboxes of this machine over HTTP; see `saccade doctor` for what isolates them."""
    from saccade.plugins.serve.sandbox_app import sandbox_app
    from saccade.sandbox.local import LocalSandbox

    token = read_token(token_file, host, no_token=no_token, variable=SANDBOX_TOKEN)
    limits, serving = read_settings(settings, {"max_sessions": max_sessions, "idle_seconds": idle_seconds})
    application = sandbox_app(LocalSandbox(limits=limits), token=token, settings=serving)

    line = f"saccade sandbox: {{url}} (up to {serving.max_sessions} sessions; Ctrl-C ends it)"
    raise typer.Exit(serve_app(application, host, port, line))


def read_settings(file: Path | None, options: dict[str, int | float | None]) -> tuple[Limits, ServeSettings]:
    """Read limits and server settings from a TOML file, with options of the command line on top.

    Raises `SettingsError`: the file cannot be read, or names something that does not exist.
    """
    from saccade.plugins.serve.sandbox_app import ServeSettings
    from saccade.sandbox.base import Limits

    tables = read_tables(file)
    check_tables(file, tables, "limits", "serve")
    return of_table(Limits, tables.get("limits")), of_table(ServeSettings, tables.get("serve"), options)
