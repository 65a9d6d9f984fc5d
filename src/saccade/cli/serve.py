"""`saccade serve`: agents behind OpenAI's protocol, for every client that speaks it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.ask import SETTINGS_HELP
from saccade.cli.sandbox import is_loopback, read_token
from saccade.cli.tool_option import ToolNames, with_tools
from saccade.cli.web import serve_app
from saccade.errors import SettingsError

if TYPE_CHECKING:
    from saccade.episode.asking import AskSettings
    from saccade.models.base import Model

TOKEN_VARIABLE = "SACCADE_SERVE_TOKEN"
GRACE_SECONDS = 30

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
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
    option = with_tools(option, tools)
    from saccade.cli.server_settings import check_tables, of_table, read_tables
    from saccade.episode.asking import AskSettings
    from saccade.models.registry import load_model
    from saccade.record.settings import load_settings
    from saccade.serve.agent_app import agent_app
    from saccade.serve.agent_request import AgentServeSettings
    from saccade.serve.agents import AgentPool

    names = list(dict.fromkeys(model or ["tiny"]))
    tables = read_tables(settings)
    check_tables(settings, tables, "ask", "serve")
    serving = of_table(AgentServeSettings, tables.get("serve"), {"max_requests": max_requests})
    asked = tables.get("ask")
    given = {**(asked if isinstance(asked, dict) else {}), "model": names[0]}
    overrides = [*(option or []), *(["media.allow_urls=true"] if allow_urls else [])]
    base = load_settings(AskSettings, None, [*overrides, *([f"dialect={dialect}"] if dialect else [])], given)
    if base.media.allow_urls is not allow_urls:
        raise SettingsError("media.allow_urls is set by --allow-urls here. Leave it out of the settings.")
    for name in names:
        _check_spoken(base, name)
    token = find_token(token_file, host)
    models: dict[str, Model] = {name: load_model(name, base.retry) for name in names}
    application = agent_app(
        AgentPool(models, base, serving), token=token, only_local=is_loopback(host), allow_urls=allow_urls
    )
    if token is None:
        print("saccade serve: no token is asked for, so every program of this machine may ask.", file=sys.stderr)
    listed = ", ".join(names).replace("{", "{{").replace("}", "}}")
    line = f"saccade serve: {{url}}/v1 ({listed}; Ctrl-C ends it)\nsaccade serve: {{url}}/ is the page to ask from"
    raise typer.Exit(serve_app(application, host, port, line, grace_seconds=GRACE_SECONDS))


def _check_spoken(base: AskSettings, model: str) -> None:
    """Say which dialect is spoken with the model. Raises `SettingsError` or `RegistryError` if none can be."""
    from saccade.episode.suited import check_speaks, suited
    from saccade.models.sampling import check_sampling

    settings, says = suited(base.model_copy(update={"model": model}))
    check_sampling(model, settings.sampling)
    check_speaks(model, settings.spoken()[0])
    for line in says:
        print(f"saccade serve: {line}", file=sys.stderr)


def find_token(file: Path | None, host: str) -> str | None:
    """The token; None if there is none and only this machine can reach the server.

    Raises:
        SettingsError: other machines could reach the server, and there is no token; or it is too short to be safe.
    """
    import os

    free = file is None and not os.environ.get(TOKEN_VARIABLE, "").strip() and is_loopback(host)
    return read_token(file, host, no_token=free, variable=TOKEN_VARIABLE)
