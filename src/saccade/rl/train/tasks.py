"""The tasks of a run, and their order: epochs, each a shuffle of its own, without a gap between them.

Where sources have weights, each has its epochs, and they take turns so that every source has its share from the first
step on: an epoch of a small one comes round more often.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from saccade.dialects.base import Dialect
from saccade.episode.task_media import check_media
from saccade.media.store import MediaStore
from saccade.record.task import Task
from saccade.rl.select.curriculum import epoch_order
from saccade.tasks.sources.resolve import SourceDefaults, open_reader
from saccade.tasks.sources.settings import SourceSettings
from saccade.tasks.sources.shares import Turns
from saccade.tasks.sources.task_set import TaskPool, expanded, open_tasks
from saccade.tasks.sources.world_reader import WorldReader

_log = logging.getLogger(__name__)
_order = lru_cache(16)(epoch_order)


@dataclass(frozen=True)
class TaskList:
    """Tasks that can be made."""

    ids: tuple[str, ...]
    make: Callable[[str, MediaStore], Task]
    """The task of that id; its media are put into the store."""
    total: int | None = None
    """Tasks of the sources; None: one has no end."""
    groups: tuple[tuple[str, ...], ...] = ()
    """The ids of each source, where sources have shares."""
    shares: tuple[float, ...] = ()

    def at(self, place: int, seed: int) -> str:
        """The id of the task at `place` (from 0) of an endless sequence of epochs."""
        if not self.groups:
            return _at(self.ids, place, seed)
        group, before = self._turns.at(place)
        return _at(self.groups[group], before, seed)

    def only(self, ids: Sequence[str]) -> TaskList:
        """The same with these tasks alone; a source of which none is left has no share any more."""
        if not self.groups:
            return TaskList(tuple(ids), self.make, self.total)
        left = frozenset(ids)
        kept = [
            (tuple(name for name in group if name in left), share)
            for group, share in zip(self.groups, self.shares, strict=True)
        ]
        kept = [(group, share) for group, share in kept if group]
        return TaskList(
            tuple(ids), self.make, self.total, tuple(group for group, _ in kept), tuple(share for _, share in kept)
        )

    @cached_property
    def _turns(self) -> Turns:
        return Turns(self.shares)


def validation_tasks(
    named: Sequence[str],
    trained_on: Sequence[str | SourceSettings],
    most: int,
    dialect: Dialect | None = None,
) -> TaskList | None:
    """The tasks that a run is watched on, of each source at most `most`; None where there are none.

    If none are `named`, those of the validation splits of the worlds that are trained on. Raises as `open_tasks`, and
    `SettingsError` where the `dialect` cannot show one of them.
    """
    wanted = SourceDefaults(split="validation", most=most)
    if named:
        return _checked(open_tasks(named, wanted), dialect)
    plain = [source.model_copy(update={"split": "", "most": most}) for source in expanded(trained_on)]
    worlds = [source for source in plain if isinstance(open_reader(source, wanted), WorldReader)]
    if not worlds:
        _log.warning("Nothing is validated: no world is trained on, and validation.source names no tasks.")
        return None
    return _checked(open_tasks(worlds, wanted), dialect)


def _checked(tasks: TaskPool, dialect: Dialect | None) -> TaskList:
    if dialect is not None:
        check_media(tasks.parts, dialect)
    return as_list(tasks)


def as_list(tasks: TaskPool) -> TaskList:
    """The tasks as a run draws them."""
    shares = tasks.shares if len(tasks.parts) > 1 else None
    groups = () if shares is None else tuple(tuple(light.id for light in part.lights) for part in tasks.parts)
    return TaskList(tasks.ids, tasks.make, tasks.total, groups, shares or ())


def _at(ids: tuple[str, ...], place: int, seed: int) -> str:
    return _order(ids, seed, place // len(ids))[place % len(ids)]
