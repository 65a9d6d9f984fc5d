"""Finds the tasks that a run was begun with among those of today, after rows were taken out of a file or put in.

A task is the same if it says the same (`TaskSummary.content`), also under another id: rows without ids are numbered,
and the numbers move when a row before them is taken out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
