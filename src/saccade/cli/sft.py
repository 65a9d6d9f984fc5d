"""`saccade sft`: train a vision-language model on the trajectories of run folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli.train_options import (
    GpuMemory,
    ModelOption,
    Out,
    PlanOption,
    Resume,
    Several,
    Shard,
    model_settings,
    need_training,
    run,
    show_plan,
)
from saccade.errors import SettingsError
from saccade.recipes.find import find_recipe, recipe_list

if TYPE_CHECKING:
    from saccade.sft.train.settings import SftSettings

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "OUT holds settings.toml (all of them, resolved), metrics.jsonl, samples.jsonl (greedy answers to held-out "
    "prompts), tensorboard/, checkpoints/, and in the end model/, which `saccade ask --model local:OUT/model` runs. "
    "With --resume the same command resumes a run that was stopped or killed, with the same result. Several GPUs: "
    "--processes N, or accelerate launch --num_processes N -m saccade sft ... Exit codes: 0 trained; 2 a setting, a "
    "file or the data are wrong; 130 stopped with Ctrl-C. docs/training.md says what each setting does."
)


@app.command(epilog=EPILOG)
def sft(
    recipe: Annotated[str, typer.Argument(help="Name of a recipe (`list` names them), or a TOML file.")],
    data: Annotated[
        list[str] | None, typer.Option(help="Run folder to learn from. May be repeated; the order counts.")
    ] = None,
    model: ModelOption = None,
    out: Out = Path("runs/sft"),
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="optimizer.learning_rate=1e-5, batch.trajectories=64, batch.tokens=8192, model.language=lora, "
            "model.vision=projector, loss.error_turns=skip, epochs=3, "
            "data.prompt_file=mine.txt, ... A wrong name suggests the right one.",
        ),
    ] = None,
    processes: Several = 1,
    shard: Shard = None,
    resume: Resume = False,
    plan: PlanOption = False,
    gpu_memory: GpuMemory = None,
) -> None:
    """Train a Qwen2.5-VL, Qwen3-VL or InternVL3 checkpoint on trajectories.

    The loss is on what the model wrote, never on what it was shown.
    """
    if recipe == "list":
        print(recipe_list("sft"))
        return
    from saccade.record.settings import load_settings
    from saccade.sft.train.settings import SftSettings

    settings = load_settings(SftSettings, find_recipe("sft", recipe), [*(option or ()), *model_settings(model, shard)])
    if data:
        settings = settings.model_copy(update={"data": settings.data.model_copy(update={"runs": tuple(data)})})
    if not settings.model.source:
        raise SettingsError("no checkpoint is named: give one with --model, or as model.source in the recipe")
    if plan:
        need_training()
        from saccade.sft.train.plan import plan_memory

        show_plan(lambda device: plan_memory(settings, processes, device), gpu_memory)
        return
    if not settings.data.runs:
        raise SettingsError("no run folder is named: give at least one with --data, or as data.runs in the recipe")
    need_training()
    run(_train, settings, out, resume, processes)


def _train(settings: SftSettings, out: Path, resume: bool) -> None:
    from transformers.utils import logging

    from saccade.cli.sft_screen import SftScreen
    from saccade.sft.train.run import train

    logging.disable_progress_bar()  # ours is there
    with SftScreen() as screen:
        train(settings, out, resume=resume, callback=screen)
