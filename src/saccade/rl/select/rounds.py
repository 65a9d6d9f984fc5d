"""How many rounds of rollouts a step takes: a state machine without IO that always ends.

    state = Rounds(limits)
    while isinstance(next := decide(state, rule), Generate):
        state = state.with_groups(roll_out(next.tasks))

After each round the rule looks at everything that was rolled out for this step. Enough groups: `Ready`. Too few after
the last round: `Short`, with what there is, which may be nothing; the trainer then takes a smaller step or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import PositiveInt

from saccade.record.settings import Settings
from saccade.rl.groups import RolloutGroup
from saccade.rl.select.selection import Selection, SelectionRule


class RoundLimits(Settings):
    """When a step stops asking for rollouts."""

    tasks: PositiveInt = 32
    """Tasks that are rolled out in a round."""
    groups: PositiveInt = 16
    """Groups that are enough."""
    rounds: PositiveInt = 3


@dataclass(frozen=True, slots=True)
class Rounds:
    """What a step has so far."""

    limits: RoundLimits
    groups: tuple[RolloutGroup, ...] = ()
    done: int = 0
    """Rounds."""

    def with_groups(self, groups: Sequence[RolloutGroup]) -> Rounds:
        """After one more round. Raises ValueError if a group is known already."""
        known = {group.id for group in self.groups}
        again = [group.id for group in groups if group.id in known]
        if again:
            raise ValueError(f"groups {again} were rolled out before; give each round further tasks")
        return replace(self, groups=(*self.groups, *groups), done=self.done + 1)


@dataclass(frozen=True, slots=True)
class Generate:
    """Roll out further tasks."""

    tasks: int


@dataclass(frozen=True, slots=True)
class Ready:
    """There are enough groups for a step."""

    selection: Selection


@dataclass(frozen=True, slots=True)
class Short:
    """The last round is over, and there are too few."""

    selection: Selection


def decide(state: Rounds, rule: SelectionRule) -> Generate | Ready | Short:
    """What comes next."""
    if state.done == 0:
        return Generate(state.limits.tasks)
    selection = rule(state.groups)
    if len(selection.kept) >= state.limits.groups:
        return Ready(selection)
    return Short(selection) if state.done >= state.limits.rounds else Generate(state.limits.tasks)
