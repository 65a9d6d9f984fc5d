"""The folder in which a run keeps rollouts: a run folder as any other, without those that a resumed run plays again."""

from __future__ import annotations

from pathlib import Path

from saccade.episode.run_folder import TRAJECTORIES, RunFolder
from saccade.record.codec import read_lines, recover_lines, write_lines
from saccade.record.trajectory import Trajectory


def open_rollout_store(root: Path, cursor: int) -> RunFolder:
    """The folder, with only the rollouts of tasks before `cursor` in the row of epochs.

    Raises:
        RecordError: it cannot be read.
    """
    path = root / TRAJECTORIES
    if path.exists():
        recover_lines(path)
        write_lines(path, [item for item in read_lines(path, Trajectory) if _place(item) < cursor])
    return RunFolder(root)


def _place(trajectory: Trajectory) -> int:
    return int(trajectory.group.rpartition("@")[2])
