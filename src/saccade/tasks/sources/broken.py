"""Leaves out tasks that cannot be made, so that one picture that is broken or gone ends no run.

Each is counted, listed with its reason, and skipped; a run ends once they are more than a share of its tasks.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Annotated, Final

from pydantic import Field

from saccade.errors import DataError, MediaError, RecordError
from saccade.record.task import Task

_log = logging.getLogger(__name__)
LEFT_OUT: Final = "left-out.jsonl"
"""File in a run's folder: a line for each task that was left out, with its id and the reason."""
MOST_BROKEN: Final = 0.2
BROKEN: Final = (DataError, RecordError, MediaError)
"""What a task raises that cannot be made of its row."""

Share = Annotated[float, Field(ge=0, le=1)]


def too_many(broken: int, total: int, most: float) -> bool:
    """Tell whether so many broken tasks of `total` are more than the share `most`; one alone never is."""
    return broken > max(1, most * total)


def refusal(broken: int, total: int, most: float, first: str) -> DataError:
    """Return the error that ends a run with too many broken tasks."""
    return DataError(
        f"{broken:,} of {total:,} tasks cannot be made, more than the share that a run leaves out (most_broken = "
        f"{most:g}). The first: {first} `saccade tasks check` lists all, `saccade tasks write` makes a source of the "
        "others; or raise most_broken."
    )


class BrokenTasks:
    """The tasks of a run that were left out. Safe to use from several threads; several processes share a file."""

    def __init__(self, total: int, most: float = MOST_BROKEN, file: Path | None = None) -> None:
        """Count among `total` tasks, of which the share `most` may be broken, and list them in `file`."""
        self._total, self._most, self._file = total, most, file
        self._reasons: dict[str, str] = {}
        self._lock = Lock()

    @property
    def reasons(self) -> dict[str, str]:
        """Return why each task was left out, by its id: those of this process, and those that the file lists."""
        listed = {}
        if self._file is not None and self._file.exists():
            for line in self._file.read_text(encoding="utf-8").splitlines():
                try:
                    item = json.loads(line)
                    listed[str(item["id"])] = str(item["reason"])
                except (ValueError, KeyError, TypeError):
                    continue  # cut short by the end of a process
        return listed | self._reasons

    def made(self, name: str, make: Callable[[], Task]) -> Task | None:
        """Return what `make` gives; None if the task cannot be made.

        Raises:
            DataError: these are too many by now.
        """
        try:
            return make()
        except BROKEN as error:
            self._add(name, str(error))
            return None

    def _add(self, name: str, reason: str) -> None:
        with self._lock:
            known = self.reasons
            if name not in known:
                self._reasons[name] = reason
                _log.warning("The task %s is left out: %s", name, reason)
                if self._file is not None:
                    self._file.parent.mkdir(parents=True, exist_ok=True)
                    with self._file.open("a", encoding="utf-8") as lines:
                        lines.write(json.dumps({"id": name, "reason": reason}, ensure_ascii=False) + "\n")
            count = len(known | self._reasons)
        if too_many(count, self._total, self._most):
            raise refusal(count, self._total, self._most, f"{name}: {reason}")


_NAMED = 5


@dataclass(frozen=True, slots=True)
class FoundAgain:
    """Where the tasks of a run are now."""

    names: Mapping[str, str]
    """Id in the run -> id today."""
    gone: tuple[str, ...]
    """Tasks of the run that are not there any more, in its order."""
    foreign: tuple[str, ...]
    """Ids of today's tasks that the run was not begun with, or that say something else now."""

    def said(self) -> str:
        """Name the first of those that are gone."""
        more = f" and {len(self.gone) - _NAMED:,} more" if len(self.gone) > _NAMED else ""
        return ", ".join(self.gone[:_NAMED]) + more


def found_again(before: Sequence[tuple[str, str]], today: Iterable[tuple[str, str]]) -> FoundAgain:
    """Match tasks, each an id and what it says, that a run was begun with to those of today."""
    now = dict(today)
    names = {name: name for name, content in before if now.get(name) == content}
    others: dict[str, list[str]] = defaultdict(list)
    for name, content in reversed(now.items()):
        if name not in names and content:
            others[content].append(name)
    for name, content in before:
        if name not in names and others.get(content):
            names[name] = others[content].pop()
    taken = set(names.values())
    gone = tuple(name for name, _ in before if name not in names)
    return FoundAgain(names, gone, tuple(name for name in now if name not in taken))
