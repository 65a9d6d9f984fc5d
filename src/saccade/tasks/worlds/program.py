"""Programs out of functions: the source of Python functions, put together into one text that runs in the sandbox.

So the code that an expert runs on a picture is ordinary code here, checked and tested like any other. It does not
follow what a function calls: every function is named by the caller.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any


def compose(*parts: ModuleType | Callable[..., Any], last: str) -> str:
    """The imports that the parts' modules have, the parts' source, then `last`, which prints the answer.

    A part is a whole module or one function; no part's module may import from Saccade but by naming other parts.
    """
    imports: dict[str, None] = {}
    bodies = []
    for part in parts:
        module, wanted = (part, None) if isinstance(part, ModuleType) else (inspect.getmodule(part), part.__name__)
        if module is None:
            raise ValueError(f"{part} has no module, so no source")
        lines, body = _split(module, wanted)
        imports |= dict.fromkeys(lines)
        bodies.append(body)
    ordered = sorted(imports, key=lambda line: (line.startswith("from"), line))
    return "\n".join(["from __future__ import annotations", "", *ordered, "", "", *bodies, last.strip(), ""])


@cache
def _split(module: ModuleType, wanted: str | None) -> tuple[tuple[str, ...], str]:
    """Import lines of a module, and the source of the rest of it or of the one function `wanted`."""
    source = inspect.getsource(module)
    lines = source.splitlines()
    imports, kept = [], []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            text = ast.get_source_segment(source, node) or ""
            if not text.startswith(("from __future__", "from saccade", "import saccade")):
                imports.append(text)
        elif not _is_docstring(node) and wanted in (None, getattr(node, "name", None)):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            blank = "\n\n" if isinstance(node, ast.FunctionDef) else ""
            kept.append("\n".join(lines[first - 1 : node.end_lineno]) + "\n" + blank)
    return tuple(imports), "".join(kept)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
