"""Writes docs/map.md: one line per module, from the first sentence of its docstring.

Run it as `make map` after adding, renaming or describing a module; a test fails while the map is out of date.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "saccade"
TARGET = ROOT / "docs" / "map.md"
HEAD = "# File map\n\nUnder `src/saccade/`; written by `make map` from the modules' first sentences.\n\n"


def file_map() -> str:
    """The map as Markdown: a code block with a line for each module that holds code, folders first named."""
    lines = []
    modules = [path for path in sorted(SOURCE.rglob("*.py")) if path.read_text(encoding="utf-8").strip()]
    width = max(len(path.relative_to(SOURCE).as_posix()) for path in modules)
    for path in sorted(modules, key=lambda path: (path.parent, path.name != "__init__.py", path.name)):
        lines.append(f"{path.relative_to(SOURCE).as_posix():<{width}}  {first_sentence(path)}".rstrip())
    return "```\n" + "\n".join(lines) + "\n```\n"


def first_sentence(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".:")


if __name__ == "__main__":
    TARGET.write_text(HEAD + file_map(), encoding="utf-8")
