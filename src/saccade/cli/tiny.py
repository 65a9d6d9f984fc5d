"""`saccade tiny`: build the tiny model from nothing, and examine it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.train_options import need_training
from saccade.errors import SettingsError
from saccade.recipes.find import find_recipe

if TYPE_CHECKING:
    from saccade.sft.synth.report import Progress
    from saccade.sft.train.watch import Watch

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
BUILD_EPILOG = (
    "OUT holds lessons/ (run folders), untrained/ (tokenizer, first weights), stages/ (as `saccade sft` writes them) "
    "and in the end model/, for `saccade ask --model local:OUT/model`. The same command continues a "
    "build that was broken off."
)


@app.command(epilog=BUILD_EPILOG)
def build(
    recipe: Annotated[str, typer.Argument(help="`tiny`, the recipe of the bundled weights, or a TOML file.")],
    out: Annotated[Path, typer.Option(help="Folder of the build.")],
    option: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="seed=1, ...")] = None,
    processes: Annotated[
        int, typer.Option(min=1, help="That draw and train: one for each GPU, or for each core of a machine without.")
    ] = 1,
) -> None:
    """Make lessons, tokenizer and weights, stage by stage."""
    from saccade.record.settings import load_settings
    from saccade.sft.tiny.settings import TinySettings

    settings = load_settings(TinySettings, find_recipe("tiny", recipe), option or ())
    need_training()
    from saccade.sft.tiny.build import build as make

    screen = _Screen()
    print(make(settings, out, screen, processes))
    print(f"in {screen.elapsed()} minutes")


@app.command()
def table(
    recipe: Annotated[str, typer.Argument(help="`tiny`, or a TOML file with exams.")],
    out: Annotated[Path, typer.Option(help="Folder for the episodes, table.md and table.jsonl; a new one.")],
    model: Annotated[str, typer.Option(help="As `saccade ask --model` takes it.")] = "tiny",
    n: Annotated[int, typer.Option("--n", min=1, help="Tasks of each world.")] = 50,
    start: Annotated[
        int,
        typer.Option(min=0, help="Number of the first task of the test split, for fresh seeds."),
    ] = 0,
    only: Annotated[list[str] | None, typer.Option(help="Name of an exam. May be repeated.")] = None,
) -> None:
    """Examine a model on unseen seeds, with code and without, and print the table."""
    from saccade.models.registry import load_model
    from saccade.record.settings import load_settings
    from saccade.sft.exams import Row, hold_exam
    from saccade.sft.exams import table as text_of
    from saccade.sft.tiny.settings import TinySettings

    exams = [
        exam for exam in load_settings(TinySettings, find_recipe("tiny", recipe)).exams if not only or exam.name in only
    ]
    if not exams:
        raise SettingsError(f"{recipe} has no such exam")
    if out.exists() and any(out.iterdir()):
        raise SettingsError(f"{out} holds something already; name a new folder")
    need_training()
    examined = load_model(model)

    async def all_rows() -> list[Row]:
        rows = []
        for exam in exams:
            rows.append(await hold_exam(exam, n, examined, out, start=start))
            print(json.dumps(rows[-1].as_json()), flush=True)
        await examined.close()
        return rows

    rows = asyncio.run(all_rows())
    (out / "table.jsonl").write_text("".join(json.dumps(row.as_json()) + "\n" for row in rows), encoding="utf-8")
    (out / "table.md").write_text(text_of(rows) + "\n", encoding="utf-8")
    print(text_of(rows))


class _Screen:
    """A line for every part, with the minutes before it, and now and then one for how it goes."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def elapsed(self) -> str:
        """Minutes and seconds since the screen was made."""
        minutes, seconds = divmod(round(time.monotonic() - self._began), 60)
        return f"{minutes}:{seconds:02}"

    def part(self, name: str) -> None:
        """Say what begins, and when."""
        print(f"{self.elapsed()}  {name}", flush=True)

    def lesson(self, name: str, progress: Progress) -> None:
        """Every fifth of a lesson."""
        if progress.done % max(1, progress.total // 5) == 0:
            told = f"  {name} {progress.done}/{progress.total}"
            wrong = progress.kept - progress.right
            print(told + (f", {wrong} wrong and left out" if wrong else ""), flush=True)

    def trainer(self) -> Watch:
        """Plain lines."""
        return _Lines()


class _Lines:
    """Hears a stage of training."""

    def __init__(self) -> None:
        self._every = 1

    def reading(self, trajectories: int) -> None:
        """Reading takes no time worth a line."""

    def begins(self, examples: object, done: int, total: int) -> None:
        """So that twenty lines are printed."""
        self._every = max(1, total // 20)

    def step(self, number: int, values: Mapping[str, float | int]) -> None:
        """Loss and speed."""
        if number % self._every == 0:
            print(
                f"  step {number}  loss {values['loss']:.4f}  {values['accuracy']:.1%} of the tokens right  "
                f"{values['tokens_per_second']:.0f} tokens/s",
                flush=True,
            )

    def validated(self, number: int, values: Mapping[str, float | int]) -> None:
        """The held-out tasks."""
        print(
            f"  held out: loss {values['validation_loss']:.4f}, {values['validation_accuracy']:.1%} right", flush=True
        )

    def saved(self, path: Path) -> None:
        """The stage's folder is named when it begins."""
