"""Find the cards that come with the package, those of installed packages, and a user's own by their path.

Further packages add cards by the entry point group `saccade.cards`: the name is the card's id, the target a `Card`. A
user's own is a TOML file, or a `Card` in code (`file.py:NAME`, `module:NAME`). `:SPLIT` after one of these names
another split than the card's own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from itertools import islice
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from saccade.core.registry import Registry, is_a
from saccade.core.settings import load_settings
from saccade.errors import RegistryError, SaccadeError
from saccade.record.task import Task
from saccade.tasks.benchmarks.benchmark import Benchmark, card_of_split, forms_of
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.loaders.rows import load_loader
from saccade.tasks.benchmarks.make_task import draft, task_id
from saccade.tasks.benchmarks.row_files import (
    FieldError,
    MediaFiles,
    RowProblem,
    SourceRow,
    as_text,
    first_value,
    items,
    matches,
)


def card_ids() -> tuple[str, ...]:
    """Return the ids of all cards, sorted."""
    return cards().ids()


def load_card(name: str) -> Card:
    """Return the card of an id, with or without its version, in the TOML file at a path that ends in `.toml`, or in
    code.

    Raises:
        RegistryError: there is no such card (suggests the nearest), or it is no card.
        SettingsError: the file is no card (names every mistake), or the card has no such split.
    """
    own, split = split_of(name)
    if own.endswith(".toml"):
        return card_of_split(load_settings(Card, own), split)
    return card_of_split(_by_id(own) if cards().code(own) is None else cards().load(own), split)


def recorded_card(source: str) -> Card:
    """Return the card that a stored run names; no code is run for it. Raises as `load_card`."""
    name, split = split_of(source)
    if name.endswith(".toml"):
        return card_of_split(load_settings(Card, name), split)
    return card_of_split(_by_id(name) if cards().code(name) is None else cards().load_recorded(name), split)


def split_of(wanted: str) -> tuple[str, str]:
    """Return the name of a card, and the split that follows it; empty for none."""
    code = cards().code(wanted)
    if code is not None:
        return code.name, code.rest or ""
    name, _, split = wanted.rpartition(":")
    return (name, split) if name and (name.endswith(".toml") or cards().has(name)) else (wanted, "")


@cache
def cards() -> Registry[Card]:
    """Return the cards by their ids. Those of the package are files, which are read when they are named."""
    return Registry("cards", dict.fromkeys(_shipped(), f"{__name__}:load_card"), is_a(Card, "a card"))


@cache
def cards_of_group(group: str) -> tuple[Card, ...]:
    """Return the cards that name a group of benchmarks, in the order of their ids."""
    return tuple(card for card in map(load_card, card_ids()) if group in card.groups)


def _by_id(name: str) -> Card:
    entry = cards().resolve(name)
    card = _read(entry) if entry in _shipped() else cards().load(entry)
    if card.id != entry:
        raise RegistryError(f"{entry} of cards is the card {card.id}; correct its target or the name of its file")
    return card


@cache
def _shipped() -> dict[str, Traversable]:
    """Return the id of each card of the package -> its file: `vstar.toml` is `vstar@1`, `vstar@2.toml` is `vstar@2`."""
    names = {
        file.name.removesuffix(".toml"): file for file in files("saccade.tasks.benchmarks").joinpath("cards").iterdir()
    }
    return {name if "@" in name else f"{name}@1": file for name, file in names.items() if file.name.endswith(".toml")}


@cache
def _read(entry: str) -> Card:
    with as_file(_shipped()[entry]) as path:
        return load_settings(Card, Path(path))


# What published models made of the very rows of a benchmark, where its files say so: right or wrong, by task.


def published_answers(benchmark: Benchmark) -> dict[str, dict[str, bool]]:
    """Return task id -> model -> whether it was right, from the card's field `published`; empty where the card names
    none.

    Files spell one model in several ways (`sonnet3.5`, `Sonnet-3.5`); here it has the spelling that comes first.

    Raises:
        DataError: a file of the data cannot be read.
        UnavailableError: what reads it is not installed.
    """
    card = benchmark.card
    if not card.fields.published:
        return {}
    answers: dict[str, dict[str, bool]] = {}
    spelled: dict[str, str] = {}
    for row in load_loader(card.loader.id).rows(benchmark.files):
        if isinstance(row, RowProblem):
            continue
        own, published = first_value(row.fields, card.fields.id), first_value(row.fields, card.fields.published)
        if own is not None and isinstance(published, Mapping):
            by_model = {str(model): right for model, right in published.items() if isinstance(right, bool)}
            answers[task_id(card, as_text(own, "id"))] = {
                spelled.setdefault(_plain(model), model): right for model, right in by_model.items()
            }
    return answers


def _plain(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())


_MOST_VALUES = 12
"""Most values of a tag that are shown; a tag with more identifies rows, not kinds."""


@dataclass(frozen=True, slots=True)
class DataSetCheck:
    """Counts over all rows of a data set."""

    card: Card
    tasks: int
    problems: tuple[RowProblem, ...]
    answer_types: Mapping[str, int]
    choice_counts: Mapping[int, int]
    """How many tasks have so many choices."""
    gold_positions: Mapping[int, int]
    """How many tasks have their gold answer at that place, from 0, as the source orders the choices."""
    tags: Mapping[str, Mapping[str, int]]

    @property
    def complete(self) -> bool:
        """Whether there are as many tasks as the card expects; true where it states no size."""
        return self.card.size.tasks is None or self.tasks in (self.card.size.tasks, self.card.size.taken)

    def lines(self) -> Iterator[str]:
        yield f"{self.card.title} ({self.card.id})"
        if self.card.form:
            yield f"form          {self.card.form}"
        if self.card.loader.known_from:
            yield f"form is from  {self.card.loader.known_from}"
        yield f"tasks         {self.tasks}{self._against_expected()}"
        yield f"broken rows   {len(self.problems)}"
        if lost := [problem for problem in self.problems if problem.field in ("images", "videos", "media")]:
            places = ", ".join(["the folder", *self.card.loader.media])
            yield f"media         {len(lost)} rows name none that can be used (looked for in {places})"
        yield f"answer types  {_counts(self.answer_types)}"
        if self.gold_positions:
            yield f"choices       {_counts({f'{count} choices': tasks for count, tasks in self.choice_counts.items()})}"
            gold = {ascii_uppercase[place] if place < 26 else str(place): n for place, n in self.gold_positions.items()}
            yield f"gold is at    {_counts(gold)}{self._about_order()}"
        for name, values in sorted(self.tags.items()):
            shown = _counts(values) if len(values) <= _MOST_VALUES else f"{len(values)} different values"
            yield f"{name:<14}{shown}"

    def _about_order(self) -> str:
        if self.card.choices.order == "shuffle":
            return f"  (as the source has it; shuffled when played, seed {self.card.choices.seed})"
        constant = len(self.gold_positions) == 1 and self.tasks > 1
        return "  (always the same: shuffle the choices)" if constant else ""

    def _against_expected(self) -> str:
        expected = self.card.size.tasks
        if expected is None:
            return f"  (the card states no exact size: {self.card.size.source})"
        same = "as expected" if self.complete else f"expected {expected}"
        return f"  ({same}, {self.card.size.source})"


def survey(card: Card, items: Iterable[Task | RowProblem]) -> DataSetCheck:
    """Count over what `Benchmark.tasks` gives."""
    problems: list[RowProblem] = []
    types: Counter[str] = Counter()
    counts: Counter[int] = Counter()
    gold: Counter[int] = Counter()
    tags: dict[str, Counter[str]] = {}
    for item in items:
        if isinstance(item, RowProblem):
            problems.append(item)
            continue
        types[item.answer_type.value] += 1
        if item.right_choices:
            counts[len(item.choices)] += 1
            gold.update(map(item.choices.index, item.right_choices))
        for tag in item.tags:
            name, _, value = tag.partition("=")
            tags.setdefault(name, Counter())[value] += 1
    return DataSetCheck(card, types.total(), tuple(problems), types, counts, gold, tags)


def _counts(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {number}" for name, number in sorted(values.items())) or "none"


_ROWS = 20
"""Number of rows of a folder that are tried with a card."""
_LONGEST_README = 200_000
_LONGEST_SUFFIX = len(".parquet")


@dataclass(frozen=True, slots=True)
class CardMatch:
    """How well a card reads the first rows of a folder."""

    name: str
    """The card's id, with the split if that is not its own."""
    card: Card
    files: tuple[Path, ...]
    tried: int
    tasks: int
    """Of the rows tried, those that give a question with its answer."""
    media: int
    """Of these, those whose pictures and videos are all there."""
    named: bool
    """Whether the folder or its README names the card or its source."""
    fields: int
    """How many of the fields that the card names the rows have."""
    exact: int
    """How many letters of the files' names the card states."""

    @property
    def likely(self) -> bool:
        """Whether the card reads more than half of the rows tried."""
        return 2 * self.tasks > self.tried

    @property
    def guessed(self) -> bool:
        """Whether the form of its rows alone speaks for the card: nothing names it, and its files may have any name."""
        return not self.named and self.exact <= _LONGEST_SUFFIX

    @property
    def rank(self) -> tuple[bool, bool, bool, int, int, int]:
        return (self.likely, self.named, self.media > 0, self.fields, len(self.files), self.exact)


def card_matches(folder: Path) -> list[CardMatch]:
    """Try all cards on the first rows of a folder; return those that give tasks, the likeliest first (see `rank`)."""
    rows: dict[tuple[str, tuple[Path, ...]], list[SourceRow | RowProblem]] = {}
    about = _about(folder)
    made = [item for name in card_ids() for item in _of_card(load_card(name), folder, about, rows)]
    return sorted((item for item in made if item.tasks), key=lambda item: item.rank, reverse=True)


_MOST_FOLDERS = 200


def sets_below(folder: Path) -> dict[Path, CardMatch]:
    """Find the data sets in the folders directly below one, each with the card that reads it best.

    Of those that nothing but the form of their rows speaks for, only what is alone there counts.
    """
    below = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    found = {path: matches[0] for path in below[:_MOST_FOLDERS] if (matches := card_matches(path))}
    likely = {path: match for path, match in found.items() if match.likely}
    named = {path: match for path, match in likely.items() if match.named}
    return named or (likely if len(likely) == 1 else {})


def other_splits(card: Card, folder: Path) -> Iterator[tuple[str, bool]]:
    """Yield the further splits that a card lists, and whether the folder holds them."""
    for split in _splits(card):
        yield (
            split,
            any(load_loader(form.loader.id).find(folder, form) for form in forms_of(card_of_split(card, split))),
        )


def _splits(card: Card) -> list[str]:
    return list(dict.fromkeys([card.split, *card.splits, *(name for form in card.forms for name in form.splits)]))


def _of_card(
    card: Card,
    folder: Path,
    about: str,
    rows: dict[tuple[str, tuple[Path, ...]], list[SourceRow | RowProblem]],
) -> Iterator[CardMatch]:
    for split in _splits(card):
        for form in forms_of(card_of_split(card, split)):
            loader = load_loader(form.loader.id)
            files = loader.find(folder, form)
            if not files:
                continue
            key = (form.loader.id, files)
            if key not in rows:
                try:
                    rows[key] = list(islice(loader.rows(files), _ROWS))
                except SaccadeError:
                    rows[key] = []  # not of this loader's kind, or what reads it is not installed
            name = card.id if split == card.split else f"{card.id}:{split}"
            yield _read_as(name, form, files, folder, about, rows[key])


def _read_as(
    name: str, card: Card, files: tuple[Path, ...], folder: Path, about: str, rows: list[SourceRow | RowProblem]
) -> CardMatch:
    places = MediaFiles(folder, card.loader.media)
    tasks = media = fields = 0
    for row in rows:
        if isinstance(row, RowProblem) or not matches(row.fields, card.only):
            continue
        try:
            choices = draft(row.fields, card).choices
        except FieldError:
            continue
        tasks += 1
        fields = max(fields, _known(row.fields, card) + bool(choices))
        media += _has_media(row.fields, card, places)
    patterns = (pattern for pattern in card.loader.files if any(folder.glob(pattern)))
    exact = len(next(patterns, "").replace("*", ""))
    return CardMatch(name, card, files, len(rows), tasks, media, _is_named(card, about), fields, exact)


def _known(row: Mapping[str, Any], card: Card) -> int:
    """Count the fields that a card names and a row has itself; what loaders add to every row says nothing."""
    given = card.fields
    names = [given.id, given.question, given.hint, given.images, given.videos, given.answer, given.boxes]
    own = [[name for name in each if not re.search(r"(^|\{)_", name)] for each in (*names, *given.tags.values())]
    return sum(first_value(row, each) is not None for each in (*own, given.split) if each)


def _has_media(row: Mapping[str, Any], card: Card, places: MediaFiles) -> bool:
    named = [
        value for names in (card.fields.images, card.fields.videos) if (value := first_value(row, names)) is not None
    ]
    try:
        for value in named:
            for item in items(value):
                places.named(item)
    except FieldError:
        return False
    return bool(named) or card.media == "text"


def _about(folder: Path) -> str:
    """Return the folder's name and its README, in small letters without signs."""
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8", errors="replace")[:_LONGEST_README] if readme.is_file() else ""
    return f"{_plain(folder.resolve().name)} {_plain(text)}"


def _is_named(card: Card, about: str) -> bool:
    repository = card.source.name.rpartition("/")[2]
    return any(len(name) > 3 and name in about for name in (_plain(card.name), _plain(repository)))
