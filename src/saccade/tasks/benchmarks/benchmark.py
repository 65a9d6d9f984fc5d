"""Open a benchmark on disk: its card, splits and forms, its tasks as a stream, and cycled variants.

    benchmark = open_benchmark(load_card("blindtest"), Path("data"))
    for item in benchmark.tasks(store):      # a Task, or a RowProblem in its place

Nothing is downloaded. The folder is `DATA/<name of the card>`, or `DATA` itself if the files lie there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from saccade.core.registry import did_you_mean
from saccade.errors import DataError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.task import Task
from saccade.tasks.benchmarks.card import Card, Form, Reading, Size, SplitFiles
from saccade.tasks.benchmarks.loaders.rows import load_loader
from saccade.tasks.benchmarks.make_task import make_task
from saccade.tasks.benchmarks.row_files import FieldError, MediaFiles, RowMediaReader, RowProblem, SourceRow, matches
from saccade.tasks.sources.settings import rotated, rotations


def card_of_split(card: Card, split: str) -> Card:
    """Return the card for `split`; its tasks have the split in their ids unless it is the card's default.

    A split that the card does not list has files named like the default's (`data/test-*.parquet`, `test.jsonl`) with
    its own name instead, as on the Hugging Face hub.

    Raises:
        SettingsError: neither the card nor the names of its files know of splits.
    """
    if split in ("", card.split):
        return card
    listed = card.splits.get(split)
    loader = _files_of_split(card.loader, listed, card.split, split)
    forms = tuple(form for form in (_form_of_split(form, card.split, split) for form in card.forms) if form is not None)
    if loader is None and not forms:
        names = list(dict.fromkeys([card.split, *card.splits, *(name for form in card.forms for name in form.splits)]))
        hint = did_you_mean(split, names) or f"It has: {', '.join(names)}."
        raise SettingsError(f"{card.id} has no split {split!r}. {hint}")
    if loader is None:
        loader = card.loader.model_copy(update={"files": ()})
    size = _size(listed) if listed else Size(source=f"the card says nothing of the split {split}")
    only = {**card.only, **(listed.only if listed else {})}
    changes = {"loader": loader, "forms": forms, "split": split, "part": split, "size": size, "only": only}
    return card.model_copy(update=changes)


def forms_of(card: Card) -> Iterator[Card]:
    """Yield the card, then the card for each other published form of its data."""
    yield card
    for form in card.forms:
        taken = card.size.taken or card.size.tasks
        source = (
            f"{form.size.source}; of these the paper takes {taken}: {card.size.source}" if taken else form.size.source
        )
        same = form.size.tasks is None or form.size.tasks == card.size.tasks
        changes = {
            "loader": form.loader,
            "fields": form.fields,
            "only": form.only,
            "cases": form.cases,
            "media": form.media or card.media,
            "answer_type": form.answer_type or card.answer_type,
            "size": card.size if same else Size(tasks=form.size.tasks, source=source, taken=taken),
            "form": form.title,
            "forms": (),
        }
        yield card.model_copy(update=changes)


def _form_of_split(form: Form, own: str, split: str) -> Form | None:
    listed = form.splits.get(split)
    loader = _files_of_split(form.loader, listed, own, split)
    if loader is None:
        return None
    only = {**form.only, **(listed.only if listed else {})}
    return form.model_copy(update={"loader": loader, "only": only, "size": _size(listed) if listed else Size()})


def _size(listed: SplitFiles) -> Size:
    return Size(tasks=listed.tasks, source=listed.source)


def _files_of_split(loader: Reading, listed: SplitFiles | None, own: str, split: str) -> Reading | None:
    """Return the loader and files of the split; None if its files cannot be named."""
    if listed is not None:
        return loader.model_copy(update={"files": listed.files, "media": listed.media or loader.media})
    files = tuple(_renamed(pattern, own, split) for pattern in loader.files)
    known = tuple(name for name, pattern in zip(files, loader.files, strict=True) if name != pattern)
    media = tuple(_renamed(place, own, split) for place in loader.media)
    return loader.model_copy(update={"files": known, "media": media}) if known else None


def _renamed(pattern: str, own: str, other: str) -> str:
    return re.sub(rf"(?<![A-Za-z]){re.escape(own)}(?![A-Za-z])", other, pattern)


CIRCULAR: Final = "circular"
TURNED: Final = ("cycle", CIRCULAR)
"""Orders of choices by which a row gives several tasks."""
VARIABLE = "SACCADE_DATA"
"""Environment variable that names the folder of the data sets."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A card and the place of its data."""

    card: Card
    folder: Path
    files: tuple[Path, ...]

    def count(self) -> int:
        """Count the rows of the files, for a progress bar: at least as many as tasks, unless choices are cycled. Raises
        `DataError` if a file cannot be read, `UnavailableError` if what reads it is not installed.
        """
        return load_loader(self.card.loader.id).count(self.files)

    def tasks(self, store: MediaStore) -> Iterator[Task | RowProblem]:
        """Yield the tasks in file order, their media in `store`, or the problem of a broken row.

        Rows excluded by the card (`only`) are skipped. A second row with one id is a problem. Choices are in source
        order or cycled; shuffling is up to the caller.

        Raises:
            DataError: a file cannot be read.
            UnavailableError: what reads it, or its videos, is not installed.
        """
        rows = load_loader(self.card.loader.id).rows(self.files)
        yield from tasks_of_rows(rows, self.card, self.folder, store)


def open_benchmark(card: Card, data: Path | None = None) -> Benchmark:
    """Open the benchmark in folder `data`, by default `SACCADE_DATA`.

    Raises:
        DataError: it is not there; says what to download, from where, and into which folder.
    """
    place = data if data is not None else Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None
    for folder in () if place is None else (place / card.name, place):
        for form in forms_of(card):
            files = load_loader(form.loader.id).find(folder, form)
            if files:
                return Benchmark(form, folder, files)
    raise DataError(_missing(card, place))


def tasks_of_rows(
    rows: Iterable[SourceRow | RowProblem | Mapping[str, Any]], card: Card, folder: Path, store: MediaStore
) -> Iterator[Task | RowProblem]:
    """Make tasks of rows in memory, as of a Hugging Face data set; their paths are relative to `folder`.

    A mapping is a row without a file. Otherwise as `Benchmark.tasks`.
    """
    media = RowMediaReader(MediaFiles(folder, card.loader.media), store)
    seen: set[str] = set()
    for number, given in enumerate(rows):
        row = SourceRow("", number, {**given, "_row": number}) if isinstance(given, Mapping) else given
        if isinstance(row, RowProblem):
            yield row
            continue
        if not matches(row.fields, card.only):
            continue
        try:
            task = make_task(row.fields, card, media)
        except FieldError as error:
            yield row.problem(error.field, error.reason)
            continue
        if task.id in seen:
            yield row.problem("id", f"{task.id!r} is the id of an earlier row")
            continue
        seen.add(task.id)
        yield from turned(task, card.choices.order)


def how_to_get(card: Card, data: Path | None = None) -> tuple[str, Path]:
    """Return how a person gets the card's data, and the folder, in `data` or `SACCADE_DATA` or else `data`."""
    above = data if data is not None else Path(os.environ.get(VARIABLE) or "data")
    folder = above if above.name == card.name else above / card.name
    get = card.source.get.replace("{folder}", str(folder))
    return f"Get it from {card.source.url} (licence: {card.source.licence}): {get}", folder


def _missing(card: Card, data: Path | None) -> str:
    get, folder = how_to_get(card, data)
    where = f"no {VARIABLE} is set and no folder was named" if data is None else f"there is nothing in {folder}"
    files = "; or ".join(", ".join(form.loader.files) for form in forms_of(card) if form.loader.files)
    return (
        f"{card.title} ({card.id}) is not there: {where} (files looked for: {files}). "
        f"{get}. Then name the folder above it with --data or {VARIABLE}."
    )


def turned(task: Task, order: str) -> Iterator[Task]:
    """Yield a task once for every order of its choices that the card's `order` asks for.

    Variants share the tag `group` and differ in the tag `variant`; a task with fewer than two choices has one variant.
    """
    count = turns(task.choices, order)
    for turn in range(count):
        yield task if order not in TURNED or (order == CIRCULAR and count == 1) else rotated(task, turn, order)


def turns(choices: Sequence[str], order: str) -> int:
    """Return how many tasks a row with these choices gives."""
    return rotations(choices) if order == CIRCULAR else max(1, len(choices)) if order == "cycle" else 1
