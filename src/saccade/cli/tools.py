"""`saccade tools`: `list` says which typed tools there are, `serve` gives them to other processes and hosts over HTTP.

The token is read as `saccade sandbox serve` reads its own, from a file or from the environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.sandbox import read_token
from saccade.cli.tool_list import list_tools
from saccade.cli.web import serve_app

if TYPE_CHECKING:
    from saccade.serve.tools.settings import ToolServeSettings

TOKEN_VARIABLE = "SACCADE_TOOLS_TOKEN"

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
app.command("list")(list_tools)


@app.callback()
def tools() -> None:
    """Typed tools: which there are, what each needs, and a server of them."""


@app.command(
    epilog="The other side: --tools http://HOST:PORT with the same token in SACCADE_TOOLS_TOKEN (docs/tools.md). There "
    "is no encryption: between machines, put a TLS proxy in front. Stop with Ctrl-C."
)
def serve(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[TOOLS.TOML]", help="Groups of tools; without it, every tool that is installed."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 or :: for every interface.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes a free one.")] = 8730,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token; without it, the variable SACCADE_TOOLS_TOKEN is used.")
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Ask nobody for a token. Only for a loopback address.")
    ] = False,
    on: Annotated[
        str, typer.Option(help="Where tools run: `processes` of this machine, or `ray` (Ray Serve).")
    ] = "processes",
) -> None:
    """Run typed tools for other processes and hosts."""
    from saccade.record.settings import load_settings
    from saccade.serve.tools.registry import TOOL_SERVERS
    from saccade.serve.tools.settings import ToolServeSettings

    serve_on = TOOL_SERVERS.load(on)
    settings = load_settings(ToolServeSettings, file, [])
    token = read_token(token_file, host, no_token=no_token, variable=TOKEN_VARIABLE)
    raise typer.Exit(serve_on(settings, token, host, port, "saccade tools: {url}"))


def serve_in_processes(settings: ToolServeSettings, token: str | None, host: str, port: int, line: str) -> int:
    """Processes of this machine, as many for each group of tools as its table says. Returns the exit code."""
    from saccade.serve.tools.app import ToolService, tools_app
    from saccade.serve.tools.backend import PooledBackend

    application = tools_app(ToolService(PooledBackend(settings), settings.server), token)
    return serve_app(application, host, port, line)
