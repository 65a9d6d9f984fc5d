"""`saccade sft`: train a vision-language model on the trajectories of run folders."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Annotated

import typer

from saccade.errors import SettingsError, UnavailableError

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "OUT holds settings.toml (all of them, resolved), metrics.jsonl, samples.jsonl (greedy answers to held-out "
    "prompts), tensorboard/, checkpoints/, and in the end model/, which `saccade ask --model local:OUT/model` runs. "
    "A run that was stopped or killed goes on with the same command and --resume, as if nothing had happened. "
    "Several GPUs: accelerate launch --num_processes N $(command -v saccade) sft ... "
    "Exit codes: 0 trained; 2 a setting, a file or the data are wrong; 130 stopped with Ctrl-C. "
    "docs/training.md says what each setting does."
)
_NEEDED = ("torch", "transformers", "accelerate", "safetensors")


@app.command(epilog=EPILOG)
def sft(
    recipe: Annotated[Path, typer.Argument(help="TOML file with settings; recipes/sft/ has some.")],
    data: Annotated[
        list[str] | None, typer.Option(help="Run folder to learn from. May be repeated; the order counts.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Checkpoint: a folder, or a name on the hub.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("runs/sft"),
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="optimiser.learning_rate=1e-5, batch.trajectories=64, batch.tokens=8192, model.language=lora, "
            "model.vision=projector, loss.error_turns=skip, epochs=3, ... A wrong name suggests the right one.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in OUT.")] = False,
) -> None:
    """Train a Qwen2.5-VL, Qwen3-VL or InternVL3 checkpoint on trajectories.

    The loss is on what the model wrote, never on what it was shown.
    """
    for package in _NEEDED:
        if importlib.util.find_spec(package) is None:
            raise UnavailableError(f"the package `{package}` is not installed. Run: pip install 'saccade[train]'")
    # Threads of torch that wait by spinning are many times slower when anything else runs on the machine.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    from saccade.cli.sft_screen import Screen
    from saccade.record.settings import load_settings
    from saccade.sft.train.settings import SftSettings

    settings = load_settings(SftSettings, recipe, option or ())
    if data:
        settings = settings.model_copy(update={"data": settings.data.model_copy(update={"runs": tuple(data)})})
    if model:
        settings = settings.model_copy(update={"model": settings.model.model_copy(update={"source": model})})
    if not settings.model.source:
        raise SettingsError("no checkpoint is named: give one with --model, or as model.source in the recipe")
    if not settings.data.runs:
        raise SettingsError("no run folder is named: give at least one with --data, or as data.runs in the recipe")

    from transformers.utils import logging

    from saccade.sft.train.run import train

    logging.disable_progress_bar()  # ours is there
    try:
        with Screen() as screen:
            train(settings, out, resume=resume, watch=screen)
    except KeyboardInterrupt:
        print(f"saccade: stopped. The same command with --resume goes on from the last checkpoint in {out}.")
        raise
