"""A judge that says what it was told to say: for tests and demonstrations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from saccade.record.trajectory import Trajectory
from saccade.record.turn import Turn
from saccade.rewards.judges.verdict import JudgeVerdict


class ScriptedJudge:
    """Gives the scores of a list to the judged calls of each trajectory in turn, or asks a function of the turn."""

    def __init__(self, script: Sequence[float] | Callable[[Turn], JudgeVerdict]) -> None:
        self._script = script if callable(script) else tuple(script)

    async def judge(self, trajectory: Trajectory, turns: Collection[int]) -> tuple[JudgeVerdict | None, ...]:
        """The verdicts. Raises ValueError if the list is shorter than the calls."""
        script = self._script
        if callable(script):
            return tuple(script(turn) if n in turns else None for n, turn in enumerate(trajectory.turns))
        if len(turns) > len(script):
            raise ValueError(f"the script has {len(script)} scores for {len(turns)} calls of {trajectory.id}")
        scores = iter(script)
        return tuple(JudgeVerdict(score=next(scores)) if n in turns else None for n in range(len(trajectory.turns)))
