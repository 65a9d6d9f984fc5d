"""What a repair pass is. A pass never changes numbers or formats, and keeps every line where it is."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

Log = Callable[[str], None]
"""Called with one sentence for every repair that was made."""


@dataclass(frozen=True, slots=True)
class RepairContext:
    """What a pass may look at: the session's variables (it may bind names there) and the path aliases."""

    namespace: MutableMapping[str, Any] = field(default_factory=dict)
    path_aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RepairPass:
    """A named repair. Each stage is optional: on the text, on the syntax tree, or while the cell runs."""

    name: str
    summary: str
    text: Callable[[str, Log], str] | None = None
    """The text for the next pass; must have as many lines."""
    tree: Callable[[ast.Module, RepairContext, Log], None] | None = None
    """Changes the tree in place."""
    during: Callable[[Log], AbstractContextManager[None]] | None = None


def compiles(code: str) -> bool:
    """Whether `code` is a valid program; says nothing and warns of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(code, "<repair>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return False
    return True
