"""A group with what a judge says of it: the one step of a reward that does IO."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

from saccade.record.trajectory import Trajectory
from saccade.rewards.judges.verdict import Judge, JudgeVerdict, NoVerdict
from saccade.rewards.reading import calls, is_call
from saccade.rewards.reward import RewardGroup


async def judged(
    judge: Judge | None, trajectories: Sequence[Trajectory], needed: Callable[[Trajectory], Collection[int]] = calls
) -> RewardGroup:
    """The rollouts of one task with the verdicts of `judge`; without a judge, none.

    Only the turns that `needed` names (`NeedsJudge.turns_to_judge`) are judged, and none of a lost rollout.
    Raises what the judge raises.
    """
    if judge is None:
        return RewardGroup(tuple(trajectories))

    async def one(trajectory: Trajectory) -> tuple[JudgeVerdict | None, ...]:
        turns = () if trajectory.lost else needed(trajectory)
        return await judge.judge(trajectory, turns) if turns else (None,) * len(trajectory.turns)

    return RewardGroup(tuple(trajectories), tuple(await asyncio.gather(*map(one, trajectories))))


def unjudged(trajectories: Sequence[Trajectory]) -> RewardGroup:
    """The same without asking anybody: every call has the verdict that there is none."""
    none = JudgeVerdict(invalid=NoVerdict.NOT_ASKED)
    rows = (tuple(none if is_call(turn) else None for turn in item.turns) for item in trajectories)
    return RewardGroup(tuple(trajectories), tuple(rows))
