"""Tasks of any source as a taskset of verifiers, scored by their own graders or by a reward preset.

A task travels by name: its record and its pictures are made anew from the source where they are needed, so the data of
a trace hold neither the pictures nor the gold answer. Scores come from the trajectory that the harness leaves in the
trace (`trace.info["saccade"]`); without one there is nothing to score, and the trace says so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import verifiers.v1 as vf
from pydantic import Field

from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.rewards.rubric import as_rubric
from saccade.serve.task_pools import names_of, task_of

TRAJECTORY: Final = "saccade"
"""Where in `trace.info` the harness leaves the trajectory."""


class LookTaskConfig(vf.TaskConfig):  # type: ignore[misc]
    """How a trace is scored."""

    rubric: str = ""
    """A reward preset; empty: right or wrong by the task's own grader."""


class LookTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Which tasks there are."""

    sources: list[str] = Field(default_factory=lambda: ["visual-search"], min_length=1)
    """Worlds, benchmarks, files and folders by name, each with a weight or none."""
    n: int | None = None
    """Most tasks; None: all. A world, which has no end, gives its first 4096."""
    task: LookTaskConfig = LookTaskConfig()


class LookData(vf.TaskData):  # type: ignore[misc]
    """Names one task."""

    sources: list[str] = Field(default_factory=list)
    """Those that have it."""


class LookTask(vf.Task[LookData, vf.State, LookTaskConfig]):  # type: ignore[misc]
    """A question about pictures."""

    def __init__(self, data: LookData, config: LookTaskConfig | None = None) -> None:
        """Raises `RegistryError` or `SettingsError` for a rubric that there is not, or that needs a judge."""
        super().__init__(data, config)
        self._rubric = as_rubric(self.config.rubric or None)

    @property
    def key(self) -> str:
        """The task's id, which every source keeps."""
        return str(self.data.id)

    @vf.reward  # type: ignore[untyped-decorator]
    async def reward(self, trace: vf.Trace) -> Mapping[str, float]:
        """The parts of the reward that have a value, weighted."""
        scores = self._rubric(_trajectory(trace))
        return {score.name: score.value * score.weight for score in scores if score.value is not None}

    @vf.metric  # type: ignore[untyped-decorator]
    async def episode(self, trace: vf.Trace) -> Mapping[str, float]:
        """Turns, calls that did not end well, and whether there is an answer."""
        trajectory = _trajectory(trace)
        statuses = [turn.execution.status.value for turn in trajectory.turns if turn.execution is not None]
        return {
            "turns": float(len(trajectory.turns)),
            "failed_calls": float(sum(status != "ok" for status in statuses)),
            "answered": float(trajectory.answer is not None),
        }


class LookTaskset(vf.Taskset[LookTask, LookTasksetConfig]):  # type: ignore[misc]
    """The tasks of some sources."""

    def load(self) -> Iterable[LookTask]:
        """One task after the other, each made when it is asked for.

        Its prompt is the question alone: what the model is shown is made by the harness, in its dialect.

        Raises:
            SettingsError: a source's name means nothing; suggests the nearest.
            DataError, RecordError: the data of a source are not there, or cannot be read.
        """
        return self._tasks()

    def _tasks(self) -> Iterator[LookTask]:
        config: LookTasksetConfig = self.config
        with tempfile.TemporaryDirectory(prefix="saccade-verifiers-") as folder:
            store = MediaStore(folder)
            for name in names_of(tuple(config.sources), config.n):
                data = LookData(id=name, sources=config.sources)
                question = made(data, store).question
                yield LookTask(data.model_copy(update={"prompt": question}), config.task)


def made(data: LookData, store: MediaStore) -> Task:
    """The task itself, its pictures put into `store`. Raises `SettingsError` if its sources do not have it."""
    return task_of(tuple(data.sources), data.id, store)


def _trajectory(trace: vf.Trace) -> Trajectory:
    kept: Any = trace.info.get(TRAJECTORY)
    if kept is None:
        raise SettingsError("this trace holds no trajectory: play these tasks with the harness `saccade-verifiers`")
    return Trajectory.model_validate(kept)
