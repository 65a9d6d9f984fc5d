"""Which trajectories a filter looks at: those of some sources or with some tags, or all but those."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import BeforeValidator

from saccade.record.settings import Settings
from saccade.record.task import Task
from saccade.tasks.benchmarks.card import as_tuple

_Patterns = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]


class TaskPattern(Settings):
    """Tasks of one of the sources or with one of the tags; `*` stands for anything."""

    sources: _Patterns = ()
    """With or without a version: `chartqa` is `chartqa@1` as well."""
    tags: _Patterns = ()

    def has(self, task: Task) -> bool:
        """Whether the task is one of them."""
        names = (task.source, task.source.partition("@")[0])
        return any(fnmatchcase(name, pattern) for name in names for pattern in self.sources) or any(
            fnmatchcase(tag, pattern) for tag in task.tags for pattern in self.tags
        )

    def __bool__(self) -> bool:
        return bool(self.sources or self.tags)


class FilterBranch(Settings):
    """The tasks that a filter is for; all where nothing is said."""

    only: TaskPattern = TaskPattern()
    without: TaskPattern = TaskPattern()

    def has(self, task: Task) -> bool:
        """Whether the filter looks at trajectories of this task; others pass it by."""
        return (not self.only or self.only.has(task)) and not self.without.has(task)
