"""A stored run, read once for all protocols: rows from each trajectory, findings from the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from saccade.core.seam import seam
from saccade.episode.flow import as_done
from saccade.episode.regions import StoredPixels
from saccade.episode.run_folder import MEDIA, TRAJECTORIES, note_empty, trajectories_of
from saccade.errors import OwnCodeError, SettingsError
from saccade.evals.protocols.base import AnyProtocol, Findings, SampleRow, Studied, StudiedRun
from saccade.evals.protocols.faithfulness import PictureJudge
from saccade.evals.rows import natural
from saccade.evals.stored import run_settings
from saccade.media.store import MediaStore
from saccade.record.codec import read_ids, read_lines
from saccade.record.trajectory import StopReason, Trajectory

CountCallback = Callable[[int, int], None]
"""Hears how many samples were read, and of how many."""

AT_ONCE = 16
"""Samples whose pictures are judged side by side."""


@dataclass(frozen=True)
class Study:
    """What is asked of a run."""

    protocols: tuple[AnyProtocol, ...]
    judge: PictureJudge | None = None
    budget: str = "qwen2.5-vl"
    """Pixel budget by which visual tokens are estimated."""


async def study(run: Path, settings: Study, watch: CountCallback = lambda done, of: None) -> dict[str, Findings]:
    """Return what each protocol finds in the run folder `run`, by its name.

    Raises:
        SettingsError: it is no run folder.
        RecordError: a trajectory cannot be read.
        RegistryError: there is no such pixel budget.
        ModelDeniedError: the judge refuses whatever it is asked.
        OwnCodeError: a protocol of a user's own raised an exception.
    """
    last = _last_lines(run)
    rows: dict[str, list[SampleRow]] = {protocol.name: [] for protocol in settings.protocols}
    about = _RunSummary(run.resolve().name, settings, _frames(run))
    async for batch in as_done(_samples(run, last), _Reading(run, settings).rows, AT_ONCE):
        for trajectory, by_protocol in batch:
            about.count(trajectory)
            for name, row in by_protocol.items():
                rows[name].append(row)
        watch(about.seen, len(last))
    return {
        protocol.name: _findings(protocol, sorted(rows[protocol.name], key=_order), about.about())
        for protocol in settings.protocols
    }


def _row(protocol: AnyProtocol, studied: Studied) -> SampleRow:
    with _told(protocol, f"the row of the sample {studied.trajectory.id}"):
        row: SampleRow = seam(protocol.row, SampleRow)(studied)
    return row


def _findings(protocol: AnyProtocol, rows: Sequence[SampleRow], about: StudiedRun) -> Findings:
    with _told(protocol, f"the findings of {len(rows):,} rows"):
        found: Findings = seam(protocol.findings, Findings)(rows, about)
    return found


@contextmanager
def _told(protocol: AnyProtocol, what: str) -> Iterator[None]:
    try:
        yield
    except OwnCodeError as error:
        raise OwnCodeError(f"the protocol {protocol.name} failed at {what}: {error}") from error


@dataclass(frozen=True)
class _Reading:
    run: Path
    asked: Study

    async def rows(self, trajectory: Trajectory) -> tuple[Trajectory, dict[str, SampleRow]]:
        """Return the rows of one sample; none of one that is lost or not over."""
        if not over(trajectory):
            return trajectory, {}
        judge = self.asked.judge
        verdicts = None if judge is None else await judge.verdicts(trajectory)
        studied = Studied(trajectory, StoredPixels(MediaStore(self.run / MEDIA)), verdicts, self.asked.budget)
        return trajectory, {protocol.name: _row(protocol, studied) for protocol in self.asked.protocols}


class _RunSummary:
    def __init__(self, run: str, asked: Study, frames: str) -> None:
        self.seen = self.lost = 0
        self._fixed = {
            "run": run,
            "judge": asked.judge.name if asked.judge is not None else "",
            "budget": asked.budget,
            "frames": frames,
        }
        self._models: set[str] = set()
        self._dialects: set[str] = set()

    def count(self, trajectory: Trajectory) -> None:
        self.seen += 1
        self.lost += not over(trajectory)
        self._models.add(trajectory.provenance.model)
        self._dialects.add(trajectory.provenance.dialect)

    def about(self) -> StudiedRun:
        return StudiedRun(
            **self._fixed,
            models=tuple(sorted(self._models)),
            dialects=tuple(sorted(self._dialects)),
            samples=self.seen - self.lost,
            lost=self.lost,
        )


def over(trajectory: Trajectory) -> bool:
    """Whether the episode came to an end of its own; one that was lost or cancelled says nothing of the model."""
    return trajectory.stop is not None and not trajectory.lost and trajectory.stop is not StopReason.CANCELLED


def _last_lines(run: Path) -> dict[str, int]:
    """Map ids to the number of their last line, from 0."""
    file = trajectories_of(run)
    note_empty(file)
    return {name: number for number, name in enumerate(read_ids(file, Trajectory))}


def _samples(run: Path, last: dict[str, int]) -> Iterator[Trajectory]:
    for number, trajectory in enumerate(read_lines(run / TRAJECTORIES, Trajectory)):
        if last[trajectory.id] == number:
            yield trajectory


def _order(row: SampleRow) -> tuple[Sequence[tuple[int, str]], int, str]:
    return natural(row.task), row.rollout, row.id


def _frames(run: Path) -> str:
    try:
        return run_settings(run).frames.rate
    except SettingsError:
        return ""  # a run that `saccade eval` did not make
