"""Where the tasks of an evaluation come from: any source that `saccade.tasks.sources` knows.

A benchmark that is named by its card alone keeps its tasks in the run folder (`benchmarks.py`). Of everything else a
task is made, its media put into the run's store, only when it is played. Rows that give no task are kept among the
run's failures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from saccade.dialects.base import Dialect
from saccade.episode.task_graders import check_graders
from saccade.episode.task_media import Unshown, unshown
from saccade.errors import SettingsError
from saccade.evals.benchmarks import BROKEN_ROW, open_card
from saccade.evals.failures import SampleFailure, add_failure, open_failures
from saccade.evals.items import Item, ItemSource, of_shard
from saccade.evals.settings import EvalSettings
from saccade.media.store import MediaStore
from saccade.record.base import clean_text
from saccade.tasks.frames import FrameSettings
from saccade.tasks.sources.opened import OpenSource, drawn, open_source
from saccade.tasks.sources.resolve import SourceDefaults, kind_of, with_knobs
from saccade.tasks.sources.settings import SourceSettings, check_weights
from saccade.tasks.sources.shares import Turns, most_in_shares
from saccade.tasks.sources.task_set import expanded


@dataclass(frozen=True)
class OpenedSource:
    """A source of which a task is made when it is played; of its tasks `n`, all if None."""

    opened: OpenSource
    n: int | None = None

    @property
    def note(self) -> str:
        opened = self.opened
        if opened.endless or not (opened.problems or opened.other_tags or self._missing):
            return ""
        short = f"; its share would be {self.n}" if self._missing else ""
        return f"{opened.line()}{short}"

    @property
    def _missing(self) -> bool:
        """Whether there are fewer tasks than its share asks for."""
        return self.opened.settings.weight is not None and (self.n or 0) > len(self.opened.lights)

    def unshown(self, dialect: Dialect, frames: FrameSettings) -> Sequence[Unshown]:
        return tuple(unshown(self.opened, dialect, frames))

    async def items(self, settings: EvalSettings, out: Path, store: MediaStore) -> Sequence[Item]:
        if settings.shards[0] == 0:
            self._keep_problems(out)
        lights = self.opened.lights
        ids = [light.id for light in lights]
        places = range(len(ids))[: self.n]  # of a world one task more is there where its share is none
        chosen = frozenset(places) if self.opened.endless else drawn(ids, self.n, settings.seed)
        return of_shard([self._item(place, name) for place, name in enumerate(ids)], settings, chosen)

    def _item(self, place: int, name: str) -> Item:
        return Item(name, lambda store: self.opened.make(place, store))

    def _keep_problems(self, out: Path) -> None:
        known = open_failures(out, ())
        for problem in self.opened.problems:
            name = f"{self.opened.label}/{problem.file}:{problem.row}"[:200]
            if name not in known:
                add_failure(out, SampleFailure(id=name, kind=BROKEN_ROW, detail=clean_text(str(problem))))


def open_sources(settings: EvalSettings) -> Mapping[str, ItemSource]:
    """The sources of a run by their names.

    Raises:
        SettingsError: a name means nothing, a world is asked for all its tasks, only some sources have a weight, a
            setting of worlds would change nothing, or tasks name a grader that cannot be had.
        RegistryError: a card names a grader that does not exist.
        DataError: the data of a benchmark are not on this disk; says how to get them.
    """
    sources = with_knobs(expanded(settings.sources), settings.knobs)
    if settings.split != "test" and not any(kind_of(source.name) == "world" for source in sources):
        raise SettingsError(f"split {settings.split} is one of generated worlds, and no source is one. Leave it out.")
    if check_weights(sources):
        return _shared(sources, settings)
    opened: dict[str, ItemSource] = {}
    for source in sources:
        if kind_of(source.name) == "card" and source == SourceSettings(name=source.name, split=source.split):
            opened[str(source)] = open_card(str(source), settings)
        else:
            opened[str(source)] = OpenedSource(_opened(source, settings, settings.n), settings.n)
    return opened


def _opened(source: SourceSettings, settings: EvalSettings, most: int | None) -> OpenSource:
    """The source; a world with `most` tasks, all else whole, for the seed of the run to choose."""
    data = Path(settings.data) if settings.data else None
    most = most if kind_of(source.name) == "world" else None
    opened = open_source(source, SourceDefaults(settings.split, data, most, world_tasks=None))
    if not settings.grader:
        check_graders([opened])
    return opened


def _shared(sources: Sequence[SourceSettings], settings: EvalSettings) -> dict[str, ItemSource]:
    """Sources with weights: `n` tasks of all together, without it as many as leave everyone's share as it is."""
    turns = Turns([source.weight or 0.0 for source in sources])
    if settings.n is not None:
        counts = turns.counts(settings.n)
        opened = [_opened(source, settings, max(1, n)) for source, n in zip(sources, counts, strict=True)]
    else:
        opened = [_opened(source, settings, None) for source in sources]
        sizes = [len(one.lights) for one in opened]
        counts = turns.counts(most_in_shares(turns.shares, sizes))
    return {str(source): OpenedSource(one, n) for source, one, n in zip(sources, opened, counts, strict=True)}


def check_shown(sources: Mapping[str, ItemSource], settings: EvalSettings, dialect: Dialect) -> tuple[str, ...]:
    """What to say of tasks that the dialect cannot show, where others of their source can be played.

    Raises:
        SettingsError: no task of a source can be.
    """
    notices = []
    for source in sources.values():
        for problem in source.unshown(dialect, settings.frames):
            if problem.all:
                raise SettingsError(str(problem))
            notices.append(f"{problem} As it is, they come to nothing; the others are played.")
    return tuple(notices)


async def chosen(
    sources: Mapping[str, ItemSource], settings: EvalSettings, out: Path, store: MediaStore
) -> tuple[Item, ...]:
    """The tasks of a run: of each source its part, and of them this shard's.

    Raises:
        SettingsError: two tasks share an id.
        RecordError, DataError: the tasks of a source cannot be read.
    """
    items: dict[str, Item] = {}
    for name, source in sources.items():
        for item in await source.items(settings, out, store):
            if item.id in items:
                raise SettingsError(f"two tasks have the id {item.id} ({name}). Ids must differ; name a source once.")
            items[item.id] = item
    return tuple(items.values())
