"""Which parts of the task's pictures a cell of model code cut out, read from its text without running it.

Follows what surely ran in a cell that ended well: statements one after the other, `with`, loops over known items.
Bodies of `if`, `while`, `try` and functions are not followed; what they assign is unknown afterwards. So a box that is
found was cut, but not every box is found.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from saccade.looks.expressions import Evaluator, TooLongError
from saccade.looks.views import UNKNOWN, Value, View
from saccade.record.source import parse

LONGEST: Final = 50_000
"""Characters of a cell that is read."""


@dataclass
class Reader:
    """Reads the cells of one episode in their order; names live on from cell to cell."""

    names: dict[str, Value]
    files: Mapping[str, View] = field(default_factory=dict)

    def read(self, code: str) -> tuple[View, ...]:
        """The views that `code`, which ended well, cut out; each once, in order."""
        tree = parsed(code)
        if tree is None:
            self.names.clear()
            return ()
        walk = _Walk(Evaluator(dict(self.names), self.files))
        try:
            walk.body(tree.body)
        except (RecursionError, TooLongError):
            self.names.clear()
            return ()
        self.names = walk.evaluator.names
        return tuple(dict.fromkeys(walk.evaluator.cut))

    def distrust(self, code: str) -> None:
        """`code` stopped half way and its state was kept: whatever it may have assigned is unknown."""
        tree = parsed(code)
        if tree is None:
            self.names.clear()
        else:
            forget(tree, self.names)


def parsed(code: str) -> ast.Module | None:
    """The syntax tree, or None if there is none to be had."""
    if len(code) > LONGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes in a model's strings are none of our concern
            return parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@dataclass
class _Walk:
    evaluator: Evaluator

    def body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        evaluator = self.evaluator
        match statement:
            case ast.Assign(targets=targets, value=value):
                result = evaluator.value(value)
                for target in targets:
                    evaluator.bind(target, result)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                evaluator.bind(target, evaluator.value(value))
            case ast.AugAssign(target=ast.Name(id=name) as target, op=operator, value=value):
                combined = ast.BinOp(left=ast.Name(id=name, ctx=ast.Load()), op=operator, right=value)
                evaluator.bind(target, evaluator.value(combined))
            case ast.Expr(value=value):
                evaluator.value(value)
            case ast.With(items=items, body=body):
                for item in items:
                    opened = evaluator.value(item.context_expr)
                    if item.optional_vars is not None:
                        evaluator.bind(item.optional_vars, opened)
                self.body(body)
            case ast.For(target=target, iter=source, body=body, orelse=[]):
                self._loop(target, source, body)
            case _:
                forget(statement, evaluator.names)

    def _loop(self, target: ast.expr, source: ast.expr, body: list[ast.stmt]) -> None:
        items = self.evaluator.items(source)
        leaves = any(isinstance(node, ast.Break | ast.Continue) for line in body for node in ast.walk(line))
        if items is None or leaves:
            for line in body:
                forget(line, self.evaluator.names)
            self.evaluator.bind(target, UNKNOWN)
            return
        for item in items:
            self.evaluator.count()
            self.evaluator.bind(target, item)
            self.body(body)


def forget(tree: ast.AST, names: dict[str, Value]) -> None:
    """Whatever `tree` may assign is unknown from now on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            names[node.id] = UNKNOWN
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names[node.name] = UNKNOWN
        elif isinstance(node, ast.alias) and (node.asname or node.name) in names:
            names[node.asname or node.name] = UNKNOWN
