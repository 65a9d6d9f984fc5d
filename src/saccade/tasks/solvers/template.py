"""The text of a program, with its names assigned in front.

A program file is a script over names that it imports from `programs/parameters.py`. Here that import gives way to
assignments, and the file's docstring goes; all else stays as it is written.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from saccade.record.source import parse

_PROGRAMS = "saccade.tasks.solvers.programs"


def program_text(name: str, assigned: Mapping[str, str]) -> str:
    """The program `name`, with every name it wants assigned to the expression given for it.

    Raises:
        ValueError: the names given are not those that the program wants.
    """
    imports, wanted, body = _split(name)
    if set(wanted) != set(assigned):
        raise ValueError(f"the program {name} wants {', '.join(wanted)}; given: {', '.join(assigned) or 'nothing'}")
    lines = "\n".join(f"{parameter} = {assigned[parameter]}" for parameter in wanted)
    return f"{imports}\n\n{lines}\n\n{body}\n"


@cache
def _split(name: str) -> tuple[str, tuple[str, ...], str]:
    """Import lines, names wanted, and the rest of a program file."""
    source = files(_PROGRAMS).joinpath(f"{name}.py").read_text(encoding="utf-8")
    lines = source.splitlines()
    nodes = parse(source).body
    place, parameters = next(
        (place, node)
        for place, node in enumerate(nodes)
        if isinstance(node, ast.ImportFrom) and node.module == f"{_PROGRAMS}.parameters"
    )
    first = nodes[1].lineno - 1
    imports = "\n".join(lines[first : parameters.lineno - 1]).strip()
    rest = "\n".join(lines[parameters.end_lineno :]).strip()
    assert place > 0, "a program opens with its docstring"
    return imports, tuple(sorted(alias.name for alias in parameters.names)), rest
