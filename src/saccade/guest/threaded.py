"""Packages that start threads when they are imported, and never end them: absent in a session.

A cell that leaves a thread behind is refused, so no program could use them; others (pandas) import them where they are
there, and would be refused with them.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

THREADED = frozenset({"pyarrow"})


class _Absent(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> None:
        if name.partition(".")[0] in THREADED:
            raise ModuleNotFoundError(f"{name} starts threads that never end, so a session does not have it", name=name)


def hide_threaded() -> None:
    """Make them absent for every import to come."""
    sys.meta_path.insert(0, _Absent())
