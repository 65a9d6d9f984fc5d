"""The tasks of a reproduction as files: `tasks.jsonl` and `media/`, drawn from generated worlds.

Demonstrations take the split `train` from its beginning, training takes it from `DEMONSTRATIONS_END` on, and the
examination takes the split `test`: nothing is examined that was seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from saccade.episode.run_folder import MEDIA
from saccade.media.store import MediaStore
from saccade.record.codec import write_lines
from saccade.record.task import Task
from saccade.reproduce.settings import TaskSet
from saccade.tasks.sources.folder import TASKS
from saccade.tasks.worlds.base import draw_sample, store_sample
from saccade.tasks.worlds.registry import chosen_knobs, load_world

DEMONSTRATIONS_END: Final = 100_000
"""Index from which tasks of the split `train` are in no demonstration."""
Part = Literal["train", "held-out"]


def write_tasks(sets: Sequence[TaskSet], part: Part, folder: Path) -> Path:
    """The tasks of `sets`, the sets and worlds taking turns, in `folder`, where they are not there already.

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
    """The name of the set that a task was drawn from."""
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
