"""Whether every table of the setup of tools belongs to a tool.

A warning and no error: a tool in a file of one's own, which is registered nowhere, may read a table too.
"""

from __future__ import annotations

import logging
from functools import lru_cache

from saccade.record.suggest import did_you_mean
from saccade.tools.registry import TOOLS, aliases
from saccade.tools.setup import VARIABLE, configured

_log = logging.getLogger(__name__)


def warn_of_unread_tables() -> None:
    """Log each table that no registered tool reads, once in a process. Raises as `tool_setup`."""
    for name in sorted(configured()):
        if not TOOLS.has(name):
            _warn(name)


@lru_cache(maxsize=64)
def _warn(name: str) -> None:
    known = aliases().get(name)
    hint = f"Its table is [{known}]." if known else did_you_mean(name, TOOLS.names())
    _log.warning("the setup that %s names has a table [%s], but no tool is registered so. %s", VARIABLE, name, hint)
