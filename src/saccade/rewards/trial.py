"""What can be said of a reward before a run, found by trying it on invented rollouts with a right answer."""

from __future__ import annotations

from typing import Final

from saccade.dialects.base import Dialect
from saccade.record.action import Answer, Code
from saccade.record.execution import Execution
from saccade.record.score import CORRECT, Score
from saccade.record.status import Status
from saccade.record.task import Task
from saccade.record.trajectory import StopReason, Trajectory
from saccade.record.turn import FinishReason, Turn
from saccade.rewards.judges.group import unjudged
from saccade.rewards.reward import Reward, RewardPreset

_CALL: Final = Turn(text="<code>1</code>", action=Code(code="1"), execution=Execution(status=Status.OK, value="1"))
_ANSWER: Final = Turn(text="<answer>1</answer>", action=Answer(text="1"))


def turn_parts(preset: RewardPreset) -> tuple[str, ...] | None:
    """The names of the parts of its turns; None for a reward of a user's own that cannot deal with such a rollout."""
    reward = _tried(preset, _CALL, _ANSWER)
    return None if reward is None else tuple(part.name for part in reward.turns)


def fines_form(preset: RewardPreset, dialect: Dialect) -> bool:
    """Whether its part `format` is below 0 for an answer that is written just as the dialect wants it."""
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
