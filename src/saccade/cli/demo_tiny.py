"""The second half of the demo: the model that comes with Saccade answers generated questions that it has never seen.

Nothing is written beforehand here: the model reads the question, looks or writes a program, and answers from what came
back. A few tasks of some families, with code and without; docs/tiny.md has the table over all families and more tasks.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from saccade.errors import UnavailableError

if TYPE_CHECKING:
    from saccade.sft.exams import ExamRow

TASKS = 5
"""Of each family."""
_SIGNS: dict[str, Any] = {"megapixels": (1.0, 1.4), "detail": 24, "dot_percent": 100, "plate_percent": 220}
_SIGNS |= {"signs": 7, "conjunction": 0, "clutter": 20, "grain": 0}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "visual search": ("visual-search", _SIGNS | {"kinds": ("dot",)}),
    "counting shapes": ("shape-count", {}),
    "line crossings": ("line-crossings", {}),
    "nested squares": ("nested-squares", {}),
    "rows and columns": ("grid-count", {}),
    "touching circles": ("touching-circles", {}),
}
"""World and knobs by name."""

NEEDED = ("torch", "transformers")
"""Packages of the extra `local` that are imported here."""

Tell = Callable[[str, int, int], None]
"""Hears the family, how many of its tasks were played, and how many of those were right."""


def need_packages() -> None:
    """Everything at once. Raises `UnavailableError` with all packages that are not installed."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        packages = ", ".join(f"`{name}`" for name in missing)
        raise UnavailableError(f"not installed: {packages}. Run: pip install 'saccade[local]'")


async def play_tiny(out: Path, tell: Tell = lambda name, done, right: None) -> list[ExamRow]:
    """Some tasks of the test split of each family; their episodes are kept in folders below `out`.

    Raises:
        UnavailableError: a package or the weights are not there.
    """
    need_packages()
    from saccade.models.registry import load_model
    from saccade.sft.exams import Exam, hold_exam

    model = load_model("tiny")
    rows = []
    for name, (world, knobs) in FAMILIES.items():
        exam = Exam(name=name, worlds=(world,), knobs={world: knobs})
        rows.append(await hold_exam(exam, TASKS, model, out, tell))
    await model.close()
    return rows


def print_tiny(console: Console, rows: list[ExamRow]) -> None:
    """How many were right, with code and without."""
    title = "saccade-tiny on tasks that it has not seen (the programs are its own; docs/tiny.md has more)"
    table = Table(title=title, title_justify="left")
    for column in ("family", "tasks", "right without code", "right with code"):
        table.add_column(column)
    for row in rows:
        table.add_row(row.name, str(row.tasks), str(row.without_code), str(row.with_code))
    console.print(table)
