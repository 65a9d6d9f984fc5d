"""Keeps which tasks a run was begun with, so that it can be resumed after some were taken out of their sources.

`task-ids.jsonl` has a line for each: its id, what it says (`TaskSummary.content`), and the number of its source. A
resumed run keeps their order, and leaves out those that are no longer there: the others come when they would have come.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from saccade.core.disk import write_atomic
from saccade.errors import TrainingError
from saccade.tasks.sources.kept import found_again
from saccade.training.rl.tasks import TaskList

_log = logging.getLogger(__name__)
TASK_IDS: Final = "task-ids.jsonl"


class KeptTask(NamedTuple):
    """A task that the run was begun with."""

    id: str
    content: str
    source: int


def keep_tasks(tasks: TaskList, out: Path) -> None:
    """Write which tasks the run in `out` begins with."""
    sources = {name: number for number, group in enumerate(tasks.groups) for name in group}
    kept = (
        KeptTask(name, content, sources.get(name, 0)) for name, content in zip(tasks.ids, tasks.contents, strict=True)
    )
    write_atomic(out / TASK_IDS, "".join(json.dumps(task, ensure_ascii=False) + "\n" for task in kept))


def resumed_tasks(tasks: TaskList, out: Path) -> TaskList:
    """Return the tasks with which the run in `out` was begun, made from `tasks`, which are those of today.

    Raises `TrainingError`: there are tasks that the run was not begun with, or none is left.
    """
    file = out / TASK_IDS
    if not file.exists():
        return tasks
    before = [KeptTask(*json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    found = found_again([task[:2] for task in before], zip(tasks.ids, tasks.contents, strict=True))
    if found.foreign or not found.names:
        new = f"{len(found.foreign):,} of today's say something else or are new, {', '.join(found.foreign[:1])} first"
        raise TrainingError(
            f"the run was begun with other tasks: {new if found.foreign else 'none is left'}. Put the old ones back, "
            "or begin anew in another folder."
        )
    if found.gone:
        _log.warning(
            "The run in %s goes on without %s of %s tasks, which were taken out since it began: %s. The others are the "
            "same, and come in the same order.",
            out,
            f"{len(found.gone):,}",
            f"{len(before):,}",
            found.said(),
        )
    groups = tuple(tuple(task.id for task in before if task.source == number) for number in range(len(tasks.groups)))
    return replace(
        tasks,
        ids=tuple(task.id for task in before),
        contents=tuple(task.content for task in before),
        make=lambda name, store: tasks.make(found.names[name], store).model_copy(update={"id": name}),
        groups=groups,
        gone=frozenset(found.gone),
    )
