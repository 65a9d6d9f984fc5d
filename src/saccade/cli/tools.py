"""`saccade tools`: `list` says which typed tools there are, `serve` gives them to other processes and hosts over HTTP.

The token is read as `saccade sandbox serve` reads its own, from a file or from the environment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from saccade.cli.output import AsJson, plain_console, print_json
from saccade.cli.web import read_token, serve_app

if TYPE_CHECKING:
    from saccade.tools.serving import ToolServeSettings


@dataclass(frozen=True, slots=True)
class ListedTool:
    """One line: a tool, or a paper's name for it."""

    paper: str
    """List of `saccade.tool-lists`, family and name there; empty for a tool of none."""
    tool: str
    given: dict[str, str]
    """Arguments by which it does what the paper's does."""
    state: str
    """`ready` or `unavailable`."""
    cost: str
    needs: str
    """Weights it loads or model it asks; empty for none."""
    remedy: str
    """How to have it; empty if it is ready."""
    aliases: tuple[str, ...]


def list_tools(as_json: AsJson = False) -> None:
    """List all tools, those of VISTA-Gym first: state, cost, needs, and how to have what is missing."""
    from saccade.tools.registry import warn_of_unread_tables

    warn_of_unread_tables()
    listed = list(listed_tools())
    if as_json:
        print_json(listed)
        return
    table = Table(box=None, pad_edge=False)
    for title in ("paper", "tool", "state", "cost", "needs"):
        table.add_column(title, overflow="fold")
    for item in listed:
        given = "".join(f" {name}={value}" for name, value in item.given.items())
        table.add_row(item.paper or "-", item.tool + given, item.state, item.cost, item.needs or "-")
    console = plain_console(width=None if sys.stdout.isatty() else 170)
    console.print(table)
    remedies = {item.tool: item.remedy for item in listed if item.remedy}
    if remedies:
        console.print("\nTo have those that are unavailable:", highlight=False, markup=False)
        for tool, remedy in remedies.items():
            console.print(f"  {tool}: {remedy}", highlight=False, markup=False, soft_wrap=True)


def listed_tools() -> Iterator[ListedTool]:
    """Yield the tools of each list of a paper in its order, then the others by name."""
    from saccade.tools.registry import TOOL_LISTS, TOOLS

    known = set()
    for paper in TOOL_LISTS.names():
        for item in TOOL_LISTS.load(paper):
            known.add(item.tool)
            yield _listed(item.tool, f"{paper}, {item.family}: {item.name}", dict(item.given))
    for name in TOOLS.names():
        if name not in known:
            yield _listed(name, "", {})


def _listed(name: str, paper: str, given: dict[str, str]) -> ListedTool:
    from saccade.tools.registry import make_tool

    tool = make_tool(name)
    needs, remedy = tool.needs, tool.needs.remedy
    return ListedTool(
        paper=paper,
        tool=name,
        given=given,
        state="unavailable" if remedy else "ready",
        cost=tool.cost.value,
        needs=needs.weights or ", ".join(needs.modules),
        remedy=remedy,
        aliases=tuple(alias.name for alias in tool.aliases),
    )


TOKEN_VARIABLE = "SACCADE_TOOLS_TOKEN"

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
app.command("list")(list_tools)


@app.callback()
def tools() -> None:
    """Show typed tools: which there are, what each needs, and a server of them."""


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
    from saccade.core.settings import load_settings
    from saccade.tools.serving import TOOL_SERVERS, ToolServeSettings

    serve_on = TOOL_SERVERS.load(on)
    settings = load_settings(ToolServeSettings, file, [])
    token = read_token(token_file, host, no_token=no_token, variable=TOKEN_VARIABLE)
    raise typer.Exit(serve_on(settings, token, host, port, "saccade tools: {url}"))


def serve_in_processes(settings: ToolServeSettings, token: str | None, host: str, port: int, line: str) -> int:
    """Serve in processes of this machine, as many for each group of tools as its table says. Returns the exit code."""
    from saccade.tools.serving import PooledBackend, ToolService, tools_app

    application = tools_app(ToolService(PooledBackend(settings), settings.server), token)
    return serve_app(application, host, port, line)
