"""The folder in which a run keeps rollouts: a run folder as any other, without those that a resumed run plays again.

A rollout is kept with what it was worth: its reward, the advantage of its tokens, both part by part.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from saccade.episode.run_folder import TRAJECTORIES, RunFolder
from saccade.record.codec import read_lines, recover_lines, write_lines
from saccade.record.score import Score
from saccade.record.trajectory import Trajectory
from saccade.rewards.reward import with_reward
from saccade.rl.rollout import Rollout

ADVANTAGE = "advantage"
"""Name of the score that holds the advantage of a sequence; its detail tells that of each turn's tokens."""


def open_rollout_store(root: Path, cursor: int) -> RunFolder:
    """The folder, with only the rollouts of tasks before `cursor` in the sequence of epochs.

    Raises:
        RecordError: it cannot be read.
    """
    path = root / TRAJECTORIES
    if path.exists():
        recover_lines(path)
        write_lines(path, [item for item in read_lines(path, Trajectory) if _place(item) < cursor])
    return RunFolder(root)


def with_worth(item: Rollout) -> Trajectory:
    """The rollout with its reward's parts, those of its turns, and where it has one its advantage as scores."""
    trajectory = with_reward(item.trajectory, item.reward)
    more = [
        Score(name=f"reward.{part.name}.turns", weight=0.0, detail=_by_turn(part.values)) for part in item.reward.turns
    ]
    if (advantage := item.advantage) is not None:
        turns = () if advantage.turns is None else tuple(advantage.sequence + term for term in advantage.turns.tolist())
        more.append(Score(name=ADVANTAGE, value=advantage.sequence, weight=0.0, detail=_by_turn(turns)))
    return trajectory.with_scores(more)


def _by_turn(values: Sequence[float | None]) -> str:
    shown = (f"turn {n}: {'none' if value is None else f'{value:+.4g}'}" for n, value in enumerate(values, 1))
    return ", ".join(shown)


def _place(trajectory: Trajectory) -> int:
    return int(trajectory.group.rpartition("@")[2])
