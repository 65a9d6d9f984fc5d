"""Programs out of functions: the source of what a question needs, put together into one text for the sandbox.

So the code that an expert runs on a picture is ordinary code here, checked and tested like any other. Names are
followed as written: what is only reached by another way, such as `getattr`, is not found.
"""

from __future__ import annotations

import ast
import inspect
from functools import cache
from types import ModuleType

from saccade.record.task import parse


def compose(*modules: ModuleType, last: str) -> str:
    """Return imports and definitions that `last` needs, directly or not, then `last`, which prints the answer.

    The modules define no name twice and import nothing but each other and what the sandbox has. Of each statement of
    theirs that defines a name the source is taken as it stands, in the order of the modules.
    """
    imports: dict[str, tuple[str, frozenset[str]]] = {}
    definitions: dict[str, tuple[str, frozenset[str]]] = {}
    for module in modules:
        found = _parts(module)
        imports |= found[0]
        definitions |= found[1]
    needed: set[str] = set()
    waiting = _names(parse(last))
    while waiting:
        needed |= waiting
        used = (definitions[name][1] for name in waiting if name in definitions)
        waiting = frozenset().union(*used) - needed
    lines = sorted({imports[name][0] for name in needed & imports.keys()}, key=lambda line: (line[:4] == "from", line))
    bodies = [source for name, (source, _) in definitions.items() if name in needed]
    return "\n".join(["from __future__ import annotations", "", *lines, "", *bodies, last.strip(), ""])


Parts = dict[str, tuple[str, frozenset[str]]]
"""By the name that is bound: source, and the names that it uses."""


@cache
def _parts(module: ModuleType) -> tuple[Parts, Parts]:
    source = inspect.getsource(module)
    lines = source.splitlines()
    imports: Parts = {}
    definitions: Parts = {}
    for node in parse(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                text = ast.unparse(
                    ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], 0)
                )
                if not text.startswith(("from __future__", "from saccade", "import saccade")):
                    imports[alias.asname or alias.name] = text, frozenset()
        elif isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            text = "\n" + "\n".join(lines[first - 1 : node.end_lineno]) + "\n"
            definitions[node.name] = text, _names(node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            definitions[node.targets[0].id] = text, _names(node)
    return imports, definitions


def _names(tree: ast.AST) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
