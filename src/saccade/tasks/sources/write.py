"""Tasks of any sources as one folder that every command takes: `tasks.jsonl`, `media/`, and what was left out.

The folder appears complete or not at all. Rows that give no task are listed in `left-out.jsonl` with the reason.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from saccade.errors import DataError, MediaError, RecordError
from saccade.media.store import MediaStore
from saccade.record.codec import dumps
from saccade.record.disk import new_folder
from saccade.tasks.sources.folder import TASKS
from saccade.tasks.sources.record_reader import MEDIA
from saccade.tasks.sources.task_set import TaskPool

LEFT_OUT: Final = "left-out.jsonl"


@dataclass(frozen=True, slots=True)
class WrittenTasks:
    """How it went."""

    tasks: int
    left_out: tuple[str, ...]
    """Why a row gave no task, one reason each."""


def write_tasks(
    tasks: TaskPool, names: Sequence[str], folder: Path, on_task: Callable[[], None] = lambda: None
) -> WrittenTasks:
    """Write the tasks of `names`, in that order, to `folder`.

    Raises:
        RecordError: `folder` exists and is not empty, or not one task could be made.
    """
    reasons = [str(problem) for problem in tasks.problems]
    written = 0
    with new_folder(folder) as partial:
        store = MediaStore(partial / MEDIA)
        with (partial / TASKS).open("wb") as file:
            for name in names:
                try:
                    file.write(dumps(tasks.make(name, store)).encode() + b"\n")
                    written += 1
                except (DataError, MediaError, RecordError) as error:
                    reasons.append(str(error))
                on_task()
            file.flush()
            os.fsync(file.fileno())
        if not written:
            raise RecordError(f"no task could be written; the first reason of {len(reasons)}: {reasons[0]}")
        if reasons:
            lines = (json.dumps({"reason": reason}, ensure_ascii=False) + "\n" for reason in reasons)
            (partial / LEFT_OUT).write_text("".join(lines), encoding="utf-8")
    return WrittenTasks(written, tuple(reasons))
