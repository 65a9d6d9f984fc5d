"""What `saccade sft` and `saccade rl` share: options, what must be installed, how a run is started and interrupted."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from saccade.cli.logs import logged
from saccade.errors import SettingsError, UnavailableError
from saccade.models.registry import checkpoint_named

if TYPE_CHECKING:
    from saccade.cli.train_screen import TrainScreen
    from saccade.training.memory.plan import MemoryPlan

RecipeArgument: TypeAlias = Annotated[str, typer.Argument(help="Name of a recipe (`list` names them), or a TOML file.")]
ModelOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Checkpoint to begin with: a folder, a name on the hub, or `tiny`.")
]
Out: TypeAlias = Annotated[Path, typer.Option(help="Folder of the run.")]
Resume: TypeAlias = Annotated[bool, typer.Option("--resume", help="Resume the run in OUT.")]
Several: TypeAlias = Annotated[
    int, typer.Option("--processes", min=1, help="Processes, one for each GPU; `accelerate launch` starts them too.")
]
Shard: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--shard-model/--no-shard-model",
        help="Divide weights, gradients and the optimizer's state among the processes (model.shard); a model of 7 "
        "billion weights needs it.",
    ),
]
PlanOption: TypeAlias = Annotated[
    bool, typer.Option("--plan", help="Print what each GPU will hold, and whether it fits; load and train nothing.")
]
GpuMemory: TypeAlias = Annotated[
    float | None, typer.Option(min=0.1, help="GiB of each GPU, for --plan; that of the first GPU here if not said.")
]
_NEEDED = ("torch", "transformers", "accelerate", "safetensors")


def need_training() -> None:
    """Before torch is imported. Raises `UnavailableError` if it cannot be."""
    for package in _NEEDED:
        if importlib.util.find_spec(package) is None:
            raise UnavailableError(f"the package `{package}` is not installed. Run: pip install 'saccade[train]'")
    # Threads of torch that wait by spinning are many times slower when anything else runs on the machine.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def model_settings(model: str | None, shard: bool | None) -> list[str]:
    """Two options as settings."""
    source = [] if model is None else [f"model.source={checkpoint_named(model)}"]
    return source + ([] if shard is None else [f"model.shard={str(shard).lower()}"])


def show_plan(plan: Callable[[str], MemoryPlan], memory: float | None) -> None:
    """Print what `plan(device)` gives. Raises `SettingsError` for what does not fit, or without a GPU and a memory."""
    import torch

    if memory is None and not torch.cuda.is_available():
        raise SettingsError("there is no GPU here whose memory could be read: say how much each has, --gpu-memory 80")
    given = memory or torch.cuda.get_device_properties(0).total_memory / 2**30
    made = plan("cuda")
    print(made.text(given))
    made.check(given)
    print("It fits.")


def with_screen(
    train: Callable[..., object], screen: Callable[[], TrainScreen], settings: Any, out: Path, resume: bool
) -> None:
    """Train, and show how far it is."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # ours is there
    with screen() as callback:
        train(settings, out, resume=resume, callback=callback)


def run(program: Callable[..., None], settings: Any, out: Path, resume: bool, processes: int) -> None:
    """`program(settings, out, resume)` in as many processes; after Ctrl-C a line says how to resume."""
    from saccade.training.launch import complete, launch, launched

    try:
        if launched():
            complete(program, (settings, out, resume))
        elif processes > 1:
            launch(logged(program), (settings, out, resume), processes)
        else:
            program(settings, out, resume)
    except KeyboardInterrupt:
        print(f"saccade: stopped. The same command with --resume continues from the last checkpoint in {out}.")
        raise
