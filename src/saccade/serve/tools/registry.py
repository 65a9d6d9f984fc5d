"""Where the tools of `saccade tools serve` run: in processes of this machine, or as another package has it.

    [project.entry-points."saccade.tool-servers"]
    mine = "my_package.server:serve_mine"

A server is a function that is called as `ToolServer` says and returns when it is stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from saccade.record.registry import Registry, described
from saccade.serve.tools.settings import ToolServeSettings

ToolServer: TypeAlias = Callable[[ToolServeSettings, str | None, str, int, str], int]
"""Serve `(settings, token, host, port, line)` until Ctrl-C or SIGTERM, and return the exit code.

`line` is printed once tools can be called, with the address in place of `{url}`; port 0 takes a free one.
"""

TOOL_SERVERS: Final = Registry[ToolServer](
    "tool-servers",
    {"processes@1": "saccade.cli.tools:serve_in_processes"},
    lambda value: "" if callable(value) else f"it is {described(value)}, which cannot be called",
)
"""Other packages add servers by the entry point group `saccade.tool-servers`."""
