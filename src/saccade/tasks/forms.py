"""Forms of others in which tasks are written, by name: `saccade tasks write --to NAME`.

Packages add theirs by an entry point of the group `saccade.task-forms`; nothing is imported before it is asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

from saccade.media.store import MediaStore
from saccade.record.registry import Registry, has_members
from saccade.record.settings import Settings
from saccade.record.task import Task


class TaskForm(Protocol):
    """Writes tasks one by one in a form of others."""

    settings: type[Settings]
    """Class of the settings of this form."""

    def write(self, task: Task, store: MediaStore, root: Path, settings: Any) -> Path:
        """Write a task below the folder `root`, which is made if missing; return its place.

        Raises:
            DataError: the task cannot be written in this form, or is there already.
            MissingMediaError: the store lacks a picture.
        """


TASK_FORMS: Final = Registry[TaskForm]("task-forms", {}, has_members(("settings", "write")))
