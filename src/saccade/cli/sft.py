"""`saccade sft`: train a vision-language model on the trajectories of run folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli import train_options as shared
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
    recipe: shared.RecipeArgument,
    data: Annotated[
        list[str] | None, typer.Option(help="Run folder to learn from. May be repeated; the order counts.")
    ] = None,
    model: shared.ModelOption = None,
    out: shared.Out = Path("runs/sft"),
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
    processes: shared.Several = 1,
    shard: shared.Shard = None,
    resume: shared.Resume = False,
    plan: shared.PlanOption = False,
    gpu_memory: shared.GpuMemory = None,
) -> None:
    """Train a checkpoint (Qwen-VL, InternVL, GLM-V, Gemma; docs/models.md) on trajectories.

    The loss is on what the model wrote, never on what it was shown.
    """
    if recipe == "list":
        print(recipe_list("sft"))
        return
    from saccade.record.settings import load_settings
    from saccade.sft.train.settings import SftSettings

    settings = load_settings(
        SftSettings, find_recipe("sft", recipe), [*(option or ()), *shared.model_settings(model, shard)]
    )
    if data:
        settings = settings.model_copy(update={"data": settings.data.model_copy(update={"runs": tuple(data)})})
    if not settings.model.source:
        raise SettingsError("no checkpoint is named: give one with --model, or as model.source in the recipe")
    if plan:
        shared.need_training()
        from saccade.sft.train.plan import plan_memory

        shared.show_plan(lambda device: plan_memory(settings, processes, device), gpu_memory)
        return
    if not settings.data.runs:
        raise SettingsError("no run folder is named: give at least one with --data, or as data.runs in the recipe")
    shared.need_training()
    shared.run(_train, settings, out, resume, processes)


def _train(settings: SftSettings, out: Path, resume: bool) -> None:
    from saccade.cli.sft_screen import SftScreen
    from saccade.sft.train.run import train

    shared.with_screen(train, SftScreen, settings, out, resume)
