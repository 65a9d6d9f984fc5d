"""`saccade rl --on verl`: what verl will be told, or the run itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from saccade.errors import SettingsError

if TYPE_CHECKING:
    from saccade.rl.train.settings import RlSettings
    from saccade.rl.verl.settings import VerlSettings

TrainerName: TypeAlias = Annotated[
    str | None, typer.Option(metavar="verl", help="The trainer, where it is not ours: verl on Ray (docs/engines.md).")
]
Nodes: TypeAlias = Annotated[int | None, typer.Option(min=1, help="With --on verl: machines (verl.nodes).")]
Gpus: TypeAlias = Annotated[int | None, typer.Option(min=1, help="With --on verl: GPUs of each (verl.gpus).")]


def refuse_verl(options: Mapping[str, int | None], settings: VerlSettings) -> None:
    """Raises `SettingsError` for options and settings of verl where our own trainer trains."""
    from saccade.rl.verl.settings import check_no_verl

    if said := [name for name, value in options.items() if value is not None]:
        raise SettingsError(
            f"{said[0]} is for verl, and Saccade's own trainer is asked for. Add --on verl, or say --processes N for "
            "N GPUs of this machine."
        )
    check_no_verl(settings)


def run_on_verl(trainer: str, settings: RlSettings, out: Path, *, resume: bool, plan: bool, processes: int) -> None:
    """Train on verl, or with `plan` print its configuration alone.

    Raises:
        SettingsError: the trainer is another one, or what is set does not go together.
    """
    if trainer != "verl":
        raise SettingsError(
            f"--on {trainer}: there is no such trainer. Say --on verl, or leave it out for Saccade's own trainer."
        )
    if processes > 1:
        raise SettingsError("--processes is for Saccade's own trainer; verl starts its own: set --nodes and --gpus.")
    from saccade.rl.train.settings import check_settings
    from saccade.rl.verl.mapping import verl_lines
    from saccade.rl.verl.refused import check_family, check_on_verl, notes
    from saccade.training.memory.shapes import family_of_checkpoint

    if plan:
        check_settings(settings)
        check_on_verl(settings)
        family = family_of_checkpoint(settings.model.source)
        if family is not None:
            check_family(family, settings.model.source)
        for line in verl_lines(settings, out.resolve()):
            print(f"{line.key} = {json.dumps(line.value)}  # {line.source}")
        for option in settings.verl.options:
            print(f"{option}  # verl.options")
        for note in notes(settings):
            print(f"# {note}")
        if family is None:
            print("# model.source: its family is not known here, and is looked at when the run begins")
        return
    from saccade.rl.verl.launch import train_on_verl

    for note in notes(settings):
        print(f"note: {note}")
    try:
        model = train_on_verl(settings, out, resume=resume)
    except KeyboardInterrupt:
        print(f"saccade: stopped. The same command with --resume continues from verl's last checkpoint in {out}.")
        raise
    print(f"trained: {model}")
