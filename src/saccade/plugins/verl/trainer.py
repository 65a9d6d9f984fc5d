"""The trainer of `saccade rl --on verl`, as the entry point group `saccade.trainers` names it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from saccade.plugins.verl.mapping import VerlSettings, check_family, check_on_verl, notes, verl_lines
from saccade.training.memory_passes import family_of_checkpoint
from saccade.training.rl.settings import RlSettings, check_settings


class VerlTrainer(VerlSettings):
    """verl's trainer on Ray, on the GPUs of one or several machines (docs/engines.md)."""

    def plan(self, settings: RlSettings, out: Path) -> Iterable[str]:
        check_settings(settings)
        check_on_verl(settings)
        family = family_of_checkpoint(settings.model.source)
        if family is not None:
            check_family(family, settings.model.source)
        yield from (
            f"{line.key} = {json.dumps(line.value)}  # {line.source}" for line in verl_lines(settings, out.resolve())
        )
        yield from (f"{option}  # trainer.options" for option in self.options)
        yield from (f"# {note}" for note in self.notes(settings))
        if family is None:
            yield "# model.source: its family is not known here, and is looked at when the run begins"

    def notes(self, settings: RlSettings) -> Iterable[str]:
        return notes(settings)

    def train(self, settings: RlSettings, out: Path, *, resume: bool = False) -> Path:
        from saccade.plugins.verl.launch import train_on_verl

        return train_on_verl(settings, out, resume=resume)
