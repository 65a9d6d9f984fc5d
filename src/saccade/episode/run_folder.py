"""The folder in which episodes are kept: `trajectories.jsonl`, which only grows, and the media store `media/`.

`unfinished/` holds what is being played (`saccade.episode.journal`).

A trajectory is on the disk, whole, when `append` returns. One process at a time may write to a run folder. Opening one
reads the ids of its trajectories and nothing else, so that a long run is continued at once.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from urllib.parse import quote

from pydantic import BaseModel

from saccade.errors import RecordError
from saccade.media.store import MediaStore
from saccade.record.codec import append_lines, read_ids, recover_lines
from saccade.record.settings import save_settings, settings_toml
from saccade.record.trajectory import Trajectory

TRAJECTORIES = "trajectories.jsonl"
MEDIA = "media"
UNFINISHED = "unfinished"
"""Folder of the journals of episodes that have not ended."""


class RunFolder:
    """A run folder, made when first written to."""

    def __init__(self, root: Path) -> None:
        """Reads what is there, so a folder that cannot be used is refused before any work is done.

        Raises:
            RecordError: `root` is a file, or its trajectories cannot be read.
        """
        if root.exists() and not root.is_dir():
            raise RecordError(f"{root} is a file, and a run needs a folder. Name a folder, existing or new.")
        self.root = root
        self.store = MediaStore(root / MEDIA)
        self._ids = set(read_ids(self.path, Trajectory)) if self.path.exists() else set()
        self._rollouts = Counter(name.rpartition("#")[0] for name in self._ids)

    def __contains__(self, trajectory_id: str) -> bool:
        return trajectory_id in self._ids

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the trajectories that are here."""
        return frozenset(self._ids)

    @property
    def path(self) -> Path:
        """The file of trajectories."""
        return self.root / TRAJECTORIES

    def next_rollout(self, task_id: str) -> int:
        """A number that no trajectory of this task has here, finished or not."""
        number = self._rollouts[task_id]
        while f"{task_id}#{number}" in self._ids or self.journal_of(f"{task_id}#{number}").exists():
            number += 1
        return number

    def journal_of(self, trajectory_id: str) -> Path:
        """Where that episode is kept while it is played."""
        return self.root / UNFINISHED / f"{quote(trajectory_id, safe='#')}.jsonl"

    def append(self, *trajectories: Trajectory) -> None:
        """Keep the trajectories, in place of their journals; their media must lie in `store` already."""
        self.root.mkdir(parents=True, exist_ok=True)
        append_lines(self.path, trajectories)
        self._ids.update(item.id for item in trajectories)
        self._rollouts.update(item.task.id for item in trajectories)
        if (self.root / UNFINISHED).is_dir():
            for item in trajectories:
                self.journal_of(item.id).unlink(missing_ok=True)

    def keep_settings(self, settings: BaseModel) -> Path:
        """The file that holds `settings`: `settings.toml`, or where that holds others `settings-2.toml`, and so on.

        Each trajectory holds its own, too, as `provenance.settings`.
        """
        text, number = settings_toml(settings), 1
        file = self.root / "settings.toml"
        while file.exists() and file.read_text(encoding="utf-8") != text:
            number += 1
            file = self.root / f"settings-{number}.toml"
        if not file.exists():
            save_settings(settings, file)
        return file


def mended(root: Path) -> RunFolder:
    """The run folder, after a last line that a kill cut short was cut off; the journal of that episode is still there.

    Raises:
        RecordError: as `RunFolder` does.
    """
    if (root / TRAJECTORIES).is_file():
        recover_lines(root / TRAJECTORIES)
    return RunFolder(root)
