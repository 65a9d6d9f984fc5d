"""The runs that are curated: their trajectories one after the other, their media from any of them.

An id that an earlier run has already gets the name of its run's folder before it, so that ids stay apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from saccade.episode.run_folder import MEDIA, TRAJECTORIES
from saccade.errors import MissingMediaError, RecordError
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory


class SourceRuns:
    """One run folder or more, read in the order in which they are named."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Raises `RecordError` for a folder without trajectories, or one that is named twice."""
        self.folders = tuple(folders)
        for folder in folders:
            if not (folder / TRAJECTORIES).is_file():
                raise RecordError(f"{folder} is no run folder: it has no {TRAJECTORIES}. Name the folder of a run.")
        if len({folder.resolve() for folder in folders}) < len(self.folders):
            raise RecordError("a run folder is named twice; name each once")
        self._stores = tuple(MediaStore(folder / MEDIA) for folder in folders)
        self.renamed = 0

    def count(self) -> int:
        """Lines in the files of trajectories, for a progress bar."""
        total = 0
        for folder in self.folders:
            with (folder / TRAJECTORIES).open("rb") as file:
                total += sum(1 for _ in file)
        return total

    def trajectories(self) -> Iterator[Trajectory]:
        """All trajectories, in order.

        Raises:
            RecordError: one cannot be read, or an id comes twice in one run.
        """
        self.renamed = 0
        seen: set[str] = set()
        for folder in self.folders:
            for trajectory in read_lines(folder / TRAJECTORIES, Trajectory):
                if trajectory.id in seen:
                    self.renamed += 1
                    name = f"{folder.resolve().name}/{trajectory.id}"
                    if name in seen or len(name) > 200:
                        raise RecordError(
                            f"the trajectory {trajectory.id} comes twice in {folder}, or in two runs of that name. "
                            "Give every trajectory an id of its own."
                        )
                    trajectory = trajectory.model_copy(update={"id": name})
                seen.add(trajectory.id)
                yield trajectory

    def get_bytes(self, sha256: str) -> bytes:
        """The stored bytes. Raises `MissingMediaError`."""
        return self._holder(sha256).get_bytes(sha256)

    def path(self, sha256: str) -> Path:
        """The file that holds them. Raises `MissingMediaError`."""
        return self._holder(sha256).path(sha256)

    def _holder(self, sha256: str) -> MediaStore:
        for store in self._stores:
            if sha256 in store:
                return store
        raise MissingMediaError(
            f"none of the runs {', '.join(map(str, self.folders))} holds the media {sha256}. "
            "Copy the run's media folder along with its records."
        )
