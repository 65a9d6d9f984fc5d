"""A run folder that can be interrupted and resumed: its settings lie beside it, and what it holds is not made again.

Continuing is exact where a trajectory depends on nothing but the settings and its id. One command at a time may write
to a folder.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

from saccade.episode.run_folder import TRAJECTORIES, RunFolder, mended
from saccade.errors import SettingsError
from saccade.record.file_notes import check_files
from saccade.record.settings import Settings, differences, load_saved, save_settings

SETTINGS = "settings.toml"

S = TypeVar("S", bound=Settings)


def continued(root: Path, settings: Settings, *, may_differ: Collection[str] = ()) -> RunFolder:
    """The folder of a run, new or to be continued, with `settings` saved in it; a torn last line is cut off.

    Raises:
        SettingsError: it was made with other settings (names what differs but for `may_differ`), or it holds another
            command's run, or a file of the user's own code is another now.
        RecordError: its trajectories cannot be read.
    """
    check_continued(root, settings, may_differ=may_differ)
    folder = mended(root)
    save_settings(settings, root / SETTINGS)
    return folder


def check_continued(root: Path, settings: Settings, *, may_differ: Collection[str] = ()) -> None:
    """Raises `SettingsError` as `continued` does, and changes nothing."""
    saved, lines = root / SETTINGS, root / TRAJECTORIES
    if saved.exists():
        _check(root, saved_settings(type(settings), root), settings, may_differ)
    elif lines.exists():
        raise SettingsError(f"{root} holds trajectories of another command. Name a folder of its own for this run.")


def saved_settings(kind: type[S], root: Path) -> S:
    """The settings of class `kind` in the run folder `root`.

    Raises:
        SettingsError: they are those of another command, or cannot be read.
    """
    file = root / SETTINGS
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        missing = {name for name, field in kind.model_fields.items() if field.is_required()} - data.keys()
    except (OSError, ValueError):
        missing = set()  # what is wrong with the file is said below
    if missing:
        raise SettingsError(
            f"{root} holds the run of another command: its {SETTINGS} does not say {' and '.join(sorted(missing))}. "
            "Name another folder."
        )
    return load_saved(kind, file)


def _check(root: Path, before: Settings, now: Settings, may_differ: Collection[str]) -> None:
    changed = [item for item in differences(before, now) if item.name not in may_differ]
    if changed:
        listed = "\n".join(f"  {item}" for item in changed)
        raise SettingsError(
            f"{root} was made with other settings:\n{listed}\nUse the same ones to continue it, or another folder."
        )
    check_files(root / SETTINGS)
