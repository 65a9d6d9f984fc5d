"""Open one or several sources as a pool of tasks, each made on demand.

    tasks = open_tasks(["photos/=0.7", "visual-search=0.3"])
    task = tasks.make(tasks.ids[0], store)

Task ids are unique in a pool. Weights set the shares of sources: with 0.7 and 0.3, seven of any ten tasks in a row
come from the first. Without weights every task counts alike.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from hashlib import sha256
from heapq import nsmallest
from pathlib import Path
from tomllib import TOMLDecodeError, loads

from saccade.core.recipes import find_recipe, recipe_names
from saccade.core.settings import Settings, load_settings
from saccade.errors import DataError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.task import RewardParameter, Task
from saccade.tasks.benchmarks.row_files import RowProblem
from saccade.tasks.sources.folder import SourceReader, Spot, TaskSummary, WorldReader
from saccade.tasks.sources.resolve import SourceDefaults, open_reader
from saccade.tasks.sources.row_tasks import SEARCH, with_open
from saccade.tasks.sources.settings import SourceSettings, Turns, check_weights, most_in_shares, parse_source
from saccade.tasks.sources.tables import RowPlace

_SHOWN = 12
"""Number of tags that a message lists."""


@dataclass
class OpenSource:
    """An opened source: the tasks taken from it, and counts of those left out."""

    settings: SourceSettings
    reader: SourceReader
    lights: list[TaskSummary] = field(default_factory=list)
    """Summary of each task; for a world with tags only if tags select."""
    spots: list[Spot] = field(default_factory=list)
    problems: list[RowProblem] = field(default_factory=list)
    other_tags: int = 0
    """Number of tasks left out because of their tags."""
    undrawn: int = 0
    """Number of tasks beyond the requested ones."""

    @cached_property
    def _says_nothing(self) -> bool:
        """Tell whether the settings of the source leave its tasks unchanged."""
        source = self.settings
        return not (source.prefix or source.grader or source.search or source.category or source.reward) and (
            source.open is None
        )

    @property
    def label(self) -> str:
        """Return the name under which its tasks are counted."""
        return self.reader.label

    @property
    def tags(self) -> Counter[str]:
        """Count its tasks by tag; for a world known only if it was drawn."""
        return Counter(tag for light in self.lights for tag in light.tags)

    @property
    def endless(self) -> bool:
        """Tell whether it is a world, which has no end."""
        return isinstance(self.reader, WorldReader)

    def make(self, place: int, store: MediaStore) -> Task:
        """Make the task at a place among those taken. Raises as `SourceReader.make`."""
        return self._made(self.reader.make(self.spots[place], store))

    def line(self) -> str:
        """Describe how many tasks are taken, and how many are left out and why."""
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


def open_source(source: SourceSettings, defaults: SourceDefaults) -> OpenSource:
    """Open a source: find its reader, scan its tasks and select some.

    Raises:
        SettingsError, RegistryError, DataError: as `open_reader`, or no task is left.
        RecordError, UnavailableError: its files cannot be read.
    """
    opened = OpenSource(source, open_reader(source, defaults))
    most = min((most for most in (source.most, defaults.most) if most), default=None)
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
    """Pause the garbage collector: a scan keeps many objects without cycles, and each collection would visit all."""
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
    return any(fnmatchcase(tag, pattern) if "*" in pattern else tag == pattern for pattern in patterns for tag in tags)


def _nothing(opened: OpenSource) -> str:
    if opened.problems:
        rows = "\n".join(f"  {problem}" for problem in opened.problems[:5])
        return f"{opened.settings} gives no task. Its broken rows ({len(opened.problems)} in all):\n{rows}"
    if opened.other_tags:
        return f"{opened.settings}: none of its {opened.other_tags} tasks has the wanted tags."
    return f"{opened.settings} holds no tasks."


def drawn(names: Sequence[str], n: int | None, seed: int) -> frozenset[int]:
    """Return the places of `n` names drawn by the seed; all of them if there are no more, or `n` is None.

    The draw depends only on the seed and the names, and a larger `n` includes a smaller one's.
    """
    if n is None or n >= len(names):
        return frozenset(range(len(names)))
    ranks = ((sha256(f"{seed}:{name}".encode()).digest(), place) for place, name in enumerate(names))
    return frozenset(place for _, place in nsmallest(n, ranks))


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
        """Make the task with this id, its media put into `store`.

        Raises:
            DataError, RecordError, MediaError: it cannot be made; the message names the row.
        """
        number, place = self._places[name]
        return self.parts[number].make(place, store)

    def tasks(self, store: MediaStore) -> Iterator[Task]:
        for name in self.ids:
            yield self.make(name, store)

    @property
    def shares(self) -> tuple[float, ...] | None:
        """Return each source's share of the draws; None without weights."""
        weights = [part.settings.weight for part in self.parts]
        known = [weight for weight in weights if weight is not None]
        return tuple(weight / sum(known) for weight in known) if len(known) == len(weights) else None

    def ordered(self, n: int | None = None) -> tuple[str, ...]:
        """Return the ids in the order for a file or page.

        With shares the sources take turns, for `n` tasks or as many as keep the shares exact. Without shares they
        follow each other, and `n` is ignored.
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
        return tuple(problem for part in self.parts for problem in part.problems)

    @property
    def total(self) -> int | None:
        """Count all tasks of the sources, those left out included; None if one has no end."""
        if any(part.endless for part in self.parts):
            return None
        return sum(len(part.lights) + part.undrawn + part.other_tags + len(part.problems) for part in self.parts)

    def lines(self) -> tuple[str, ...]:
        """Describe what each source gives and leaves out, then the shares."""
        said = [part.line() for part in self.parts]
        if self.shares is not None and len(self.parts) > 1:
            shares = (f"{part.settings} {share:.1%}" for part, share in zip(self.parts, self.shares, strict=True))
            said.append(f"shares of what is drawn: {', '.join(shares)}")
        return tuple(said)


def open_tasks(sources: SourceList, defaults: SourceDefaults | None = None) -> TaskPool:
    """Open the tasks of the sources; their pictures are not opened.

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
    opened, missing = [], []
    for source in listed:
        try:
            opened.append(open_source(source, defaults or SourceDefaults()))
        except DataError as error:
            missing.append(error)
    if missing:
        head = f"{len(missing)} of {len(listed)} sources cannot be read:"
        raise missing[0] if len(listed) == 1 else DataError("\n  ".join((head, *map(str, missing))))
    made = TaskPool(tuple(opened))
    len(made)  # refuses two tasks of one id
    return made


def expanded(sources: SourceList) -> tuple[SourceSettings, ...]:
    """Parse the sources and expand files of `[[source]]` tables. Raises `SettingsError` if a text is no source, or a
    file of sources is wrong.
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
    return str(find_recipe("sources", name)) if name in recipe_names("sources") else name


def is_source_file(name: str) -> bool:
    """Tell whether `name` is a TOML file of `[[source]]` tables or a bundled mixture, not a card."""
    path = Path(_file_named(name))
    if path.suffix != ".toml" or not path.is_file():
        return False
    try:
        return isinstance(loads(path.read_text(encoding="utf-8")).get("source"), list)
    except (TOMLDecodeError, UnicodeDecodeError):
        return False  # reading it as a card will report the error


def _of_file(named: SourceSettings) -> Sequence[SourceSettings]:
    """Read a file of sources; a weight of the file is shared among them."""
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
    """Explain why two tasks, each a source and its place there, cannot share an id."""
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


# Tasks by name, where they are needed again and again: sources are opened once in a process.


@cache
def opened_pool(sources: tuple[str, ...]) -> TaskPool:
    """Return the tasks of `sources`; they are taken as they are at the first call. Raises as `open_tasks` does."""
    return open_tasks(sources)


def names_of(sources: tuple[str, ...], n: int | None) -> tuple[str, ...]:
    """Return the ids of the first `n` tasks, or of all. Raises `SettingsError` for an `n` below 1."""
    if n is not None and n < 1:
        raise SettingsError(f"n is {n}: at least one task is needed")
    return opened_pool(sources).ordered(n)[:n]


def task_of(sources: tuple[str, ...], name: str | None, store: MediaStore) -> Task:
    """Return one task, its pictures put into `store`. Raises `SettingsError` if the sources do not have it."""
    pool = opened_pool(sources)
    if name is None or name not in pool:
        raise SettingsError(f"the sources {', '.join(sources)} have no task {name!r}")
    return pool.make(name, store)
