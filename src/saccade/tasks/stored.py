"""Tasks on the disk: records in `tasks.jsonl`, their media in a store beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from saccade.media.store import MediaStore
from saccade.record.task import Task

TASKS: Final = "tasks.jsonl"


def tasks_file(source: str) -> Path | None:
    """The file of records that `source` names: itself, or the one in that folder; None if there is none."""
    path = Path(source)
    file = path / TASKS if path.is_dir() else path
    return file if file.is_file() else None


def with_media(task: Task, kept: MediaStore, store: MediaStore) -> Task:
    """The task, once its media are copied from `kept` to `store`. Raises `MediaError` if they are in neither."""
    for item in task.media:
        if item.part not in store:
            store.put_blob(kept.get_bytes(item.part.sha256))
    return task
