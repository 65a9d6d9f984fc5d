"""Data sets whose questions are small JSON files of their own, with pictures beside them.

`folders`: a folder for each question with `data.json`, as Geometry3K has it; `logic_form.json` is read into the field
`logic_form`, `_folder` is the folder's path in the data set. `beside`: a picture and a JSON file of the same name, as
V* has it; `_image` is the picture's path, `_folder` the folder's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.loaders.base import first_match
from saccade.tasks.benchmarks.problem import FieldError, RowProblem
from saccade.tasks.benchmarks.row_files import SourceRow

_PICTURES = (".jpg", ".jpeg", ".png", ".webp")

SidecarReader = Callable[[Path], Mapping[str, Any]]
"""What lies beside a question's file, as further fields."""


@dataclass(frozen=True, slots=True)
class FolderLoader:
    """One question for each file that the card's pattern matches."""

    beside: SidecarReader

    def find(self, folder: Path, card: Card) -> tuple[Path, ...]:
        """See `Loader.find`; numbered names are in the order of their numbers."""
        return tuple(sorted(first_match(folder, card.loader.files), key=_natural))

    def rows(self, files: tuple[Path, ...]) -> Iterator[SourceRow | RowProblem]:
        for number, file in enumerate(files):
            name = f"{file.parent.name}/{file.name}"
            try:
                fields = {**read_object(file), **self.beside(file)}
            except FieldError as error:
                yield RowProblem(name, number, error.field, error.reason)
                continue
            yield SourceRow(name, number, {**fields, "_row": number, "_file": file.stem, "_folder": file.parent.name})

    def count(self, files: tuple[Path, ...]) -> int:
        return len(files)


def logic_form(file: Path) -> Mapping[str, Any]:
    """Geometry3K's logic form of the question beside it, where there is one."""
    form = file.with_name("logic_form.json")
    return {"logic_form": read_object(form)} if form.is_file() else {}


def picture(file: Path) -> Mapping[str, Any]:
    """The path, from the folder's parent, of the picture with the file's name."""
    for suffix in _PICTURES:
        if file.with_suffix(suffix).is_file():
            return {"_image": f"{file.parent.name}/{file.stem}{suffix}"}
    raise FieldError("images", f"there is no picture {file.stem}{{{','.join(_PICTURES)}}} beside {file.name}")


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object of a file. Raises `FieldError` if it holds none."""
    try:
        data = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise FieldError("row", f"{file.name} is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise FieldError("row", f"{file.name} is no JSON object")
    return data


def _natural(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in path.parts)


FOLDERS = FolderLoader(logic_form)
BESIDE = FolderLoader(picture)
