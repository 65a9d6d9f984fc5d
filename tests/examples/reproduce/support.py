"""Drawn tasks, and what arms would leave behind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.rewards.rollouts import answered, ran

from saccade.dialects.base import load_dialect
from saccade.episode.flow import Plan
from saccade.episode.run_folder import RunFolder
from saccade.media.store import MediaStore
from saccade.record.task import Task
from saccade.record.trajectory import CORRECT, Provenance, Score, StopReason, Trajectory, Turn
from saccade.tasks.worlds import load_world, make_task

NEAR = {"kinds": ["dot"], "megapixels": [0.0126, 0.0126], "detail": 20, "signs": 2, "conjunction": 0}


def drawn(world: str, root: Path, number: int = 0, **knobs: object) -> Task:
    made = load_world(world)
    return make_task(made, "train", number, MediaStore(root), made.knobs(**knobs))


def plan_of(task: Task, dialect: str = "tiny:look") -> Plan:
    return Plan(task, load_dialect(dialect))


def named(task: Task, name: str) -> Task:
    """The task under the id that it has in a set of tasks."""
    return task.model_copy(update={"id": f"{task.source}/test/{name}"})


def rollout(task: Task, turns: Sequence[Turn], *, right: float, group: str = "", number: int = 0) -> Trajectory:
    return Trajectory(
        id=f"{group or task.id}#{number}",
        task=task,
        group=group,
        turns=tuple(turns),
        stop=StopReason.ANSWERED,
        scores=(Score(name=CORRECT, value=right),),
        provenance=Provenance(dialect="tiny@1:look"),
    )


def calling(task: Task, calls: int, *, right: float, group: str = "", number: int = 0) -> Trajectory:
    turns = [*(ran() for _ in range(calls)), answered(task.answer or "x")]
    return rollout(task, turns, right=right, group=group, number=number)


def write_rollouts(folder: Path, rollouts: Sequence[Trajectory]) -> None:
    RunFolder(folder).append(*rollouts)


def write_steps(run: Path, steps: Sequence[dict[str, float]]) -> None:
    run.mkdir(parents=True, exist_ok=True)
    lines = [{"step": number, "rollouts": 8} | step for number, step in enumerate(steps, 1)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
