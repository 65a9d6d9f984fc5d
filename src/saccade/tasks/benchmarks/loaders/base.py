"""Define loaders, which turn files in a folder into rows, and load them by id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from saccade.core.registry import Registry, has_members
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.row_files import SourceRow
from saccade.tasks.benchmarks.values import RowProblem


class Loader(Protocol):
    """Reads data sets of one layout."""

    def find(self, folder: Path, card: Card) -> tuple[Path, ...]:
        """Return the data set's files in `folder` in reading order; none if it is not there."""

    def rows(self, files: tuple[Path, ...]) -> Iterator[SourceRow | RowProblem]:
        """Yield the rows, always in the same order, or the problem of a broken row. Raises `DataError` if a file as a
        whole cannot be read, `UnavailableError` if a needed package is not installed.
        """

    def count(self, files: tuple[Path, ...]) -> int:
        """Count the rows, for a progress bar. Raises as `rows`."""


def first_match(folder: Path, patterns: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the files of the first pattern that matches any, sorted."""
    for pattern in patterns:
        files = sorted(path for path in folder.glob(pattern) if path.is_file())
        if files:
            return tuple(files)
    return ()


LOADERS: Final = Registry[Loader](
    "loaders",
    {
        "rows@1": "saccade.tasks.benchmarks.loaders.rows:ROWS",
        "vlmevalkit@1": "saccade.tasks.benchmarks.loaders.rows:VLMEVALKIT",
        "llava@1": "saccade.tasks.benchmarks.loaders.rows:LLAVA",
        "verl@1": "saccade.tasks.benchmarks.loaders.rows:VERL",
        "folders@1": "saccade.tasks.benchmarks.loaders.rows:FOLDERS",
        "beside@1": "saccade.tasks.benchmarks.loaders.rows:BESIDE",
        "llava-final@1": "saccade.tasks.benchmarks.loaders.training_rows:LLAVA_FINAL",
        "llava-cot@1": "saccade.tasks.benchmarks.loaders.training_rows:LLAVA_COT",
        "solution@1": "saccade.tasks.benchmarks.loaders.training_rows:SOLUTION",
        "thyme@1": "saccade.tasks.benchmarks.loaders.training_rows:THYME",
        "thyme-rl@1": "saccade.tasks.benchmarks.loaders.training_rows:THYME_RL",
        "pyvision-rl@1": "saccade.tasks.benchmarks.loaders.training_rows:PYVISION_RL",
        "pyvision-sft@1": "saccade.tasks.benchmarks.loaders.training_rows:PYVISION_SFT",
        "dialogue@1": "saccade.tasks.benchmarks.loaders.training_rows:DIALOGUE",
        "mmpr@1": "saccade.tasks.benchmarks.loaders.training_rows:MMPR",
        "pickled@1": "saccade.tasks.benchmarks.loaders.pickled:PICKLED",
        "iconqa@1": "saccade.tasks.benchmarks.loaders.rows:PROBLEMS",
        "iconqa-folders@1": "saccade.tasks.benchmarks.loaders.rows:PICTURE_CHOICES_FOLDERS",
        "ai2d@1": "saccade.tasks.benchmarks.loaders.rows:AI2D",
    },
    has_members(("find", "rows", "count")),
)


def load_loader(name: str) -> Loader:
    """Load the loader that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`). Raises
    `RegistryError` if nothing has that id (suggests the nearest), it cannot be imported, or it is no loader.
    """
    return LOADERS.load(name)
