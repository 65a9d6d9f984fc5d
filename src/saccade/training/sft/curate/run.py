"""Runs a pipeline over runs or tasks and writes the same again: order kept, the same every time, media linked.

The output folder holds `trajectories.jsonl` (or `tasks.jsonl`) and `media/`, so it is a source like any other, and
next to them `report.json`, `dropped.jsonl` (everything that was left out or undecided, and why) and `pipeline.toml`
(resolved). Trajectories flow through the filters one after the other: while a judge is asked about one, another judge
is asked about an earlier one; only a filter of the whole set waits for all. Those that an outage of ours ended are
always left out. It cannot be resumed, but judges keep their verdicts on the disk.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from saccade.core import sync
from saccade.core.disk import new_folder
from saccade.core.seam import awaited, seam
from saccade.episode.run_folder import MEDIA, REJECTED, TRAJECTORIES, kept_nothing, note_empty
from saccade.errors import DataError, MediaError, MissingMediaError, RecordError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.codec import dumps, read_lines
from saccade.record.trajectory import Trajectory
from saccade.tasks.sources.folder import TASKS
from saccade.tasks.sources.task_set import TaskPool, open_tasks
from saccade.training.sft.curate.pipeline import (
    FILTERS,
    KEEP,
    AskStage,
    BatchStage,
    CurateReport,
    DatasetStage,
    Drop,
    FilterContext,
    FilterOutcome,
    FilterReport,
    FilterSettings,
    FilterStage,
    FilterStep,
    Keep,
    Media,
    Pipeline,
    Tally,
    Undecided,
)


class SourceRuns:
    """One run folder or source of tasks, or more, read in the order in which they are named.

    A task that nobody played is a trajectory without turns; what filters leave of such is a source of tasks again. An
    id that an earlier run has already gets the name of its run's folder before it.
    """

    def __init__(self, names: Sequence[str | Path]) -> None:
        """Opens the sources of tasks; their media are put into a temporary folder when they are read.

        Raises `RecordError`: one is named twice; `SettingsError`, `RegistryError`, `DataError`: as `open_tasks`, for
        what is no run folder; or runs and tasks are named together.
        """
        self.names = tuple(map(str, names))
        if len({Path(name).resolve() for name in self.names}) < len(self.names):
            raise RecordError("a run folder is named twice; name each once")
        for name in self.names:
            if kept_nothing(Path(name)):
                listed = f" Its {REJECTED} lists what was played and not wanted." * (Path(name) / REJECTED).exists()
                raise SettingsError(
                    f"{name} is a run that kept no trajectory, so there is nothing to curate.{listed} The command that "
                    "made it says why when it is run again; leave it out, or make it with other settings."
                )
        self._tasks = {name: open_tasks([name]) for name in self.names if not _is_run(name)}
        if self._tasks and len(self._tasks) < len(self.names):
            raise SettingsError(
                f"{next(iter(self._tasks))} holds tasks and no episodes, and other names are runs: trajectories and "
                "tasks are not curated together. Name one kind."
            )
        for name in self.names:
            if name not in self._tasks:
                note_empty(Path(name) / TRAJECTORIES)
        runs = [MediaStore(Path(name) / MEDIA) for name in self.names if _is_run(name)]
        self._made: MediaStore | None = None
        if self._tasks:
            scratch = tempfile.mkdtemp(prefix="saccade-curate-")
            weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
            self._made = MediaStore(scratch)
        self._stores: tuple[MediaStore, ...] = (*runs, *(() if self._made is None else (self._made,)))
        self.renamed = 0
        self.broken: list[str] = []
        """Why rows of sources gave no task."""

    @property
    def of_tasks(self) -> bool:
        """Whether these are tasks that nobody has played."""
        return bool(self._tasks)

    def lines(self) -> tuple[str, ...]:
        """Return lines about the tasks of each source that are taken and those that are not."""
        return tuple(line for tasks in self._tasks.values() for line in tasks.lines())

    def count(self) -> int:
        """Return trajectories and tasks, for a progress bar; of files of trajectories their lines."""
        total = sum(map(len, self._tasks.values()))
        for name in self.names:
            if name not in self._tasks:
                with (Path(name) / TRAJECTORIES).open("rb") as file:
                    total += sum(1 for _ in file)
        return total

    def trajectories(self) -> Iterator[Trajectory]:
        """Yield all trajectories, in order.

        Raises `RecordError`: one cannot be read, or an id comes twice in one run.
        """
        self.renamed = 0
        self.broken = [str(problem) for tasks in self._tasks.values() for problem in tasks.problems]
        seen: set[str] = set()
        for name in self.names:
            for trajectory in self._of(name):
                if trajectory.id in seen:
                    trajectory = self._with_other_name(trajectory, name, seen)
                seen.add(trajectory.id)
                yield trajectory

    def _of(self, name: str) -> Iterator[Trajectory]:
        if name in self._tasks:
            yield from self._unplayed(self._tasks[name])
        else:
            yield from read_lines(Path(name) / TRAJECTORIES, Trajectory)

    def _unplayed(self, tasks: TaskPool) -> Iterator[Trajectory]:
        assert self._made is not None
        for name in tasks.ids:
            try:
                yield Trajectory(id=name, task=tasks.make(name, self._made))
            except (DataError, MediaError) as error:
                self.broken.append(str(error))

    def _with_other_name(self, trajectory: Trajectory, run: str, seen: set[str]) -> Trajectory:
        self.renamed += 1
        name = f"{Path(run).resolve().name}/{trajectory.id}"
        if name in seen or len(name) > 200:
            raise RecordError(
                f"the trajectory {trajectory.id} comes twice in {run}, or in two runs of that name. "
                "Give every trajectory an id of its own."
            )
        return trajectory.model_copy(update={"id": name})

    def get_bytes(self, sha256: str) -> bytes:
        """Return the stored bytes. Raises `MissingMediaError`."""
        return self._holder(sha256).get_bytes(sha256)

    def path(self, sha256: str) -> Path:
        """Return the file that holds them. Raises `MissingMediaError`."""
        return self._holder(sha256).path(sha256)

    def _holder(self, sha256: str) -> MediaStore:
        for store in self._stores:
            if sha256 in store:
                return store
        raise MissingMediaError(
            f"none of the runs {', '.join(self.names)} holds the media {sha256}. "
            "Copy the run's media folder along with its records."
        )


def _is_run(name: str) -> bool:
    return (Path(name) / TRAJECTORIES).is_file()


# Decisions that are waited for, several at once, given in the order of the trajectories.


AHEAD = 8
"""How many times as many trajectories as are asked about at once may wait for an earlier one that is slow."""


async def asked_in_order(
    stream: AsyncIterator[Trajectory], decide: Callable[[Trajectory], Awaitable[FilterOutcome]], at_once: int
) -> AsyncGenerator[tuple[Trajectory, FilterOutcome], None]:
    """Yield each trajectory with its outcome; `at_once` of them are decided about at a time, whoever is done first.

    The first exception ends it: nothing new is begun, what is under way is waited for (its replies are paid and kept),
    then it is raised.
    """
    gate = asyncio.Semaphore(at_once)
    waiting: deque[tuple[Trajectory, asyncio.Task[FilterOutcome]]] = deque()
    failed: list[Exception] = []

    async def guarded(trajectory: Trajectory) -> FilterOutcome:
        async with gate:
            if failed:
                return KEEP  # nobody reads it
            try:
                return await decide(trajectory)
            except Exception as error:  # raised below, when the others are done
                failed.append(error)
                return KEEP

    try:
        async for trajectory in stream:
            waiting.append((trajectory, asyncio.create_task(guarded(trajectory))))
            while waiting and not failed and (waiting[0][1].done() or len(waiting) >= AHEAD * at_once):
                first, task = waiting.popleft()
                outcome = await task
                if not failed:
                    yield first, outcome
            if failed:
                break
        while waiting:
            first, task = waiting.popleft()
            outcome = await task
            if not failed:
                yield first, outcome
        if failed:
            raise failed[0]
    finally:
        for _, task in waiting:
            task.cancel()
        await asyncio.gather(*(task for _, task in waiting), return_exceptions=True)


# Media that are linked into the folder of a curated set.


def link_into(store: MediaStore, media: Media, sha256: str) -> None:
    """Put one object into `store`: a hard link where the file system has them, else a copy."""
    target = store.path(sha256)
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    link_or_copy(media.path(sha256), target)


def link_or_copy(source: Path, target: Path) -> None:
    """Make `target` a hard link to `source`, or a copy where that cannot be."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


_OUTCOMES = (Keep, Drop, Undecided)
LOST = "lost"
"""Label under which outages of ours are reported, before all filters."""


def curate(
    sources: Sequence[str | Path],
    pipeline: Pipeline,
    out: Path,
    *,
    cache: Path,
    on_read: Callable[[], None] = lambda: None,
) -> CurateReport:
    """Write what `pipeline` leaves of `sources` to `out`, a new folder, which appears complete or not at all.

    Args:
        sources: run folders, read in this order; or sources of tasks, as `open_tasks` takes them.
        pipeline: the filters.
        out: must not exist, or be empty.
        cache: folder in which judges keep their verdicts.
        on_read: called for every trajectory or task that is read.

    Raises:
        RecordError: a run cannot be read, or `out` exists.
        SettingsError: a filter's settings name something that is not there, or it needs episodes and there are tasks.
        ModelError: a judge cannot be asked; its verdicts so far are kept.
    """
    source = SourceRuns(sources)
    check_about(pipeline, source)
    with new_folder(out) as folder:
        return sync.run(_curated(source, pipeline, folder, cache, on_read))


def check_about(pipeline: Pipeline, source: SourceRuns) -> None:
    """Raise `SettingsError` for filters of what a model did, where nobody has played the tasks yet."""
    wrong = [step.label for step in pipeline.steps if source.of_tasks and not step.settings.ABOUT_TASKS]
    if wrong:
        raise SettingsError(
            f"{', '.join(source.names)} holds tasks that nobody has played, and {', '.join(wrong)} looks at what a "
            "model did. Leave that out, or curate a run."
        )


def started(settings: FilterSettings, around: FilterContext) -> FilterStage:
    """Return the stage of a filter. Raises as `FilterSettings.start`, `OwnCodeError` for a user's own among it."""
    return seam(settings.start, BatchStage, AskStage, DatasetStage)(around)


def _rehearse(pipeline: Pipeline, source: SourceRuns, around: FilterContext) -> None:
    """Show filters of a user's own the first trajectory, before the filters ahead of them work for hours."""
    own = [step for step in pipeline.steps if FILTERS.code(step.filter) is not None]
    first = next(iter(source.trajectories()), None) if own and not source.of_tasks else None
    if first is None:
        return
    for step in own:
        stage = started(step.settings, around)
        if isinstance(stage, BatchStage):
            seam(stage.decide, list, tuple, each=_OUTCOMES, count=1)([first])
            stage.close()
        elif isinstance(stage, DatasetStage):
            seam(stage.choose, list, tuple, each=_OUTCOMES, count=1)([seam(stage.note, object)(first)])


async def _curated(
    source: SourceRuns, pipeline: Pipeline, folder: Path, cache: Path, on_read: Callable[[], None]
) -> CurateReport:
    async with AsyncExitStack() as open_things:
        around = FilterContext(source, cache)
        _rehearse(pipeline, source, around)
        log = open_things.enter_context((folder / "dropped.jsonl").open("w", encoding="utf-8"))
        played = _Run(folder, log)
        played.add(Tally(LOST, LOST, pipeline.category))
        for step in pipeline.steps:
            stage = started(step.settings, around)
            if isinstance(stage, BatchStage):
                open_things.callback(stage.close)
            elif isinstance(stage, AskStage):
                open_things.push_async_callback(stage.close)
            played.add(Tally(step.label, step.filter, pipeline.category), step, stage)
        kept = await played.play(_noticed(source.trajectories(), on_read))
        _link_media(kept, MediaStore(folder / MEDIA), source)
        if source.of_tasks:
            _write_tasks(kept, folder / TASKS)
        else:
            kept.replace(folder / TRAJECTORIES)
        report = _report(source, pipeline, played.reports())
        (folder / "report.json").write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
        (folder / "pipeline.toml").write_text(pipeline.to_toml(), encoding="utf-8")
    return report


def _report(source: SourceRuns, pipeline: Pipeline, filters: tuple[FilterReport, ...]) -> CurateReport:
    return CurateReport(
        runs=source.names,
        category=pipeline.category,
        read=filters[0].seen,
        kept=filters[-1].kept,
        broken=tuple(source.broken),
        renamed=source.renamed,
        filters=filters,
    )


@dataclass
class _Run:
    """One run of the stages over a stream."""

    folder: Path
    log: IO[str]
    tallies: list[Tally] = field(default_factory=list)
    stages: list[tuple[Tally, FilterStep, FilterStage]] = field(default_factory=list)

    def add(self, tally: Tally, step: FilterStep | None = None, stage: FilterStage | None = None) -> None:
        self.tallies.append(tally)
        if step is not None and stage is not None:
            self.stages.append((tally, step, stage))

    def reports(self) -> tuple[FilterReport, ...]:
        return tuple(tally.report() for tally in self.tallies)

    async def play(self, trajectories: Iterable[Trajectory]) -> Path:
        """Play all stages; the file of what is left. A stage of whole sets ends a pass over the stream."""
        stream = self._not_lost(trajectories)
        for number, (tally, step, stage) in enumerate(self.stages):
            if isinstance(stage, DatasetStage):
                file = self.folder / f".pass-{number}.jsonl"
                notes = await _written(stream, file, _note_of(stage, step))
                stream = self._chosen(file, notes, stage, tally, step)
            elif isinstance(stage, BatchStage):
                stream = self._ruled(stream, stage, tally, step)
            else:
                stream = self._asked(stream, stage, tally, step)
        kept = self.folder / ".kept.jsonl"
        await _written(stream, kept, lambda one: None)
        return kept

    async def _ruled(
        self, stream: AsyncGenerator[Trajectory, None], stage: BatchStage, tally: Tally, step: FilterStep
    ) -> AsyncGenerator[Trajectory, None]:
        ruled = seam(stage.decide, list, tuple, each=_OUTCOMES, count=1)
        async with aclosing(stream):
            async for trajectory in stream:
                outcome = ruled([trajectory])[0] if step.branch.has(trajectory.task) else None
                if (left := self._left(trajectory, outcome, tally, step)) is not None:
                    yield left

    async def _asked(
        self, stream: AsyncGenerator[Trajectory, None], stage: AskStage, tally: Tally, step: FilterStep
    ) -> AsyncGenerator[Trajectory, None]:
        async def decide(trajectory: Trajectory) -> FilterOutcome:
            return await awaited(stage.decide, *_OUTCOMES)(trajectory) if step.branch.has(trajectory.task) else KEEP

        async with aclosing(stream), aclosing(asked_in_order(stream, decide, stage.at_once)) as asked:
            async for trajectory, outcome in asked:
                concerned = outcome if step.branch.has(trajectory.task) else None
                if (left := self._left(trajectory, concerned, tally, step)) is not None:
                    yield left

    async def _chosen(
        self, file: Path, notes: Sequence[tuple[bool, Any]], stage: DatasetStage, tally: Tally, step: FilterStep
    ) -> AsyncGenerator[Trajectory, None]:
        asked = [note for concerned, note in notes if concerned]
        outcomes = iter(seam(stage.choose, list, tuple, each=_OUTCOMES, count=len(asked))(asked))
        for trajectory, (concerned, _) in zip(read_lines(file, Trajectory), notes, strict=True):
            left = self._left(trajectory, next(outcomes) if concerned else None, tally, step)
            if left is not None:
                yield left
        file.unlink()

    async def _not_lost(self, trajectories: Iterable[Trajectory]) -> AsyncGenerator[Trajectory, None]:
        for trajectory in trajectories:
            outcome = Drop(f"ended as {trajectory.stop}", trajectory.stop_detail) if trajectory.lost else KEEP
            if self._left(trajectory, outcome, self.tallies[0], None) is not None:
                yield trajectory

    def _left(
        self, trajectory: Trajectory, outcome: FilterOutcome | None, tally: Tally, step: FilterStep | None
    ) -> Trajectory | None:
        """Return the trajectory for the next filter, or None; counted either way.

        No outcome: it is of another branch.
        """
        if outcome is None:
            tally.pass_by(trajectory)
            return trajectory
        keeps = step is not None and step.settings.undecided == "keep"
        stays = isinstance(outcome, Keep) or (isinstance(outcome, Undecided) and keeps)
        line = tally.count(trajectory, outcome, stays)
        if line is not None:
            self.log.write(dumps(line) + "\n")
        if not stays:
            return None
        return (outcome.trajectory if isinstance(outcome, Keep) else None) or trajectory


def _note_of(stage: DatasetStage, step: FilterStep) -> Callable[[Trajectory], tuple[bool, Any]]:
    """Return a function that tells whether a trajectory is of the filter's branch, and the filter's note on it."""

    def note(trajectory: Trajectory) -> tuple[bool, Any]:
        concerned = step.branch.has(trajectory.task)
        return concerned, seam(stage.note, object)(trajectory) if concerned else None

    return note


async def _written(
    stream: AsyncGenerator[Trajectory, None], file: Path, note: Callable[[Trajectory], Any]
) -> list[Any]:
    notes = []
    with file.open("w", encoding="utf-8", newline="\n") as lines:
        async with aclosing(stream):
            async for trajectory in stream:
                lines.write(dumps(trajectory) + "\n")
                notes.append(note(trajectory))
    return notes


def _noticed(trajectories: Iterable[Trajectory], on_read: Callable[[], None]) -> Iterator[Trajectory]:
    for trajectory in trajectories:
        on_read()
        yield trajectory


def _write_tasks(kept: Path, file: Path) -> None:
    with file.open("w", encoding="utf-8", newline="\n") as lines:
        lines.writelines(dumps(trajectory.task) + "\n" for trajectory in read_lines(kept, Trajectory))
    kept.unlink()


def _link_media(kept: Path, store: MediaStore, source: SourceRuns) -> None:
    for trajectory in read_lines(kept, Trajectory):
        for part in trajectory.media():
            link_into(store, source, part.sha256)
