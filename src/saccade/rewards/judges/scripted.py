"""A judge that says what it was told to say: for tests and demonstrations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from saccade.record.trajectory import Trajectory
from saccade.record.turn import Turn
from saccade.rewards.judges.verdict import Verdict
from saccade.rewards.reading import is_call


class ScriptedJudge:
    """Gives the scores of a list to the calls of each trajectory in turn, or asks a function of the turn."""

    def __init__(self, script: Sequence[float] | Callable[[Turn], Verdict]) -> None:
        self._script = script if callable(script) else tuple(script)

    async def judge(self, trajectory: Trajectory) -> tuple[Verdict | None, ...]:
        """The verdicts. Raises ValueError if the list is shorter than the calls."""
        script = self._script
        if callable(script):
            return tuple(script(turn) if is_call(turn) else None for turn in trajectory.turns)
        wanted = sum(map(is_call, trajectory.turns))
        if wanted > len(script):
            raise ValueError(f"the script has {len(script)} scores for {wanted} calls of {trajectory.id}")
        scores = iter(script)
        return tuple(Verdict(score=next(scores)) if is_call(turn) else None for turn in trajectory.turns)
