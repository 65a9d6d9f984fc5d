"""The folder in which episodes are kept: `trajectories.jsonl`, which only grows, and the media store `media/`.

A trajectory is on the disk, whole, when `append` returns. One process at a time may write to a run folder.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from saccade.errors import RecordError
from saccade.media.store import MediaStore
from saccade.record.codec import append_line, read_lines
from saccade.record.trajectory import Trajectory

TRAJECTORIES = "trajectories.jsonl"
MEDIA = "media"


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
        stored = read_lines(self.path, Trajectory) if self.path.exists() else ()
        self._rollouts = Counter(item.task.id for item in stored)

    @property
    def path(self) -> Path:
        """The file of trajectories."""
        return self.root / TRAJECTORIES

    def next_rollout(self, task_id: str) -> int:
        """A number that no trajectory of this task has here."""
        return self._rollouts[task_id]

    def append(self, trajectory: Trajectory) -> None:
        """Keep `trajectory`; its media must lie in `store` already."""
        self.root.mkdir(parents=True, exist_ok=True)
        append_line(self.path, trajectory)
        self._rollouts[trajectory.task.id] += 1
