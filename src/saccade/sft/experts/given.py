"""A program that first says what it was given: names, numbers and choices out of its question.

So a small model copies them at once, in the order in which they were read; the rest of the program is the same for
every question of its kind.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from saccade.record.source import parse

_FUTURE = "from __future__ import annotations\n"


class _Place(NamedTuple):
    """A stretch of a program."""

    line: int
    start: int
    end: int
    text: str
    """What stands there instead."""


def given_first(code: str, question: str, choices: Sequence[str]) -> str:
    """The program with its constants from the question in a list `asked`, and from the choices in `choices`.

    Of the choices it has all, or the first few where the program's own list has no more. Taken are texts, outside of
    functions, imports and tables; of numbers only those of the last statement. A program that has none of them stays
    as it is.
    """
    body = [node for node in parse(code).body if not isinstance(node, ast.FunctionDef | ast.Import | ast.ImportFrom)]
    constants = [item for statement in body for item in _constants(statement, choices, statement is body[-1])]
    places = {node.value: _where(node.value, question) for node in constants if isinstance(node, ast.Constant)}
    given = sorted(
        (value for value, place in places.items() if place is not None), key=lambda value: places[value] or 0
    )
    taken = [_place(code, node, f"asked[{given.index(node.value)}]") for node in _known(constants, given)]
    lists = [node for node in constants if isinstance(node, ast.List)]
    taken += [_place(code, node, "choices") for node in lists]
    most = max((len(node.elts) for node in lists), default=0)
    first = [f"asked = {given!r}\n"] * bool(given) + [f"choices = {list(choices[:most])!r}\n"] * bool(lists)
    head, future, rest = _replaced(code, taken).rpartition(_FUTURE)
    return head + future + "".join(first) + rest


def _constants(statement: ast.stmt, choices: Sequence[str], last: bool) -> Iterator[ast.Constant | ast.List]:
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.List) and node.elts and _values(node) == list(choices[: len(node.elts)]):
            yield node
            continue
        if isinstance(node, ast.Constant) and (isinstance(node.value, str) or (last and _is_number(node.value))):
            yield node
        # Keys of a table are not from the question, and the inside of an f-string has no places of its own.
        elif not isinstance(node, ast.Dict | ast.JoinedStr):
            waiting += [child for child in ast.iter_child_nodes(node) if not _is_label(node, child)]


def _is_label(node: ast.AST, child: ast.AST) -> bool:
    """Whether `child` is a word printed before something, or an index: those are not from the question either."""
    printed = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    index = isinstance(node, ast.Subscript) and _is_number(getattr(child, "value", None))
    return isinstance(child, ast.Constant) and (printed or index)


def _values(node: ast.List) -> list[object]:
    return [item.value if isinstance(item, ast.Constant) else None for item in node.elts]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _known(constants: list[ast.Constant | ast.List], given: Sequence[object]) -> Iterator[ast.Constant]:
    yield from (node for node in constants if isinstance(node, ast.Constant) and node.value in given)


def _where(value: object, question: str) -> int | None:
    """Where it stands in the question as a whole word."""
    text = str(value)
    if not text.strip():
        return None
    match = re.search(rf"(?<![\w.]){re.escape(text)}(?!\w|\.\d)", question)
    return None if match is None else match.start()


def _place(code: str, node: ast.Constant | ast.List, text: str) -> _Place:
    assert node.end_col_offset is not None
    # Columns are counted in bytes.
    line = code.splitlines()[node.lineno - 1].encode()
    start, end = (len(line[:at].decode()) for at in (node.col_offset, node.end_col_offset))
    return _Place(node.lineno - 1, start, end, text)


def _replaced(code: str, places: list[_Place]) -> str:
    lines = code.splitlines(keepends=True)
    for line, start, end, text in sorted(places, reverse=True):
        lines[line] = lines[line][:start] + text + lines[line][end:]
    return "".join(lines)
