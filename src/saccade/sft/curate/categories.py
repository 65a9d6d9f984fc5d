"""What trajectories are counted, mixed and reported by."""

from __future__ import annotations

from typing import Literal, TypeAlias

from saccade.record.trajectory import Trajectory

CategoryRule: TypeAlias = Literal["source", "dialect", "model", "answer_type", "split", "tag"]


def categories(trajectory: Trajectory, rule: CategoryRule) -> tuple[str, ...]:
    """The categories of a trajectory: exactly one, but for `tag` one for each tag. `-` stands for none."""
    match rule:
        case "source":
            named: tuple[str, ...] = (trajectory.task.source,)
        case "dialect":
            named = (trajectory.provenance.dialect,)
        case "model":
            named = (trajectory.provenance.model,)
        case "answer_type":
            named = (trajectory.task.answer_type.value,)
        case "split":
            named = (trajectory.task.split,)
        case "tag":
            named = tuple(dict.fromkeys(trajectory.task.tags))
    return tuple(name or "-" for name in named) or ("-",)
