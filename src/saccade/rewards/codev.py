"""Compute CodeV's TAPO reward: a right answer, and tool outputs that a judge accepts as evidence.

    R = l_acc · accuracy + l_tool · mean over calls of r_t

r_t is the judge's score (1, 0.5 or 0.25; a miss still pays 0.25, as in the paper's template), or the redline's value
where the turn crosses a line. Tasks without visual search have r_t = 0 except for redlines. The paper leaves open, so
we chose: l_tool (only said to be below l_acc), the value of a redline, and 0 for a rollout without calls. Its training
curves show a format reward, which equation 5 lacks: an extra part, off in `paper`.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final, Self

from pydantic import NonNegativeFloat, model_validator

from saccade.core.settings import Settings
from saccade.record.execution import Status
from saccade.record.task import Task
from saccade.record.trajectory import Score, Trajectory, Turn
from saccade.rewards.reward import (
    JudgeVerdict,
    NoVerdict,
    Reward,
    RewardGroup,
    TurnPart,
    accuracy,
    calls,
    failed,
    is_call,
    reward_each,
    tags_in_order,
)
from saccade.tools.context import ProblemKind


class Redline(StrEnum):
    """Misuse of tools that TAPO punishes (CodeV, section 4), found by types only.

    Pictures are compared by their pixels where the trajectory went through `with_repeats`, as trainers do: the whole
    picture saved anew, mirrored, turned, padded, scaled or nearly whole is the whole picture. Outages and a tool's own
    failure cross no line.
    """

    INVALID_COORDINATES = "invalid_coordinates"
    """A tool refused the arguments. A clamped crop is forgiven; an empty one is an avoidable error."""
    REPEATED_NOOP = "repeated_noop"
    """Every picture that came back had been seen before."""
    SCRATCH_FILE = "scratch_file"
    """Files were written, and none of them came back as a picture."""
    AVOIDABLE_ERROR = "avoidable_error"
    """The code or the call failed because of what the model wrote."""


def redlines(trajectory: Trajectory) -> tuple[tuple[Redline, ...], ...]:
    """Return the redlines that each turn crosses, in the order of `Redline`."""
    seen = {item.part.sha256 for item in trajectory.task.media}
    seen |= {part.sha256 for message in trajectory.prompt for part in message.media}
    crossed = []
    for turn in trajectory.turns:
        shown = {picture.image.sha256 for picture in turn.execution.pictures} if turn.execution is not None else set()
        crossed.append(_crossed(turn, bool(shown) and shown <= seen))
        seen |= shown
    return tuple(crossed)


def _crossed(turn: Turn, stale: bool) -> tuple[Redline, ...]:
    run = turn.execution
    if run is None or not is_call(turn):
        return ()
    back = {picture.path for picture in run.pictures}
    crossed = {
        Redline.INVALID_COORDINATES: run.problem == ProblemKind.ARGUMENT_FORMAT,
        Redline.REPEATED_NOOP: stale and run.status is Status.OK,
        Redline.SCRATCH_FILE: bool(run.files) and not any(file.path in back for file in run.files),
        Redline.AVOIDABLE_ERROR: failed(turn),
    }
    return tuple(kind for kind, yes in crossed.items() if yes)


_TAGS: Final = ("code", "answer")
"""Thoughts need not be closed: a turn stops at the end of its code, inside the thought."""


class CodeVReward(Settings):
    """Weights and redlines; the defaults are `paper`."""

    accuracy_weight: float = 1.0
    tool_weight: float = 0.5
    redline: float = -1.0
    """r_t of a turn that crosses a line."""
    format_weight: NonNegativeFloat = 0.0
    search_tags: tuple[str, ...] = ("visual_search", "data_source=vstar")
    """Tags of tasks that ask for visual search, as tasks with evidence boxes do; `*` means every task. The defaults are
    Saccade's own tag and V* in DeepEyes' data."""

    @model_validator(mode="after")
    def _dominated(self) -> Self:
        if abs(self.tool_weight) >= abs(self.accuracy_weight):
            raise ValueError("tool_weight must be smaller than accuracy_weight, so that the answer decides")
        return self

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """Return parts `accuracy`, `tool`, `format` (weight 0: `redlines`, `calls`) and the turn part `tool`.

        With `tool_weight = 0` no judge is needed, and there is no turn part.

        Raises `ValueError`: the task asks for search, and the group has no verdicts.
        """
        if any(map(self.turns_to_judge, group.trajectories)) and not group.verdicts:
            raise ValueError("this reward judges tool outputs: give the group a judge's verdicts")
        return reward_each(
            group, lambda number, item: self._reward(item, group.verdicts[number] if group.verdicts else ())
        )

    @property
    def judged(self) -> bool:
        return self.tool_weight != 0

    def turns_to_judge(self, trajectory: Trajectory) -> tuple[int, ...]:
        """Return the calls of a task with visual search that cross no line; a verdict cannot change a redline."""
        if trajectory.lost or not self.judged or not self.searches(trajectory.task):
            return ()
        crossed = redlines(trajectory)
        return tuple(number for number in calls(trajectory) if not crossed[number])

    def searches(self, task: Task) -> bool:
        return bool(task.evidence) or not set(self.search_tags).isdisjoint((*task.tags, "*"))

    def _reward(self, trajectory: Trajectory, verdicts: tuple[JudgeVerdict | None, ...]) -> Reward:
        crossed = redlines(trajectory)
        row = verdicts or (None,) * len(trajectory.turns)
        search = self.searches(trajectory.task)
        scores = [
            self._turn(lines, verdict if search else JudgeVerdict(score=0.0))
            for turn, lines, verdict in zip(trajectory.turns, crossed, row, strict=True)
            if is_call(turn)
        ]
        invalid = next((score.invalid for score in scores if score.invalid is not None), None)
        known = [score.score for score in scores if score.score is not None]
        tool = None if invalid is not None else sum(known) / len(known) if known else 0.0
        values = iter(scores)
        turns = tuple(next(values).score if is_call(turn) else None for turn in trajectory.turns)
        form = float(tags_in_order(trajectory, _TAGS) and trajectory.answer is not None)
        return Reward(
            parts=(
                Score(name="accuracy", value=accuracy(trajectory), weight=self.accuracy_weight),
                Score(name="tool", value=tool, weight=self.tool_weight, detail="" if invalid is None else invalid),
                Score(name="format", value=form, weight=self.format_weight),
                Score(
                    name="redlines",
                    value=float(sum(map(len, crossed))),
                    weight=0.0,
                    detail=", ".join(line for lines in crossed for line in lines),
                ),
                Score(name="calls", value=float(len(scores)), weight=0.0),
            ),
            turns=(TurnPart(name="tool", values=turns),) if self.judged else (),
        )

    def _turn(self, lines: tuple[Redline, ...], verdict: JudgeVerdict | None) -> JudgeVerdict:
        if lines:
            return JudgeVerdict(score=self.redline)
        return JudgeVerdict(invalid=NoVerdict.NOT_ASKED) if verdict is None else verdict


PRESETS: Final = MappingProxyType({"paper": CodeVReward(), "with-format": CodeVReward(format_weight=0.3)})
