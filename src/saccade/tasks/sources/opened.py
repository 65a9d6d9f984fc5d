"""One opened source: which tasks are taken, which are not and why, and each task with all that the source says."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import sha256
from heapq import nsmallest

from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.record.task import RewardParameter, Task
from saccade.tasks.benchmarks.problem import RowProblem
from saccade.tasks.sources.reader import SourceReader, Spot, TaskSummary
from saccade.tasks.sources.resolve import SourceDefaults, open_reader
from saccade.tasks.sources.row_tasks import SEARCH, with_open
from saccade.tasks.sources.settings import SourceSettings
from saccade.tasks.sources.world_reader import WorldReader

_SHOWN = 12
"""Tags that a message lists."""


@dataclass
class OpenSource:
    """The tasks of a source that are taken."""

    settings: SourceSettings
    reader: SourceReader
    lights: list[TaskSummary] = field(default_factory=list)
    """What is known of each; of a world its tags only where tags choose."""
    spots: list[Spot] = field(default_factory=list)
    problems: list[RowProblem] = field(default_factory=list)
    other_tags: int = 0
    """Tasks that were left out because of their tags."""
    undrawn: int = 0
    """Tasks beyond the most that are wanted."""

    @cached_property
    def _says_nothing(self) -> bool:
        """Whether the settings of the source leave its tasks as they are."""
        source = self.settings
        return not (source.prefix or source.grader or source.search or source.category or source.reward) and (
            source.open is None
        )

    @property
    def label(self) -> str:
        """What its tasks are counted under."""
        return self.reader.label

    @property
    def tags(self) -> Counter[str]:
        """How many of its tasks have a tag; of a world known only where it was drawn."""
        return Counter(tag for light in self.lights for tag in light.tags)

    @property
    def endless(self) -> bool:
        """Whether it is a world, of which there are always more."""
        return isinstance(self.reader, WorldReader)

    def make(self, place: int, store: MediaStore) -> Task:
        """The task at a place among those that are taken; raises as `SourceReader.make`."""
        return self._made(self.reader.make(self.spots[place], store))

    def line(self) -> str:
        """How many tasks are taken, and of what is not how many and why."""
        out = []
        if self.undrawn:
            out.append(f"{self.undrawn} more than the most that are wanted")
        if self.other_tags:
            out.append(f"{self.other_tags} by their tags")
        if self.problems:
            first = self.problems[0]
            out.append(f"{len(self.problems)} broken row{'s' * (len(self.problems) > 1)}, the first: {first}")
        some = "" if not out else f" (left out: {'; '.join(out)})"
        end = " of endlessly many" if self.endless else ""
        return f"{self.settings}: {len(self.lights)} task{'s' * (len(self.lights) != 1)}{end}{some}"

    def finished(self, light: TaskSummary) -> TaskSummary:
        """What is known of a task, with what the settings of its source say."""
        source = self.settings
        if self._says_nothing:
            return light
        reward = tuple((dict(light.reward) | source.reward).items())
        grader = with_open(source.grader or light.grader, source.open)
        return replace(light, id=source.prefix + light.id, tags=self._tags(light.tags), grader=grader, reward=reward)

    def _made(self, task: Task) -> Task:
        source = self.settings
        reward = {parameter.name: parameter.value for parameter in task.reward} | source.reward
        changes = {
            "id": source.prefix + task.id,
            "grader": with_open(source.grader or task.grader, source.open),
            "tags": self._tags(task.tags),
            "reward": tuple(RewardParameter(name=name, value=value) for name, value in reward.items()),
        }
        return task.model_copy(update=changes)

    def _tags(self, tags: tuple[str, ...]) -> tuple[str, ...]:
        source = self.settings
        more: tuple[str, ...] = (SEARCH,) if source.search else ()
        more += (f"category={source.category}",) if source.category else ()
        return (*tags, *(tag for tag in more if tag not in tags)) if more else tags


def open_source(source: SourceSettings, wanted: SourceDefaults) -> OpenSource:
    """The source with its tasks scanned and chosen.

    Raises:
        SettingsError, RegistryError, DataError: as `open_reader`, or no task is left.
        RecordError, UnavailableError: its files cannot be read.
    """
    opened = OpenSource(source, open_reader(source, wanted))
    most = min((most for most in (source.most, wanted.most) if most), default=None)
    if isinstance(opened.reader, WorldReader):
        most = opened.reader.count
    with _uncollected():
        for spot, light in _chosen_by_tag(opened, most):
            opened.lights.append(opened.finished(light))
            opened.spots.append(spot)
    if most is not None and len(opened.lights) > most:
        keep = sorted(drawn([light.id for light in opened.lights], most, source.seed))
        opened.undrawn = len(opened.lights) - most
        opened.lights = [opened.lights[place] for place in keep]
        opened.spots = [opened.spots[place] for place in keep]
    if not opened.lights:
        raise SettingsError(_nothing(opened))
    return opened


@contextmanager
def _uncollected() -> Iterator[None]:
    """No search for cycles meanwhile: what a scan keeps has none, and each search would look through all of it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _chosen_by_tag(opened: OpenSource, most: int | None) -> Iterator[tuple[Spot, TaskSummary]]:
    source = opened.settings
    seen: Counter[str] = Counter()
    taken = 0
    for row in opened.reader.scan():
        if isinstance(row, RowProblem):
            opened.problems.append(row)
            continue
        tags = row[1].tags
        if (source.tags and not _any(tags, source.tags)) or _any(tags, source.without):
            opened.other_tags += 1
            seen.update(tags)
            continue
        yield row
        taken += 1
        if opened.endless and taken == most:
            return
    if not taken and seen:
        listed = ", ".join(tag for tag, _ in seen.most_common(_SHOWN))
        raise SettingsError(
            f"{source}: none of {seen.total()} tasks has the wanted tags. They have, among others: {listed}."
        )


def _any(tags: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(tag == wanted or ("*" in wanted and fnmatchcase(tag, wanted)) for wanted in patterns for tag in tags)


def _nothing(opened: OpenSource) -> str:
    if opened.problems:
        rows = "\n".join(f"  {problem}" for problem in opened.problems[:5])
        return f"{opened.settings} gives no task. Its broken rows ({len(opened.problems)} in all):\n{rows}"
    return f"{opened.settings} holds no tasks."


def drawn(names: Sequence[str], n: int | None, seed: int) -> frozenset[int]:
    """Places of the `n` names that the seed chooses; all of them if there are no more, or `n` is None.

    They depend on the seed and the names alone, and those of a larger `n` hold those of a smaller one.
    """
    if n is None or n >= len(names):
        return frozenset(range(len(names)))
    ranks = ((sha256(f"{seed}:{name}".encode()).digest(), place) for place, name in enumerate(names))
    return frozenset(place for _, place in nsmallest(n, ranks))
