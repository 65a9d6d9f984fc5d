"""Build saccade-tiny from nothing: demonstrations, tokenizer and weights, stage by stage.

    python examples/tiny/build.py --out runs/tiny --processes 2

OUT then holds demonstrations/ (run folders), untrained/ (tokenizer and first weights), stages/ (as `saccade sft` writes
them) and model/, for `saccade ask --model local:OUT/model`. The same command resumes a build that was stopped.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.main import run
from saccade.cli.train import need_training
from saccade.core.settings import load_settings
from saccade_tiny.screen import Screen
from saccade_tiny.settings import RECIPE, TinySettings

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help=__doc__)
def build(
    out: Annotated[Path, typer.Option(help="Folder of the build.")],
    recipe: Annotated[Path, typer.Argument(help="A TOML file; by default that of the bundled weights.")] = RECIPE,
    option: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="seed=1, ...")] = None,
    processes: Annotated[
        int, typer.Option(min=1, help="That draw and train: one for each GPU, or for each core of a machine without.")
    ] = 1,
) -> None:
    """Make demonstrations, tokenizer and weights, stage by stage."""
    settings = load_settings(TinySettings, recipe, option or ())
    need_training()
    from saccade_tiny.build import build as make

    screen = Screen()
    print(make(settings, out, screen, processes))
    print(f"in {screen.elapsed()} minutes")


if __name__ == "__main__":
    sys.exit(run(app, sys.argv[1:], "build.py"))
