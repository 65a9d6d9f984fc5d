"""`saccade openenv`: the environment behind OpenEnv's protocol, for every trainer that speaks it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.ask import SETTINGS_HELP, named
from saccade.cli.output import ToolNames
from saccade.cli.web import is_loopback, read_token, serve_app

TOKEN_VARIABLE = "SACCADE_OPENENV_TOKEN"

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    epilog="Clients: SaccadeClient(base_url='http://127.0.0.1:8722') of saccade.plugins.integrations.openenv.client, "
    "or any other of OpenEnv. There is no encryption: between machines, put a TLS proxy in front. "
    "docs/openenv.md has actions and observations."
)
def openenv(
    tasks: Annotated[
        list[str] | None,
        typer.Option(help="Source of tasks: a world, a benchmark, a file, a folder. May be repeated.  [visual-search]"),
    ] = None,
    dialect: Annotated[str | None, typer.Option(help="How the agent is spoken to.  [default: pyvision]")] = None,
    rubric: Annotated[
        str | None, typer.Option(help="Reward preset.  [default: right or wrong by the task's own grader]")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 or :: for every interface.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes a free one.")] = 8722,
    token_file: Annotated[
        Path | None, typer.Option(help=f"File with the token; without it, {TOKEN_VARIABLE} is used.")
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Ask nobody for a token. Only for a loopback address.")
    ] = False,
    max_sessions: Annotated[int | None, typer.Option(min=1, help="Most sessions at once.  [default: 32]")] = None,
    settings: Annotated[Path | None, typer.Option(help="TOML file with the settings (tasks, limits, ...).")] = None,
    tools: ToolNames = None,
    option: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SETTINGS_HELP)] = None,
) -> None:
    """Serve the environment over OpenEnv's protocol, with one session for each client."""
    from saccade.core.settings import load_settings
    from saccade.plugins.integrations.openenv.environment import openenv_app
    from saccade.plugins.integrations.openenv.wire import OpenEnvSettings

    given = named(tasks=tasks, dialect=dialect, rubric=rubric, max_sessions=max_sessions, tools=tools)
    loaded = load_settings(OpenEnvSettings, settings, option or (), given)
    token = read_token(token_file, host, no_token=no_token, variable=TOKEN_VARIABLE)
    application = openenv_app(loaded, token=token, only_local=is_loopback(host))
    line = f"saccade openenv: {{url}} ({loaded.dialect}; {', '.join(loaded.tasks)}; Ctrl-C ends it)"
    raise typer.Exit(serve_app(application, host, port, line, websockets=True))
