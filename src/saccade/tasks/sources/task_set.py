"""Tasks of one source or of several, made when they are wanted.

    tasks = open_tasks(["photos/=0.7", "visual-search=0.3"])
    task = tasks.make(tasks.ids[0], store)

Every name of a task is unique in a pool. Sources with weights share what is drawn: with 0.7 and 0.3, of ten tasks in a
row seven are of the first. Without weights every task counts alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tomllib import TOMLDecodeError, loads

from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.recipes.find import find_recipe, recipe_names
from saccade.record.settings import Settings, load_settings
from saccade.record.task import Task
from saccade.tasks.benchmarks.problem import RowProblem
from saccade.tasks.sources.opened import OpenSource, open_source
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.settings import SourceSettings, check_weights, parse_source
from saccade.tasks.sources.shares import Turns, most_in_shares
from saccade.tasks.sources.tables import RowPlace

SourceList = Iterable[str | SourceSettings]


class SourceFile(Settings):
    """A TOML file of sources."""

    source: tuple[SourceSettings, ...]


@dataclass(frozen=True)
class TaskPool:
    """The tasks of some sources."""

    parts: tuple[OpenSource, ...]

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Of all tasks, source after source."""
        return tuple(self._places)

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        places: dict[str, tuple[int, int]] = {}
        for number, part in enumerate(self.parts):
            for place, light in enumerate(part.lights):
                name = light.id
                if name in places:
                    first, at = places[name]
                    raise SettingsError(_twice(name, (self.parts[first], at), (part, place)))
                places[name] = (number, place)
        return places

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __len__(self) -> int:
        return len(self._places)

    def make(self, name: str, store: MediaStore) -> Task:
        """The task of that id, its media put into `store`.

        Raises:
            DataError, RecordError, MediaError: it cannot be made; the message names the row.
        """
        number, place = self._places[name]
        return self.parts[number].make(place, store)

    def tasks(self, store: MediaStore) -> Iterator[Task]:
        """All of them, one after the other."""
        for name in self.ids:
            yield self.make(name, store)

    @property
    def shares(self) -> tuple[float, ...] | None:
        """What part of what is drawn each source has; None where every task counts alike."""
        weights = [part.settings.weight for part in self.parts]
        known = [weight for weight in weights if weight is not None]
        return tuple(weight / sum(known) for weight in known) if len(known) == len(weights) else None

    def ordered(self, n: int | None = None) -> tuple[str, ...]:
        """The ids in the order in which a file or a page has them.

        With shares the sources take turns: `n` tasks in all, or as many as leave every share as it is. Without shares
        they come one after the other, and `n` does nothing.
        """
        if self.shares is None or len(self.parts) == 1:
            return self.ids
        turns = Turns(self.shares)
        sizes = [len(part.lights) for part in self.parts]
        count = most_in_shares(self.shares, sizes) if n is None else n
        places = (turns.at(number) for number in range(count))
        return tuple(self.parts[part].lights[place].id for part, place in places if place < sizes[part])

    @property
    def problems(self) -> tuple[RowProblem, ...]:
        """The rows that give no task."""
        return tuple(problem for part in self.parts for problem in part.problems)

    @property
    def total(self) -> int | None:
        """How many tasks the sources have, those that were left out included; None where one has no end."""
        if any(part.endless for part in self.parts):
            return None
        return sum(len(part.lights) + part.undrawn + part.other_tags + len(part.problems) for part in self.parts)

    def lines(self) -> tuple[str, ...]:
        """For each source how many tasks are taken, and what is left out and why; then the shares."""
        said = [part.line() for part in self.parts]
        if self.shares is not None and len(self.parts) > 1:
            shares = (f"{part.settings} {share:.1%}" for part, share in zip(self.parts, self.shares, strict=True))
            said.append(f"shares of what is drawn: {', '.join(shares)}")
        return tuple(said)


def open_tasks(sources: SourceList, wanted: SourceDefaults | None = None) -> TaskPool:
    """The tasks of the sources; their pictures are not opened.

    Raises:
        SettingsError: a name means nothing (suggests the nearest), two tasks share an id, only some have a weight, or a
            source gives no task.
        RegistryError: code of the user's own cannot be loaded.
        DataError, RecordError: the data are not there, or cannot be read.
        UnavailableError: what reads them is not installed.
    """
    listed = expanded(sources)
    if not listed:
        raise SettingsError("no tasks are named. Name a world, a benchmark, a file or a folder.")
    check_weights(listed)
    made = TaskPool(tuple(open_source(source, wanted or SourceDefaults()) for source in listed))
    len(made)  # refuses two tasks of one id
    return made


def expanded(sources: SourceList) -> tuple[SourceSettings, ...]:
    """The sources, each file of `[[source]]` tables replaced by what it holds.

    Raises:
        SettingsError: a text is no source, or a file of sources is wrong.
    """
    listed: list[SourceSettings] = []
    for source in sources:
        named = parse_source(source) if isinstance(source, str) else source
        if is_source_file(named.name):
            listed += _of_file(named)
        else:
            listed.append(named)
    return tuple(listed)


def _file_named(name: str) -> str:
    """The file of a bundled mixture of that name, if there is one; else the name as it is."""
    return str(find_recipe("sources", name)) if name in recipe_names("sources") else name


def is_source_file(name: str) -> bool:
    """Whether `name` is a TOML file of `[[source]]` tables, or a bundled mixture, and no card."""
    path = Path(_file_named(name))
    if path.suffix != ".toml" or not path.is_file():
        return False
    try:
        return isinstance(loads(path.read_text(encoding="utf-8")).get("source"), list)
    except (TOMLDecodeError, UnicodeDecodeError):
        return False  # whoever reads it as a card says what is wrong


def _of_file(named: SourceSettings) -> Sequence[SourceSettings]:
    """What a file of sources holds; a weight of the file is shared among them."""
    if named != SourceSettings(name=named.name, weight=named.weight):
        raise SettingsError(f"{named.name} is a file of sources: what is to be set of them stands in it.")
    held = load_settings(SourceFile, _file_named(named.name)).source
    if nested := [source.name for source in held if is_source_file(source.name)]:
        raise SettingsError(f"{named.name} names {nested[0]}, which is a file of sources too. Put its tables here.")
    if named.weight is None:
        return held
    check_weights(held)
    weight_sum = sum(source.weight or 1.0 for source in held)
    return [source.model_copy(update={"weight": named.weight * (source.weight or 1.0) / weight_sum}) for source in held]


def _twice(name: str, one: tuple[OpenSource, int], other: tuple[OpenSource, int]) -> str:
    """Why two tasks, each a source and its place there, cannot share an id."""
    (first, _), (second, _) = one, other
    if first is second:
        spots = [part.spots[place] for part, place in (one, other)]
        numbers = [str(at.number + 1) for spot in spots if isinstance(at := getattr(spot, "place", None), RowPlace)]
        rows = f" (rows {' and '.join(numbers)})" * bool(numbers)
        return f"{first.settings} has two tasks with the id {name!r}{rows}. Give each row an id of its own."
    return (
        f"{first.settings} and {second.settings} both have a task with the id {name!r}. Name a source once, or set "
        'prefix = "..." for one of them in a [[source]] table.'
    )
