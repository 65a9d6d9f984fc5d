"""List every typed tool with its state, what it needs and what a call costs; those of a paper first, by its names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from rich.table import Table

from saccade.cli.json_output import AsJson, print_json
from saccade.cli.plain import plain_console


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
    """What it loads or asks; empty for nothing."""
    remedy: str
    """How to have it; empty if it is ready."""
    aliases: tuple[str, ...]


def list_tools(as_json: AsJson = False) -> None:
    """List all tools, those of VISTA-Gym first: state, cost, needs, and how to have what is missing."""
    from saccade.tools.setup_check import warn_of_unread_tables

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
