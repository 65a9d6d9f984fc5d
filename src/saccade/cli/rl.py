"""`saccade rl`: train a vision-language model on its own rollouts, as a recipe says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saccade.cli import train_options as shared
from saccade.cli.tool_option import ToolNames, with_tools
from saccade.errors import SettingsError
from saccade.recipes.find import recipe_list

if TYPE_CHECKING:
    from saccade.rl.train.settings import RlSettings
    from saccade.rl.train.trainers import OtherTrainer

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "OUT holds settings.toml (all of them, resolved), metrics.jsonl (one line for each step), samples.jsonl, "
    "rollouts/ (a run folder; `saccade show` reads it), tensorboard/, checkpoints/, and in the end model/, which "
    "`saccade ask --model local:OUT/model` runs. The same command with --resume resumes a run that was stopped or "
    "killed. Several GPUs: --processes N, or accelerate launch --num_processes N -m saccade rl ... Exit codes: 0 "
    "trained; 2 a setting, a file or the machine is wrong; 130 stopped with Ctrl-C. docs/rl.md says what each "
    "setting does."
)


@app.command(epilog=EPILOG)
def rl(
    recipe: shared.RecipeArgument,
    model: shared.ModelOption = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE[=WEIGHT]",
            help="A world, a benchmark, a file or a folder (docs/your-data.md), in place of the recipe's sources. May "
            "be repeated; with weights each has its share.",
        ),
    ] = None,
    out: shared.Out = Path("runs/rl"),
    profile: Annotated[str | None, typer.Option(help="Profile of the recipe, such as tiny.")] = None,
    tools: ToolNames = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the recipe (steps=20, optimizer.learning_rate=1e-5, rollout.group_size=16, tools, ...) "
            "or of the run (model.language=lora, generation.max_concurrency=64, validation.every=10, ...).",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Who samples the rollouts: vLLM or SGLang servers, http://host:port,..., or `vllm` for servers that "
            "the run starts and ends itself (engine.gpus)."
        ),
    ] = None,
    processes: shared.Several = 1,
    shard: shared.Shard = None,
    resume: shared.Resume = False,
    plan: shared.PlanOption = False,
    gpu_memory: shared.GpuMemory = None,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="TRAINER", help="The trainer, where it is not Saccade's own: verl on Ray (docs/engines.md)."
        ),
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="With --on verl: machines (trainer.nodes).")] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="With --on verl: GPUs of each (trainer.gpus).")] = None,
) -> None:
    """Train a checkpoint (Qwen-VL, InternVL, GLM-V, Gemma; docs/models.md) by reinforcement learning, also on verl."""
    option = with_tools(option, tools)
    if recipe == "list":
        print(recipe_list("rl"))
        return
    from saccade.rl.train.settings import load_rl_settings
    from saccade.rl.train.trainers import OtherTrainer

    named_overrides = shared.model_settings(model, shard) + ([] if not tasks else [f"tasks.source={json.dumps(tasks)}"])
    named_overrides += [] if engine is None else [f"engine.source={engine}"]
    cluster = {name: value for name, value in (("nodes", nodes), ("gpus", gpus)) if value is not None}
    if cluster and on is None:
        raise SettingsError(
            f"--{next(iter(cluster))} is for another trainer, and Saccade's own is asked for. Add --on verl, or say "
            "--processes N for N GPUs of this machine."
        )
    named_overrides += [] if on is None else [f"trainer.name={on}"]
    named_overrides += [f"trainer.{name}={value}" for name, value in cluster.items()]
    settings = load_rl_settings(recipe, profile, [*(option or ()), *named_overrides])
    if isinstance(settings.trainer, OtherTrainer):
        if gpu_memory is not None:
            raise SettingsError(f"--gpu-memory is for the plan of Saccade's own trainer; with --on {on} leave it out.")
        if processes > 1:
            raise SettingsError(
                f"--processes is for Saccade's own trainer; {on} starts its own: set --nodes and --gpus."
            )
        _elsewhere(settings.trainer, settings, out, resume, plan)
    elif plan:
        _show_plan(settings, processes, gpu_memory)
    else:
        _train_here(settings, out, resume, processes)


def _elsewhere(trainer: OtherTrainer, settings: RlSettings, out: Path, resume: bool, plan: bool) -> None:
    """Train on another trainer than Saccade's own, or with `plan` print what it will be told."""
    if plan:
        for line in trainer.plan(settings, out):
            print(line)
        return
    for note in trainer.notes(settings):
        print(f"note: {note}")
    try:
        model = trainer.train(settings, out, resume=resume)
    except KeyboardInterrupt:
        print(f"saccade: stopped. The same command with --resume continues from the last checkpoint in {out}.")
        raise
    print(f"trained: {model}")


def _show_plan(settings: RlSettings, processes: int, gpu_memory: float | None) -> None:
    from saccade.rl.train.settings import check_machine

    check_machine(settings)
    shared.need_training()
    from saccade.rl.train.plan import plan_memory

    shared.show_plan(lambda device: plan_memory(settings, processes, device), gpu_memory)


def _train_here(settings: RlSettings, out: Path, resume: bool, processes: int) -> None:
    from saccade.rl.train.settings import check_settings

    check_settings(settings)
    shared.need_training()
    shared.run(_train, settings, out, resume, processes)


def _train(settings: RlSettings, out: Path, resume: bool) -> None:
    from saccade.cli.rl_screen import RlScreen
    from saccade.rl.train.run import train

    shared.with_screen(train, RlScreen, settings, out, resume)
