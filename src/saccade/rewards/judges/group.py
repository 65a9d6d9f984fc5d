"""Add a judge's verdicts to a group: the only step of a reward that does IO."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final

from saccade.core.seam import awaited
from saccade.dialects.base import Dialect
from saccade.record.content import Answer, Code
from saccade.record.execution import Execution, Status
from saccade.record.task import Task
from saccade.record.trajectory import CORRECT, FinishReason, Score, StopReason, Trajectory, Turn
from saccade.rewards.judges.verdict import Judge, JudgeVerdict, NoVerdict
from saccade.rewards.reward import Reward, RewardGroup, RewardPreset, calls, is_call


async def judged(
    judge: Judge | None, trajectories: Sequence[Trajectory], needed: Callable[[Trajectory], Collection[int]] = calls
) -> RewardGroup:
    """Group the rollouts of one task with the verdicts of `judge`; without a judge, with none.

    Only the turns from `needed` (`NeedsJudge.turns_to_judge`) are judged, and none of a lost rollout. Raises as the
    judge.
    """
    if judge is None:
        return RewardGroup(tuple(trajectories))

    async def one(trajectory: Trajectory) -> tuple[JudgeVerdict | None, ...]:
        turns = () if trajectory.lost else needed(trajectory)
        return await awaited(judge.judge, tuple, list)(trajectory, turns) if turns else (None,) * len(trajectory.turns)

    return RewardGroup(tuple(trajectories), tuple(await asyncio.gather(*map(one, trajectories))))


def unjudged(trajectories: Sequence[Trajectory]) -> RewardGroup:
    """Group rollouts without asking a judge: every call has the verdict `NOT_ASKED`."""
    none = JudgeVerdict(invalid=NoVerdict.NOT_ASKED)
    rows = (tuple(none if is_call(turn) else None for turn in item.turns) for item in trajectories)
    return RewardGroup(tuple(trajectories), tuple(rows))


# Properties of a reward, found by trying it on invented rollouts with a right answer.

_CALL: Final = Turn(text="<code>1</code>", action=Code(code="1"), execution=Execution(status=Status.OK, value="1"))
_ANSWER: Final = Turn(text="<answer>1</answer>", action=Answer(text="1"))


def turn_parts(preset: RewardPreset) -> tuple[str, ...] | None:
    """Return the names of its turn parts; None for a user's reward that fails on an invented rollout."""
    reward = _tried(preset, _CALL, _ANSWER)
    return None if reward is None else tuple(part.name for part in reward.turns)


def fines_form(preset: RewardPreset, dialect: Dialect) -> bool:
    """Tell whether its part `format` is below 0 for an answer written just as the dialect asks."""
    text = dialect.write(Answer(text="1"), "I look.")
    reward = _tried(preset, Turn(text=text, action=dialect.parse(text, FinishReason.STOP_STRING)))
    values = [] if reward is None else [part.value for part in reward.parts if part.name == "format"]
    return any(value is not None and value < 0 for value in values)


def _tried(preset: RewardPreset, *turns: Turn) -> Reward | None:
    right = (Score(name=CORRECT, value=1.0),)
    task = Task(id="trial", question="?", answer="1")
    trial = Trajectory(id="trial", task=task, turns=turns, stop=StopReason.ANSWERED, scores=right)
    try:
        [reward] = preset(unjudged([trial]))
    except Exception:  # a user's own code, which need not know invented rollouts
        return None
    return reward
