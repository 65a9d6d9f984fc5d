"""Which names a cell binds and which it uses; shared by the passes that bind what is missing."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator


def bound_names(tree: ast.AST) -> set[str]:
    """Every name that the code binds anywhere, in whatever scope."""
    return {name for node in ast.walk(tree) for name in _binds(node)}


def attributes_of_names(tree: ast.AST) -> dict[str, set[str]]:
    """Name -> the attributes that are read from it (`np.array` gives np -> array)."""
    attributes: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            attributes.setdefault(node.value.id, set()).add(node.attr)
    return attributes


def is_builtin(name: str) -> bool:
    """Whether Python itself has the name."""
    return name in builtins.__dict__


def _binds(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).split(".")[0]
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
    elif isinstance(node, ast.Global | ast.Nonlocal):
        yield from node.names
