"""Which trainer a run was begun on. Apart from what reads verl's files, since every run on our own trainer asks."""

from __future__ import annotations

from pathlib import Path

from saccade.errors import SettingsError
from saccade.training.folder import SETTINGS


def check_trainer(out: Path, *, on_verl: bool) -> None:
    """Raises `SettingsError` where `out` holds a run of the other trainer: its checkpoints would not be found."""
    begun_on_verl = (out / "verl").is_dir()
    if begun_on_verl == on_verl or not (out / SETTINGS).exists():
        return
    if on_verl:
        raise SettingsError(
            f"the run in {out} was begun on Saccade's own trainer. Continue it without --on verl, or name another "
            "folder."
        )
    raise SettingsError(f"the run in {out} was begun on verl. Add --on verl, or name another folder.")
