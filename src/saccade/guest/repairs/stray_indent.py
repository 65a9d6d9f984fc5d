"""Repair `stray_indent`: code that was cut out of an indented block.

Only code that does not compile is looked at, and a change is made only if it compiles then. Text inside of strings is
never moved, so nothing that the program prints or writes changes.
"""

from __future__ import annotations

import ast
import re
import warnings

from .base import Log, RepairPass, compiles

_WHITE = re.compile(r"[ \t]*")


def remove_indent(code: str, log: Log) -> str:
    """Remove an indent that all lines have, all but the first, or only the first."""
    if compiles(code):
        return code
    lines = code.split("\n")
    filled = [index for index, line in enumerate(lines) if line.strip()]
    if not filled:
        return code
    first = filled[0]
    for candidate, note in (
        (_all(lines), "an indent of every line was removed"),
        (_only_first(lines, first), "a stray indent of the first line was removed"),
        (_all_but_first(lines, first), "an indent of every line but the first was removed"),
    ):
        if candidate is not None and compiles(candidate):
            log(note)
            return candidate
    return code


def _all(lines: list[str]) -> str | None:
    """The code without the indent of its first line, or None if it is no indented block."""
    code = "\n".join(lines)
    first = next(line for line in lines if line.strip())
    margin = _indent(first)
    inside = _lines_inside_strings(code)
    if not margin or inside is None:
        return None
    moved = []
    for number, line in enumerate(lines, 1):
        # A comment or a continued line may be indented less than the block.
        own = _indent(line)
        cut = 0 if number in inside else len(margin) if line.startswith(margin) else len(own)
        moved.append(line[cut:])
    return "\n".join(moved)


def _only_first(lines: list[str], first: int) -> str | None:
    return "\n".join([*lines[:first], lines[first].lstrip(), *lines[first + 1 :]])


def _all_but_first(lines: list[str], first: int) -> str | None:
    """Give the first line the least indent of the others, then remove it from all."""
    rest = [_indent(line) for line in lines[first + 1 :] if line.strip() and not line.lstrip().startswith("#")]
    margin = min(rest, key=len, default="")
    if _indent(lines[first]) or not margin:
        return None
    return _all([*lines[:first], margin + lines[first], *lines[first + 1 :]])


def _lines_inside_strings(code: str) -> set[int] | None:
    """Numbers of the lines that start inside a string; None if the code is no indented block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse("if True:\n" + code)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None
    if len(tree.body) != 1:
        return None  # some lines lack the indent
    inside: set[int] = set()
    for node in ast.walk(tree):
        text = isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        )
        if text and isinstance(node, ast.expr) and node.end_lineno is not None:
            # The added first line shifts all numbers by one.
            inside.update(range(node.lineno, node.end_lineno))
    return inside


def _indent(line: str) -> str:
    match = _WHITE.match(line)
    return match.group() if match else ""


PASS = RepairPass(
    "stray_indent",
    "Removes a stray indent of the first or of all lines from code that does not compile with it.",
    text=remove_indent,
)
