"""Repair `path_alias`: a path that the model was told about, in place of the path in the workspace."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from .base import Log, RepairContext, RepairPass


def replace_paths(tree: ast.Module, context: RepairContext, log: Log) -> None:
    """Replace string constants that are an alias, or begin with an alias and a slash."""
    if context.path_aliases:
        _Replacer(context.path_aliases, log).visit(tree)


class _Replacer(ast.NodeTransformer):
    def __init__(self, aliases: Mapping[str, str], log: Log) -> None:
        # The longest alias first: one may be the beginning of another.
        self.aliases = sorted(((old.rstrip("/") or old, new) for old, new in aliases.items()), key=lambda a: -len(a[0]))
        self.log = log

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str):
            node.value = self._replaced(node.value, alone=True)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        for index, part in enumerate(node.values):
            if isinstance(part, ast.FormattedValue):
                part.value = self.visit(part.value)  # never the format
            elif index == 0 and isinstance(part, ast.Constant) and isinstance(part.value, str):
                part.value = self._replaced(part.value, alone=len(node.values) == 1)
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Constant):
            return node  # a docstring, or a string that nobody uses
        return self.generic_visit(node)

    def _replaced(self, text: str, alone: bool) -> str:
        for old, new in self.aliases:
            if alone and text == old:
                self.log(f"the path {old} was read as {new}")
                return new
            if text.startswith(old + "/"):
                self.log(f"the path {old}/ was read as {new.rstrip('/')}/")
                return new.rstrip("/") + text[len(old) :]
        return text


PASS = RepairPass(
    "path_alias",
    "Replaces paths that the model was told about by the paths that they stand for.",
    tree=replace_paths,
)
