"""The settings of `saccade rl --on verl`: the cluster, and time limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import PositiveFloat, PositiveInt

from saccade.errors import SettingsError
from saccade.training.rl.settings import OtherTrainer

if TYPE_CHECKING:
    from saccade.training.rl.settings import RlSettings


class VerlSettings(OtherTrainer):
    """verl's trainer on Ray, on the GPUs of one or several machines (docs/engines.md)."""

    name: Literal["verl"] = "verl"
    nodes: PositiveInt = 1
    gpus: PositiveInt = 8
    """Of each node; all of them sample and train in turn."""
    device: Literal["gpu", "cpu"] = "gpu"
    """`cpu`: as many processes as `gpus` on this machine, for trying out (`make verl`)."""
    tensor_parallel: PositiveInt = 1
    """GPUs that one copy of the sampling engine is divided over."""
    workers: PositiveInt = 8
    """Processes that play episodes, over all nodes; limits of concurrency are divided among them."""
    turn_seconds: PositiveFloat = 900.0
    """How long a turn may take until its episode counts as lost, and is played again."""
    step_seconds: PositiveFloat = 7200.0
    """How long nothing may be played, trained or validated until the run is ended: a server that dies while it is given
    new weights makes verl wait for ever."""
    pass_rates: str = ""
    """For a recipe with a curriculum: `pass-rates.jsonl` of a run of this checkpoint and tasks on our own trainer."""
    options: tuple[str, ...] = ()
    """More of verl's own settings, `a.b=value`, after those that the recipe gives."""


def verl_of(settings: RlSettings) -> VerlSettings:
    """Return the table `trainer` of a run on verl. Raises `SettingsError` for a run on another trainer."""
    if not isinstance(settings.trainer, VerlSettings):
        raise SettingsError(f"the run is for the trainer {settings.trainer.name}, not for verl: add --on verl")
    return settings.trainer


def check_verl(settings: VerlSettings) -> None:
    """Raises `SettingsError` for a division that cannot be."""
    if (settings.gpus * settings.nodes) % settings.tensor_parallel:
        raise SettingsError(
            f"trainer.tensor_parallel ({settings.tensor_parallel}) does not divide the "
            f"{settings.gpus * settings.nodes} GPUs evenly; choose one that does."
        )
    if settings.device == "cpu" and settings.nodes > 1:
        raise SettingsError("trainer.device=cpu is for one machine; leave trainer.nodes at 1.")
