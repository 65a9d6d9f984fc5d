"""A run folder that can be broken off and continued: its settings lie beside it, and its ids are skipped.

Continuing is exact: the same settings give the same jobs, a job's trajectory depends on nothing but its settings, and
what is there is not made again. A larger `n` is no change of what is there, so it alone may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json

from saccade.episode.run_folder import TRAJECTORIES, RunFolder
from saccade.errors import SettingsError
from saccade.record.codec import recover_lines
from saccade.record.settings import differences, load_settings, save_settings
from saccade.sft.synth.settings import SynthSettings

SETTINGS = "settings.toml"
_MAY_DIFFER = frozenset({"n"})


@dataclass(frozen=True)
class Opened:
    """A run folder that is ready for more."""

    folder: RunFolder
    done: frozenset[str]
    """Ids of the trajectories that are there."""


def opened(root: Path, settings: SynthSettings) -> Opened:
    """The folder of a run, new or to be continued, with `settings` saved in it.

    Raises:
        SettingsError: it was made with other settings (names what differs), or it holds another command's run.
        RecordError: its trajectories cannot be read.
    """
    saved, lines = root / SETTINGS, root / TRAJECTORIES
    if saved.exists():
        _check(root, load_settings(SynthSettings, saved), settings)
    elif lines.exists():
        raise SettingsError(f"{root} holds trajectories of another command. Name a folder of its own for this run.")
    if lines.exists():
        recover_lines(lines)
    folder = RunFolder(root)
    done = _ids(lines) if lines.exists() else frozenset()
    root.mkdir(parents=True, exist_ok=True)
    save_settings(settings, saved)
    return Opened(folder, done)


def _check(root: Path, before: SynthSettings, now: SynthSettings) -> None:
    changed = [item for item in differences(before, now) if item.name not in _MAY_DIFFER]
    if changed:
        listed = "\n".join(f"  {item}" for item in changed)
        raise SettingsError(
            f"{root} was made with other settings:\n{listed}\nUse the same ones to continue it, or another folder."
        )


def _ids(lines: Path) -> frozenset[str]:
    with lines.open("rb") as file:
        return frozenset(from_json(line)["id"] for line in file)
