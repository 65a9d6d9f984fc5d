"""The option `--tools` of every command with episodes: names of typed tools, as `saccade.tools.named` reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, TypeAlias

import typer

ToolNames: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--tools",
        metavar="NAME",
        help="A typed tool to offer, for a dialect that calls tools: crop, my_tools.py, http://HOST:PORT (`saccade "
        "tools serve`), 'mcp:COMMAND' or mcp:URL. May be repeated; docs/tools.md.",
    ),
]


def with_tools(options: Sequence[str] | None, names: Sequence[str] | None) -> list[str]:
    """The options of `--set` with the tools that are named on top."""
    return [*(options or ()), *([f"tools={json.dumps(list(names))}"] if names else [])]
