"""Writes docs/api.md: every public name with the first sentence of its docstring, in the order of `saccade.PUBLIC`.

Run it as `make map` after adding, renaming or describing a public name; a test fails while the page is out of date.
Reads the source and imports nothing but `saccade` itself, so it needs no extras.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import saccade

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "saccade"
TARGET = ROOT / "docs" / "api.md"
HEAD = """\
# Public names

What Saccade promises to Python code. A name that is not here is private: it may move or go without a line in the
changelog. Modules whose name begins with `_`, and whatever a public module does not list below, are private too.
Everything is typed (`py.typed`). Written by `make map` from the docstrings.
"""
MODULES = """\
## From modules of their own

For [parts of your own](extending.md), and to read what is stored: `from saccade.tools.base import Tool`.
"""


def api_page() -> str:
    """The page as Markdown."""
    parts = [HEAD, "## From `saccade`\n"]
    for topic, homes in saccade.PUBLIC.items():
        names = sorted((name, home) for home, listed in homes.items() for name in listed.split())
        rows = [f"| {signature(home, name)} | {sentence(home, name)} |" for name, home in names]
        parts.append(f"### {topic}\n\n| name | what it is |\n|---|---|\n" + "\n".join(rows) + "\n")
    parts.append(MODULES)
    rows = []
    for home, listed in sorted(saccade.PUBLIC_MODULES.items()):
        for name in names_of(home, listed):
            rows.append(f"| `saccade.{home}` | {signature(home, name)} | {sentence(home, name)} |")
    parts.append("| module | name | what it is |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def names_of(home: str, listed: str) -> list[str]:
    """The names that an entry of `PUBLIC_MODULES` lists; `*` is every class of the module."""
    if listed != "*":
        return listed.split()
    return [node.name for node in module(home).body if isinstance(node, ast.ClassDef)]


def module(home: str) -> ast.Module:
    """The parsed module `saccade.<home>`."""
    path = SOURCE / home.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def definition(home: str, name: str) -> tuple[ast.stmt, ast.stmt | None]:
    """The statement that defines the name, and the one behind it. Raises `LookupError` if there is none."""
    body = module(home).body
    for number, node in enumerate(body):
        behind = body[number + 1] if number + 1 < len(body) else None
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return node, behind
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return node, behind
        if isinstance(node, ast.ImportFrom) and any((item.asname or item.name) == name for item in node.names):
            return definition((node.module or "").removeprefix("saccade."), name)
    raise LookupError(f"saccade.{home} has no {name}, which `saccade` lists as public")


def signature(home: str, name: str) -> str:
    """The name, of a function with the names of its arguments."""
    node, _ = definition(home, name)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"`{name}`"
    given = node.args
    shown = [item.arg for item in (*given.posonlyargs, *given.args)]
    if given.vararg or given.kwonlyargs:
        shown.append(f"*{given.vararg.arg if given.vararg else ''}")
    shown += [item.arg for item in given.kwonlyargs]
    shown += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return f"`{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}{name}({', '.join(shown)})`"


def sentence(home: str, name: str) -> str:
    """The first sentence of the docstring; of a constant, of the text below it. Raises `LookupError` without one."""
    node, behind = definition(home, name)
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node) or ""
    else:
        literal = behind.value if isinstance(behind, ast.Expr) else None
        text = str(literal.value) if isinstance(literal, ast.Constant) else ""
    first = re.split(r"\.(?:\s|$)(?=(?:[^`]*`[^`]*`)*[^`]*$)", " ".join(text.split("\n\n")[0].split()))[0].rstrip(":")
    if not first:
        raise LookupError(f"saccade.{home}.{name} is public and has no docstring")
    return first.replace("|", r"\|")


if __name__ == "__main__":
    TARGET.write_text(api_page(), encoding="utf-8")
