"""Trainers of `saccade rl`: Saccade's own, and those that other packages register (`saccade rl --on NAME`).

    [project.entry-points."saccade.trainers"]
    mine = "my_package.trainer:MyTrainer"

A trainer is a class of settings, the table `trainer` of a run, with methods that plan and train. The same recipes,
tasks and rewards run on each of them.
"""

from __future__ import annotations

import tomllib
from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, SerializeAsAny

from saccade.core.registry import Registry, is_subclass
from saccade.core.settings import Settings
from saccade.errors import SettingsError
from saccade.training.folder import SETTINGS
from saccade.training.rl.rollout import named

OWN: Final = "saccade"


class TrainerSettings(Settings):
    """Base of all trainers; the first sentence of the docstring is what `saccade list trainers` shows."""

    name: str = ""
    """As `--on` names it."""


class OwnTrainer(TrainerSettings):
    """Saccade's own trainer (`saccade.training.rl.run`), on GPUs or the CPU, of one machine or several."""

    name: Literal["saccade"] = "saccade"


class OtherTrainer(TrainerSettings):
    """Base of the trainers of other packages; `settings` are a run's, `saccade.training.rl.settings.RlSettings`."""

    def plan(self, settings: Any, out: Path) -> Iterable[str]:
        """Check a run and give the lines that `--plan` prints. Raises `SettingsError` for what cannot be followed."""
        return ()

    def notes(self, settings: Any) -> Iterable[str]:
        """Say what this trainer does otherwise than Saccade's own, a sentence each."""
        return ()

    @abstractmethod
    def train(self, settings: Any, out: Path, *, resume: bool = False) -> Path:
        """Train in the folder `out` and return the folder of the trained checkpoint."""


TRAINERS: Final = Registry[type[TrainerSettings]](
    "trainers",
    {"saccade@1": f"{__name__}:OwnTrainer"},
    is_subclass(TrainerSettings, f"a subclass of {__name__}.OtherTrainer"),
)
"""Other packages add trainers by the entry point group `saccade.trainers`."""

NamedTrainer = Annotated[SerializeAsAny[TrainerSettings], BeforeValidator(named(TRAINERS, OWN, "name"))]
"""The table `trainer` of a run."""


def check_trainer(out: Path, trainer: str) -> None:
    """Raise `SettingsError` where `out` holds a run of another trainer: its checkpoints would not be found."""
    try:
        saved = tomllib.loads((out / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    begun = saved.get("trainer", {}).get("name", OWN)
    if begun == trainer:
        return
    if begun == OWN:
        raise SettingsError(
            f"the run in {out} was begun on Saccade's own trainer. Continue it without --on {trainer}, or name another "
            "folder."
        )
    raise SettingsError(f"the run in {out} was begun on {begun}. Add --on {begun}, or name another folder.")
