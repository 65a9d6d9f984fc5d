"""`saccade rl`: train a vision-language model on its own rollouts, as a recipe says."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Annotated

import typer

from saccade.errors import UnavailableError

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "OUT holds settings.toml (all of them, resolved), metrics.jsonl (one line for each step), samples.jsonl, rollouts/ "
    "(a run folder; `saccade show` reads it), tensorboard/, checkpoints/, and in the end model/, which `saccade ask "
    "--model local:OUT/model` runs. A run that was stopped or killed goes on with the same command and --resume. "
    "Exit codes: 0 trained; 2 a setting, a file or the machine is wrong; 130 stopped with Ctrl-C. "
    "docs/rl.md says what each setting does."
)
_NEEDED = ("torch", "transformers", "accelerate", "safetensors")


@app.command(epilog=EPILOG)
def rl(
    recipe: Annotated[Path, typer.Argument(help="TOML file of a recipe; recipes/ has some.")],
    model: Annotated[str | None, typer.Option(help="Checkpoint to begin with: a folder, or a name on the hub.")] = None,
    tasks: Annotated[str | None, typer.Option(help="A generated world, or a file or folder of tasks.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("runs/rl"),
    profile: Annotated[str | None, typer.Option(help="Profile of the recipe, such as tiny.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the recipe (steps=20, optimiser.learning_rate=1e-5, rollout.group=16, ...) or of the "
            "run (model.language=lora, play.at_once=64, validation.every=10, keep.every=5, ...).",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in OUT.")] = False,
) -> None:
    """Train a Qwen2.5-VL, Qwen3-VL or InternVL3 checkpoint by reinforcement learning on one machine."""
    for package in _NEEDED:
        if importlib.util.find_spec(package) is None:
            raise UnavailableError(f"the package `{package}` is not installed. Run: pip install 'saccade[train]'")
    # Threads of torch that wait by spinning are many times slower when sandboxes run beside them.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    from saccade.cli.rl_screen import Screen
    from saccade.rl.train.settings import check_settings, load_rl_settings

    given = [f"model.source={model}"] * (model is not None) + [f"tasks.source={tasks}"] * (tasks is not None)
    settings = load_rl_settings(recipe, profile, [*(option or ()), *given])
    check_settings(settings)

    from transformers.utils import logging

    from saccade.rl.train.run import train

    logging.disable_progress_bar()  # ours is there
    try:
        with Screen() as screen:
            train(settings, out, resume=resume, watch=screen)
    except KeyboardInterrupt:
        print(f"saccade: stopped. The same command with --resume goes on from the last checkpoint in {out}.")
        raise
