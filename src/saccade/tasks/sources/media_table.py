"""Pictures and videos of a folder as rows, for one question that is asked about each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from saccade.tasks.benchmarks.problem import RowProblem
from saccade.tasks.benchmarks.row_files import SourceRow
from saccade.tasks.sources.folder import VIDEOS
from saccade.tasks.sources.tables import RowPlace


@dataclass(frozen=True, slots=True)
class MediaTable:
    """One row for each file."""

    folder: Path
    files: tuple[Path, ...]

    def scan(self) -> Iterator[tuple[RowPlace, SourceRow | RowProblem]]:
        for number in range(len(self.files)):
            yield RowPlace(number, number), self.read(RowPlace(number, number))

    def read(self, place: RowPlace) -> SourceRow:
        file = self.files[place.at]
        name = str(file.relative_to(self.folder))
        field = "videos" if file.suffix.lower() in VIDEOS else "images"
        return SourceRow(name, place.number, {"_row": place.number, "id": name, field: name})
