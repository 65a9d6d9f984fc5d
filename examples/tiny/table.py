"""Examine a model on unseen seeds, with code and without, and print the table of docs/tiny.md.

python examples/tiny/table.py --model local:runs/tiny/model --out runs/tiny-table
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.main import run
from saccade.cli.train import need_training
from saccade.core.settings import load_settings
from saccade.errors import SettingsError
from saccade.models.registry import load_model
from saccade.plugins.worlds.cli import ExamRow, hold_exam
from saccade_tiny.screen import markdown
from saccade_tiny.settings import RECIPE, TinySettings

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help=__doc__)
def table(
    out: Annotated[Path, typer.Option(help="Folder for the episodes, table.md and table.jsonl; a new one.")],
    recipe: Annotated[Path, typer.Argument(help="A TOML file with exams; by default that of saccade-tiny.")] = RECIPE,
    model: Annotated[str, typer.Option(help="As `saccade ask --model` takes it.")] = "tiny",
    n: Annotated[int, typer.Option("--n", min=1, help="Tasks of each world.")] = 50,
    start: Annotated[int, typer.Option(min=0, help="Number of the first task of the test split, for fresh seeds.")] = 0,
    only: Annotated[list[str] | None, typer.Option(help="Name of an exam. May be repeated.")] = None,
) -> None:
    """Examine a model on unseen seeds, with code and without, and print the table."""
    exams = [exam for exam in load_settings(TinySettings, recipe).exams if not only or exam.name in only]
    if not exams:
        raise SettingsError(f"{recipe} has no such exam")
    if out.exists() and any(out.iterdir()):
        raise SettingsError(f"{out} holds something already; name a new folder")
    need_training()
    examined = load_model(model)

    async def all_rows() -> list[ExamRow]:
        rows = []
        for exam in exams:
            rows.append(await hold_exam(exam, n, examined, out, start=start))
            print(json.dumps(rows[-1].as_json()), flush=True)
        await examined.close()
        return rows

    rows = asyncio.run(all_rows())
    (out / "table.jsonl").write_text("".join(json.dumps(row.as_json()) + "\n" for row in rows), encoding="utf-8")
    (out / "table.md").write_text(markdown(rows) + "\n", encoding="utf-8")
    print(markdown(rows))


if __name__ == "__main__":
    sys.exit(run(app, sys.argv[1:], "table.py"))
