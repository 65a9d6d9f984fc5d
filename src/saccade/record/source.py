"""Python source as a tree, from any thread.

CPython 3.11 keeps one count of depth for all threads while it makes a tree, and raises SystemError where two make one
at once (python/cpython#106905).
"""

from __future__ import annotations

import ast
from threading import Lock

_ONE_AT_A_TIME = Lock()


def parse(source: str) -> ast.Module:
    """As `ast.parse`. Raises what that raises: SyntaxError, ValueError for null bytes, RecursionError, MemoryError."""
    with _ONE_AT_A_TIME:
        return ast.parse(source)
