"""VLMEvalKit's TSV: a picture as base64, a list of them, or the index of another row that has the same picture.

Columns are `index`, `image` or `image_path`, `question`, often `hint`, `A`, `B`, ..., `answer`. A picture that stands
once for several rows is looked up in a second reading of the file, made when the first such row comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.loaders.base import first_match
from saccade.tasks.benchmarks.problem import RowProblem
from saccade.tasks.benchmarks.row_files import SourceRow, count_rows, read_rows

_LONGEST_INDEX = 64


class VlmEvalKit:
    """Reads the TSV files of VLMEvalKit."""

    def find(self, folder: Path, card: Card) -> tuple[Path, ...]:
        return first_match(folder, card.loader.files)

    def rows(self, files: tuple[Path, ...]) -> Iterator[SourceRow | RowProblem]:
        for file in files:
            shared: dict[str, str] | None = None
            for row in read_rows(file):
                if isinstance(row, SourceRow) and (wanted := _reference(row.fields)) is not None:
                    shared = _shared_images(file) if shared is None else shared
                    yield _resolved(row, wanted, shared)
                else:
                    yield row

    def count(self, files: tuple[Path, ...]) -> int:
        return sum(map(count_rows, files))


def _reference(fields: Mapping[str, Any]) -> str | None:
    """The index of the row whose picture this row shows, or None if it has its own."""
    image = fields.get("image")
    short = isinstance(image, str) and 0 < len(image) <= _LONGEST_INDEX
    return image if short and isinstance(image, str) and image.isalnum() else None


def _resolved(row: SourceRow, wanted: str, shared: Mapping[str, str]) -> SourceRow | RowProblem:
    image = shared.get(wanted)
    if image is None:
        return row.problem("image", f"it is that of row {wanted!r}, which is not there or has none of its own")
    return replace(row, fields={**row.fields, "image": image})


def _shared_images(file: Path) -> dict[str, str]:
    """The pictures to which other rows refer, by the index of the row that has them."""
    rows = (row.fields for row in read_rows(file) if isinstance(row, SourceRow))
    wanted = {reference for fields in rows if (reference := _reference(fields)) is not None}
    again = (row.fields for row in read_rows(file) if isinstance(row, SourceRow))
    return {
        str(fields["index"]): fields["image"]
        for fields in again
        if _reference(fields) is None and str(fields.get("index")) in wanted and isinstance(fields.get("image"), str)
    }


VLMEVALKIT = VlmEvalKit()
