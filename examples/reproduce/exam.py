"""The tasks of a reproduction as files, where its parts are, and what an examination shows of every task.

Tasks are `tasks.jsonl` and `media/`. Demonstrations take the split `train` from its beginning, training takes it from
`DEMONSTRATIONS_END` on, and the examination takes the split `test`: nothing is examined that was seen. The folder of a
claim:

settings.toml  plan.json  start/  tasks/SETS/{train,held-out}/  probe/  arms/ARM/SEED/  exams/ARM/SEED/
report.md  result.json  figure.png  figure.svg
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from examples.reproduce.settings import Arm, Reproduction, TaskSet
from saccade.episode.regions import StoredPixels, regions
from saccade.episode.run_folder import MEDIA, RunFolder
from saccade.media.store import MediaStore
from saccade.plugins.worlds.experts.demonstrator import is_looked_for
from saccade.record.codec import read_lines, write_lines
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.rewards.judges.answer import BoxJudge, BoxRule
from saccade.rewards.reward import accuracy, calls, returned_pictures
from saccade.tasks.sources.folder import TASKS
from saccade.tasks.worlds import chosen_knobs, draw_sample, load_world, store_sample

DEMONSTRATIONS_END: Final = 100_000
"""Index from which tasks of the split `train` are in no demonstration."""
Part = Literal["train", "held-out"]


def write_tasks(sets: Sequence[TaskSet], part: Part, folder: Path) -> Path:
    """Write the tasks of `sets`, the sets and worlds taking turns, to `folder`, if they are not there already.

    Raises:
        RegistryError: there is no such world.
        SettingsError: a knob is wrong.
    """
    if not (folder / TASKS).exists():
        store = MediaStore(folder / MEDIA)
        each = [list(_drawn(item, part, store)) for item in sets]
        longest = max(map(len, each))
        mixed = [tasks[number] for number in range(longest) for tasks in each if number < len(tasks)]
        write_lines(folder / TASKS, mixed)
    return folder


def set_of(task_id: str) -> str:
    """Return the name of the set that a task was drawn from."""
    return task_id.split("/")[2].rpartition("-")[0]


def _drawn(item: TaskSet, part: Part, store: MediaStore) -> Iterator[Task]:
    split: Literal["train", "test"] = "train" if part == "train" else "test"
    first, count = (DEMONSTRATIONS_END, item.train) if part == "train" else (0, item.held_out)
    worlds = [load_world(name) for name in item.worlds]
    knobs = chosen_knobs(worlds, item.knobs)
    for number in range(first, first + count):
        for world in worlds:
            sample = draw_sample(world, split, number, knobs[world.id])
            name = f"{world.id}/{split}/{item.name}-{number}"
            yield store_sample(sample, store, task_id=name, split=split)


START = "start"


@dataclass(frozen=True, slots=True)
class Places:
    """The parts under `root`."""

    root: Path
    settings: Reproduction

    @property
    def start(self) -> Path:
        """Demonstrations and training of the start."""
        return self.root / START

    def tasks(self, arm: Arm, part: Part) -> Path:
        """Return the folder of an arm's tasks."""
        return self.root / "tasks" / "+".join(self.settings.sets_of(arm)) / part

    def arm(self, arm: Arm, seed: int) -> Path:
        """Return the folder of an arm's run."""
        return self.root / "arms" / arm.name / str(seed)

    def exam(self, arm: Arm, seed: int) -> Path:
        """Return the folder of an arm's examination."""
        return self.root / "exams" / arm.name / str(seed)

    def start_exam(self, arm: Arm) -> Path:
        """Return the folder of the start's examination by the tasks of an arm, in its dialect."""
        spoken = arm.dialect.replace(":", "-").replace("@", "-")
        return self.root / "exams" / START / f"{'+'.join(self.settings.sets_of(arm))}-{spoken}"


@dataclass(frozen=True, slots=True)
class ExamAnswer:
    """One held-out task and what came of it."""

    task: str
    """Its id."""
    set: str
    """Name of its task set."""
    right: float
    """Accuracy, 0 to 1."""
    calls: int
    searched: bool
    """The task is visual search: a detail to be found by eye."""
    boxed: bool
    """Gold boxes say where the evidence is."""
    looked: bool
    """A call gave back a picture."""
    saw_evidence: bool
    """A call cut out the evidence, as gold boxes say."""

    @property
    def faithful(self) -> float:
        """1 for a right answer whose evidence was cut out (CodeV, table 5), else 0."""
        return self.right * self.saw_evidence


def read_exam(out: Path) -> tuple[ExamAnswer, ...]:
    """Read the examination in the folder `out`; rollouts that were lost or could not be graded are left out."""
    folder = RunFolder(out)
    if not folder.path.exists():
        return ()
    judge = BoxJudge(partial(regions, book=StoredPixels(folder.store)))
    read = (_answer(item, judge) for item in read_lines(folder.path, Trajectory))
    return tuple(item for item in read if item is not None)


def _answer(trajectory: Trajectory, judge: BoxJudge) -> ExamAnswer | None:
    right = accuracy(trajectory)
    if right is None:
        return None
    verdicts = judge.verdicts(trajectory) if trajectory.task.evidence else ()
    saw_evidence = any(item is not None and item.score == BoxRule().full for item in verdicts)
    return ExamAnswer(
        trajectory.task.id,
        set_of(trajectory.task.id),
        right,
        len(calls(trajectory)),
        is_looked_for(trajectory.task),
        bool(trajectory.task.evidence),
        returned_pictures(trajectory) > 0,
        saw_evidence,
    )
