"""From the text of a cell to code objects: repairs, the last expression, and lines for tracebacks."""

from __future__ import annotations

import ast
import linecache
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from .config import GuestConfig
from .repairs import find_passes, repair_text, repair_tree
from .repairs.base import RepairContext, RepairPass

_sources: dict[str, list[str]] = {}
"""File name of a cell -> its lines; kept apart from `linecache`, which a program may clear."""


@dataclass
class Program:
    """A cell, ready to run. `body` or `value` may be missing; `repairs` says what was changed, and may still grow."""

    filename: str
    body: CodeType | None = None
    value: CodeType | None = None
    passes: tuple[RepairPass, ...] = ()
    repairs: list[dict[str, str]] = field(default_factory=list)

    def log(self, name: str, note: str) -> None:
        """Record a repair, once."""
        entry = {"name": name, "note": note[:1000]}
        if entry not in self.repairs and len(self.repairs) < 200:
            self.repairs.append(entry)


def prepare(program: Program, code: str, namespace: MutableMapping[str, Any], config: GuestConfig) -> None:
    """Compile `code` into `program`. Raises what the compiler raises; repairs made until then are in the program."""
    remember(program.filename, code)
    if config.repairs:
        program.passes = find_passes(config.repairs)
        code = repair_text(code, program.passes, program.log)
        remember(program.filename, code)
    tree = ast.parse(code, program.filename)
    if program.passes:
        context = RepairContext(namespace, config.path_aliases)
        repair_tree(tree, program.passes, context, program.log)
    last = tree.body[-1] if tree.body else None
    if config.last_expression and isinstance(last, ast.Expr) and not _is_silenced(code, last):
        tree.body.pop()
        program.value = compile(ast.Expression(last.value), program.filename, "eval", dont_inherit=True)
    if tree.body:
        program.body = compile(tree, program.filename, "exec", dont_inherit=True)


def remember(filename: str, code: str) -> None:
    """Keep the lines of a cell for tracebacks."""
    _sources[filename] = code.splitlines(keepends=True)
    _to_linecache(filename)


def is_cell(filename: str) -> bool:
    """Whether a code object of that file name belongs to a cell."""
    return filename in _sources


def refresh_linecache() -> None:
    """Put back what a program may have cleared."""
    for filename in _sources:
        _to_linecache(filename)


def _to_linecache(filename: str) -> None:
    lines = _sources[filename]
    cache: object = linecache.cache
    if not isinstance(cache, dict):
        cache = linecache.cache = {}  # a program has put something else there
    # Without a time of change the entry is never checked against a file.
    cache[filename] = (sum(map(len, lines)), None, lines, filename)


def _is_silenced(code: str, last: ast.Expr) -> bool:
    """Whether a semicolon follows the last expression, as in a notebook."""
    lines = code.splitlines()
    if last.end_lineno is None or last.end_col_offset is None or last.end_lineno > len(lines):
        return False
    rest = lines[last.end_lineno - 1].encode("utf-8", "replace")[last.end_col_offset :]
    return rest.lstrip().startswith(b";")
