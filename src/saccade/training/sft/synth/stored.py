"""Trajectories of stored runs as jobs: what `rewrite` gives new thoughts to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from saccade.dialects.registry import load_dialect
from saccade.episode.run_folder import MEDIA, TRAJECTORIES
from saccade.errors import RecordError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.codec import loads
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.tasks.worlds import WorldSample
from saccade.training.sft.synth.jobs import Job
from saccade.training.sft.synth.settings import SynthSettings


@dataclass(frozen=True, slots=True)
class _Line:
    run: Path
    start: int


class StoredJobs:
    """One job for each trajectory of some runs; at most `n` of each run, the first ones."""

    def __init__(self, settings: SynthSettings) -> None:
        """Reads every trajectory once; kept is where it is.

        Raises:
            SettingsError: a source is no run folder, was made in another dialect, or two runs hold the same rollout.
            RecordError: a trajectory cannot be read.
        """
        self._dialect = load_dialect(settings.dialect).id
        self._lines: dict[str, _Line] = {}
        self._jobs: list[Job] = []
        self._said: list[str] = []
        if settings.samples > 1 or settings.start:
            raise SettingsError("recipe `rewrite` takes stored trajectories as they are: leave out samples and start.")
        for number, name in enumerate(settings.sources):
            run = Path(name)
            if not (run / TRAJECTORIES).is_file():
                raise SettingsError(
                    f"recipe `rewrite` gives new thoughts to stored trajectories, and {name} is no run folder: it has "
                    f"no {TRAJECTORIES}. Name the folder of a run."
                )
            self._read(run, number, settings.n)

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def lines(self) -> tuple[str, ...]:
        """Say for each run how many trajectories are taken, and how many are not and why."""
        return tuple(self._said)

    def drawn(self, job: Job) -> WorldSample | None:
        """None: nothing is drawn by a world."""
        return None

    def make(self, job: Job, store: MediaStore) -> Task:
        """Return the task of a job; all media of its trajectory are put into `store`. Raises `MissingMediaError`."""
        trajectory = self.trajectory(job)
        media = MediaStore(self._lines[job.id].run / MEDIA)
        for part in trajectory.media():
            if part not in store:
                store.put_blob(media.get_bytes(part.sha256))
        return trajectory.task

    def trajectory(self, job: Job) -> Trajectory:
        """Return the stored trajectory of a job, under the id of the job."""
        line = self._lines[job.id]
        with (line.run / TRAJECTORIES).open("rb") as file:
            file.seek(line.start)
            return loads(file.readline(), Trajectory).model_copy(update={"id": job.id})

    def _read(self, run: Path, number: int, most: int) -> None:
        rollouts: Counter[str] = Counter()
        left: Counter[str] = Counter()
        start = taken = 0
        with (run / TRAJECTORIES).open("rb") as lines:
            for at, line in enumerate(lines, 1):
                try:
                    trajectory = loads(line, Trajectory)
                except RecordError as error:
                    raise type(error)(f"{run / TRAJECTORIES}, line {at}: {error}") from error
                why = self._refused(run, trajectory) if taken < most else "more than --n"
                if why:
                    left[why] += 1
                else:
                    job = Job(trajectory.task.id, rollouts[trajectory.task.id], number, at - 1)
                    if job.id in self._lines:
                        raise SettingsError(f"{run} and another run both hold {job.id}. Rewrite one run at a time.")
                    self._lines[job.id] = _Line(run, start)
                    self._jobs.append(job)
                    rollouts[trajectory.task.id] += 1
                    taken += 1
                start += len(line)
        out = "; ".join(f"{count} {why}" for why, count in sorted(left.items()))
        self._said.append(f"{run}: {taken} trajectories" + (f" (left out: {out})" if out else ""))

    def _refused(self, run: Path, trajectory: Trajectory) -> str:
        if trajectory.provenance.dialect != self._dialect:
            raise SettingsError(
                f"{run} holds trajectories of dialect {trajectory.provenance.dialect}, not of {self._dialect}. "
                f"Name it: --dialect {trajectory.provenance.dialect}."
            )
        return "" if trajectory.answer is not None else "without an answer"
