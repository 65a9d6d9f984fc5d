"""The folder in which a run keeps rollouts: a run folder as any other, without those that a resumed run plays again."""

from __future__ import annotations

from pathlib import Path

from saccade.episode.run_folder import TRAJECTORIES, RunFolder
from saccade.record.codec import read_lines, recover_lines, write_lines
from saccade.record.trajectory import Trajectory


def kept_rollouts(root: Path, place: int) -> RunFolder:
    """The folder, with only the rollouts of tasks before `place` in the row of epochs.

    Raises:
        RecordError: it cannot be read.
    """
    lines = root / TRAJECTORIES
    if lines.exists():
        recover_lines(lines)
        write_lines(lines, [item for item in read_lines(lines, Trajectory) if _place(item) < place])
    return RunFolder(root)


def _place(trajectory: Trajectory) -> int:
    return int(trajectory.group.rpartition("@")[2])
