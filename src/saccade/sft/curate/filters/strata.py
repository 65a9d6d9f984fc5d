"""Strata of difficulty, from weak to strong (CodeDance): easy questions answered at once, hard ones with code.

The rate of a weak model's rollouts places every task. The paper names the model (Qwen2.5-VL-7B) and the aim, against
calls without need; it does not give the bounds, so the ones here are a choice.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import NonNegativeFloat, model_validator

from saccade.record.trajectory import Trajectory
from saccade.sft.curate.filters.pass_rate import Rollouts
from saccade.sft.curate.filters.tool_turns import tool_turns
from saccade.sft.curate.stage import Drop, FilterContext, FilterOutcome, FilterStage, Keep, Undecided, each

Style = Literal["direct", "tools", "any", "leave_out"]
"""Answered without a call; with one at least; either; or not wanted at all."""


class Strata(Rollouts):
    """Sorts tasks into easy, medium and hard by a weak model's pass rate, and wants a style of answer in each.

    A trajectory that stays gets the tag `stratum:easy`, `stratum:medium` or `stratum:hard`, for a mixture after it,
    and its task the difficulty 1 - pass rate.
    """

    easy_from: NonNegativeFloat = 0.75
    hard_below: NonNegativeFloat = 0.25
    easy: Style = "direct"
    medium: Style = "any"
    hard: Style = "tools"

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.hard_below > self.easy_from:
            raise ValueError("hard_below must not be above easy_from")
        return self

    def start(self, around: FilterContext) -> FilterStage:
        """A stage for one run over a set. Raises as `rates`."""
        rates = self.rates()

        def decide(trajectory: Trajectory) -> FilterOutcome:
            rate = self.rate_of(trajectory, rates)
            return rate if isinstance(rate, Undecided) else self._place(trajectory, rate.value)

        return each(decide)

    def _place(self, trajectory: Trajectory, rate: float) -> FilterOutcome:
        if rate >= self.easy_from:
            name, style = "easy", self.easy
        elif rate < self.hard_below:
            name, style = "hard", self.hard
        else:
            name, style = "medium", self.medium
        calls = tool_turns(trajectory)
        if style == "leave_out":
            return Drop(f"{name} task")
        if style == "direct" and calls:
            return Drop(f"{name} task answered with calls", str(calls))
        if style == "tools" and not calls:
            return Drop(f"{name} task answered without a call")
        tags = tuple(tag for tag in trajectory.task.tags if not tag.startswith("stratum:"))
        task = trajectory.task.model_copy(update={"tags": (*tags, f"stratum:{name}"), "difficulty": 1 - rate})
        return Keep(trajectory.model_copy(update={"task": task}))
