"""One name for the workspace, whatever its real folder is called.

A session's folder has a random name, and a branch has another folder than its origin. Programs see `/workspace` (a
link) instead, so that what they print and what they keep in variables stays true in every session and branch.
"""

from __future__ import annotations

import os
from typing import Any

from .wire import WORKSPACE_FD

_LINK = f"/proc/self/fd/{WORKSPACE_FD}"


def inside() -> str | None:
    """The current folder relative to the workspace ("" for that itself), or None for one that lies elsewhere."""
    if os.path.samestat(os.stat("."), os.fstat(WORKSPACE_FD)):
        return ""
    real, current = os.readlink(_LINK), os.readlink("/proc/self/cwd")
    return current[len(real) + 1 :] if f"{current}/".startswith(real + "/") else None


def install(alias: str) -> None:
    """Make `os.getcwd`, `os.getcwdb` and `os.path.realpath` say `alias` for the real folder of the workspace."""
    getcwd, realpath, readlink = os.getcwd, os.path.realpath, os.readlink

    def shown(path: Any) -> Any:
        try:
            real = readlink(_LINK)
        except OSError:
            return path
        if isinstance(path, bytes):
            return os.fsencode(shown(os.fsdecode(path)))
        if path == real or path.startswith(real + "/"):
            return alias + path[len(real) :]
        return path

    def alias_getcwd() -> str:
        return str(shown(getcwd()))

    def alias_getcwdb() -> bytes:
        return os.fsencode(alias_getcwd())

    def alias_realpath(filename: Any, *, strict: Any = False) -> Any:
        return shown(realpath(filename, strict=strict))

    os.getcwd, os.getcwdb = alias_getcwd, alias_getcwdb
    os.path.realpath = alias_realpath
