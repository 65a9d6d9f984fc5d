"""Keeps which tasks a run was begun with, so that it can be resumed after some were taken out of their sources.

`task-ids.jsonl` has a line for each: its id, what it says (`TaskSummary.content`), and the number of its source. A
resumed run keeps their order, and leaves out those that are no longer there: the others come when they would have come.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from saccade.core.disk import write_atomic
from saccade.errors import TrainingError
from saccade.training.rl.tasks import TaskList

_log = logging.getLogger(__name__)
TASK_IDS: Final = "task-ids.jsonl"
_NAMED: Final = 5


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

    A task is the same if it says the same, also under another id: rows without ids are numbered, and the numbers move
    when a row before them is taken out.

    Raises:
        TrainingError: there are tasks that the run was not begun with, or none is left.
    """
    file = out / TASK_IDS
    if not file.exists():
        return tasks
    before = [KeptTask(*json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    today = dict(zip(tasks.ids, tasks.contents, strict=True))
    if today == {task.id: task.content for task in before} and len(today) == len(before):
        return tasks
    names = {task.id: task.id for task in before if today.get(task.id) == task.content}
    others: dict[str, list[str]] = defaultdict(list)
    for name in reversed(tasks.ids):
        if name not in names and today[name]:
            others[today[name]].append(name)
    for task in before:
        if task.id not in names and others.get(task.content):
            names[task.id] = others[task.content].pop()
    foreign = [name for name in tasks.ids if name not in set(names.values())]
    if foreign or not names:
        what = (
            f"{len(foreign):,} of today's say something else or are new, {foreign[0]} first"
            if foreign
            else "none is left"
        )
        raise TrainingError(
            f"the run was begun with other tasks: {what}. Put the old ones back, or begin anew in another folder."
        )
    gone = frozenset(task.id for task in before if task.id not in names)
    if gone:
        shown = ", ".join([task.id for task in before if task.id in gone][:_NAMED])
        more = "" if len(gone) <= _NAMED else f" and {len(gone) - _NAMED:,} more"
        _log.warning(
            "The run in %s goes on without %s of %s tasks, which were taken out since it began: %s%s. The others are "
            "the same, and come in the same order.",
            out,
            f"{len(gone):,}",
            f"{len(before):,}",
            shown,
            more,
        )
    groups = tuple(tuple(task.id for task in before if task.source == number) for number in range(len(tasks.groups)))
    return replace(
        tasks,
        ids=tuple(task.id for task in before),
        contents=tuple(task.content for task in before),
        make=lambda name, store: tasks.make(names[name], store).model_copy(update={"id": name}),
        groups=groups,
        gone=gone,
    )
