"""A benchmark that lies on the disk: its card, its folder, its tasks as a stream, and variants of
them that a protocol asks for.

    benchmark = open_benchmark(load_card("blindtest"), Path("data"))
    for item in benchmark.tasks(store):      # a Task, or a RowProblem in the place of one

Nothing is downloaded. The folder is `DATA/<name of the card>`, or `DATA` itself if the files lie there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.errors import DataError
from saccade.media.store import MediaStore
from saccade.record.task import Task
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.loaders.registry import load_loader
from saccade.tasks.benchmarks.make_task import make_task
from saccade.tasks.benchmarks.media_files import MediaFiles
from saccade.tasks.benchmarks.pictures import RowMediaReader
from saccade.tasks.benchmarks.problem import FieldError, RowProblem
from saccade.tasks.benchmarks.row_files import SourceRow
from saccade.tasks.benchmarks.splits import forms_of
from saccade.tasks.benchmarks.values import matches

VARIABLE = "SACCADE_DATA"
"""Environment variable that names the folder of the data sets."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A card and where its data lie."""

    card: Card
    folder: Path
    files: tuple[Path, ...]

    def count(self) -> int:
        """How many rows the files hold: at least as many as tasks, unless choices are cycled. For a progress bar.

        Raises:
            DataError: a file cannot be read.
            UnavailableError: what reads it is not installed.
        """
        return load_loader(self.card.loader.id).count(self.files)

    def tasks(self, store: MediaStore) -> Iterator[Task | RowProblem]:
        """The tasks in the order of the files, their media in `store`; for a broken row what is wrong with it.

        Rows that the card leaves out (`only`) do not appear. Two rows of one id: the second is a problem. Choices stand
        as the source gives them or are cycled; a shuffle is left to who plays the tasks.

        Raises:
            DataError: a file cannot be read.
            UnavailableError: what reads it, or its videos, is not installed.
        """
        rows = load_loader(self.card.loader.id).rows(self.files)
        yield from tasks_of_rows(rows, self.card, self.folder, store)


def open_benchmark(card: Card, data: Path | None = None) -> Benchmark:
    """The benchmark in folder `data`, by default the one that `SACCADE_DATA` names.

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
    """Tasks of rows that are at hand, as those of a Hugging Face data set; paths in them are relative to `folder`.

    A mapping stands for a row of no file. Otherwise as `Benchmark.tasks`.
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
        yield from cycled(task) if card.choices.order == "cycle" else (task,)


def _missing(card: Card, data: Path | None) -> str:
    above = data if data is not None else Path("data")
    folder = above if above.name == card.name else above / card.name
    where = f"no {VARIABLE} is set and no folder was named" if data is None else f"there is nothing in {folder}"
    files = "; or ".join(", ".join(form.loader.files) for form in forms_of(card) if form.loader.files)
    return (
        f"{card.title} ({card.id}) is not there: {where} (files looked for: {files}). "
        f"Get it from {card.source.url} (licence: {card.source.licence}): "
        f"{card.source.get.replace('{folder}', str(folder))}. "
        f"Then name the folder above it with --data or {VARIABLE}."
    )


def cycled(task: Task) -> Iterator[Task]:
    """A task once for every rotation of its choices, so that its gold answer stands in every place once.

    HR-Bench's protocol of four cycles, for four choices. Variants share the tag `group` and are told apart by the tag
    `variant`; a task with fewer than two choices has itself as its only variant.
    """
    count = max(1, len(task.choices))
    for turn in range(count):
        yield task.model_copy(
            update={
                "id": f"{task.id}/cycle-{turn}",
                "choices": (*task.choices[turn:], *task.choices[:turn]),
                "tags": (*task.tags, f"group={task.id}", f"variant=cycle-{turn}"),
            }
        )
