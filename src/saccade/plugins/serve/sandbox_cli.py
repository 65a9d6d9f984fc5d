"""`saccade sandbox serve`: serve sandboxes of this machine to other hosts.

The token is read from a file or from the environment, never from the command line, where every user of the machine
could read it, and is never printed. The server refuses to start without one, unless only this machine can reach it and
`--no-token` says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.web import check_tables, of_table, read_tables, read_token, serve_app

if TYPE_CHECKING:
    from saccade.plugins.serve.sandbox_app import ServeSettings
    from saccade.sandbox.base import Limits

TOKEN_VARIABLE = "SACCADE_SANDBOX_TOKEN"

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.callback()
def sandbox() -> None:
    """Lend sandboxes to other hosts."""


@app.command(
    epilog="The other side: RemoteSandbox('http://host:8719'), with the same token in SACCADE_SANDBOX_TOKEN or as "
    "token=... . A token: `openssl rand -hex 32 > token; chmod 600 token`. There is no encryption: between machines, "
    "put a TLS proxy in front or use a network that you trust. Stop with Ctrl-C; every session then ends."
)
def serve(
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

    token = read_token(token_file, host, no_token=no_token, variable=TOKEN_VARIABLE)
    limits, serving = read_settings(settings, {"max_sessions": max_sessions, "idle_seconds": idle_seconds})
    application = sandbox_app(LocalSandbox(limits=limits), token=token, settings=serving)

    line = f"saccade sandbox: {{url}} (up to {serving.max_sessions} sessions; Ctrl-C ends it)"
    raise typer.Exit(serve_app(application, host, port, line))


def read_settings(file: Path | None, options: dict[str, int | float | None]) -> tuple[Limits, ServeSettings]:
    """Read limits and server settings from a TOML file, with options of the command line on top.

    Raises:
        SettingsError: the file cannot be read, or names something that does not exist.
    """
    from saccade.plugins.serve.sandbox_app import ServeSettings
    from saccade.sandbox.base import Limits

    tables = read_tables(file)
    check_tables(file, tables, "limits", "serve")
    return of_table(Limits, tables.get("limits")), of_table(ServeSettings, tables.get("serve"), options)
