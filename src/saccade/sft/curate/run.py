"""Runs a pipeline over runs and writes a run again: order kept, the same every time, media linked.

The output folder holds `trajectories.jsonl` and `media/`, and beside them `report.json`, `dropped.jsonl` (every
trajectory that was left out or undecided, and why) and `pipeline.toml` (resolved). Trajectories are read as a stream;
in memory are one batch, the ids, and what a filter of whole sets notes. Trajectories that an outage of ours ended are
always left out. It cannot be resumed, but judges keep their verdicts on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

from saccade.episode.run_folder import MEDIA, TRAJECTORIES
from saccade.media.store import MediaStore
from saccade.record.codec import dumps, read_lines
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.output import link_into, new_folder
from saccade.sft.curate.pipeline import FilterStep, Pipeline
from saccade.sft.curate.report import CurateReport, FilterReport, Tally
from saccade.sft.curate.sources import SourceRuns
from saccade.sft.curate.stage import KEEP, BatchStage, Drop, FilterContext, FilterOutcome, FilterStage, Keep, Undecided

BATCH = 32
"""Trajectories that pass through the filters together."""
LOST = "lost"
"""Label under which outages of ours are reported, before all filters."""


def curate(
    runs: Sequence[str | Path],
    pipeline: Pipeline,
    out: Path,
    *,
    cache: Path,
    on_read: Callable[[], None] = lambda: None,
) -> CurateReport:
    """Write what `pipeline` leaves of `runs` to `out`, a new folder, which appears complete or not at all.

    Args:
        runs: run folders, or sources of tasks, read in this order.
        pipeline: the filters.
        out: must not exist, or be empty.
        cache: folder in which judges keep their verdicts.
        on_read: called for every trajectory that is read from the runs.

    Raises:
        RecordError: a run cannot be read, or `out` exists.
        SettingsError: a filter's settings name something that is not there.
        ModelError: a judge cannot be asked; its verdicts so far are kept.
    """
    source = SourceRuns(runs)
    with new_folder(out) as folder, ExitStack() as open_things:
        around = FilterContext(source, cache)
        played = _Run(folder, open_things.enter_context((folder / "dropped.jsonl").open("w", encoding="utf-8")))
        played.add(Tally(LOST, LOST, pipeline.category))
        for step in pipeline.steps:
            stage = step.settings.start(around)
            if isinstance(stage, BatchStage):
                open_things.callback(stage.close)
            played.add(Tally(step.label, step.filter, pipeline.category), step, stage)
        kept = played.play(_noticed(source.trajectories(), on_read))
        _link_media(kept, MediaStore(folder / MEDIA), source)
        kept.replace(folder / TRAJECTORIES)
        filters = played.reports()
        report = CurateReport(
            runs=tuple(str(path) for path in runs),
            category=pipeline.category,
            read=filters[0].seen,
            kept=filters[-1].kept,
            renamed=source.renamed,
            broken=tuple(source.broken),
            filters=filters,
        )
        (folder / "report.json").write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
        (folder / "pipeline.toml").write_text(pipeline.to_toml(), encoding="utf-8")
    return report


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

    def play(self, trajectories: Iterable[Trajectory]) -> Path:
        """Play all stages; the file of what is left. A stage of whole sets ends a pass over the stream."""
        stream = self._not_lost(trajectories)
        batches: list[tuple[Tally, FilterStep, BatchStage]] = []
        for number, (tally, step, stage) in enumerate(self.stages):
            if isinstance(stage, BatchStage):
                batches.append((tally, step, stage))
                continue
            file = self.folder / f".pass-{number}.jsonl"
            notes = self._pass(stream, batches, file, stage.note)
            stream = self._chosen(file, stage.choose(notes), tally, step)
            batches = []
        kept = self.folder / ".kept.jsonl"
        self._pass(stream, batches, kept, lambda _: None)
        return kept

    def _pass(
        self,
        stream: Iterator[Trajectory],
        stages: Sequence[tuple[Tally, FilterStep, BatchStage]],
        file: Path,
        note: Callable[[Trajectory], Any],
    ) -> list[Any]:
        """Write what `stages` leave of the stream to a file; what is noted of each."""
        notes = []
        with file.open("w", encoding="utf-8", newline="\n") as lines:
            while batch := list(islice(stream, BATCH)):
                for tally, step, stage in stages:
                    outcomes = stage.decide(batch)
                    pairs = zip(batch, outcomes, strict=True)
                    batch = [left for pair in pairs if (left := self._left(*pair, tally, step)) is not None]
                for trajectory in batch:
                    lines.write(dumps(trajectory) + "\n")
                    notes.append(note(trajectory))
        return notes

    def _chosen(
        self, file: Path, outcomes: Sequence[FilterOutcome], tally: Tally, step: FilterStep
    ) -> Iterator[Trajectory]:
        for trajectory, outcome in zip(read_lines(file, Trajectory), outcomes, strict=True):
            left = self._left(trajectory, outcome, tally, step)
            if left is not None:
                yield left
        file.unlink()

    def _not_lost(self, trajectories: Iterable[Trajectory]) -> Iterator[Trajectory]:
        for trajectory in trajectories:
            outcome = Drop(f"ended as {trajectory.stop}", trajectory.stop_detail) if trajectory.lost else KEEP
            if self._left(trajectory, outcome, self.tallies[0], None) is not None:
                yield trajectory

    def _left(
        self, trajectory: Trajectory, outcome: FilterOutcome, tally: Tally, step: FilterStep | None
    ) -> Trajectory | None:
        """The trajectory for the next filter, or None; counted either way."""
        keeps = step is not None and step.settings.undecided == "keep"
        stays = isinstance(outcome, Keep) or (isinstance(outcome, Undecided) and keeps)
        line = tally.count(trajectory, outcome, stays)
        if line is not None:
            self.log.write(dumps(line) + "\n")
        if not stays:
            return None
        return (outcome.trajectory if isinstance(outcome, Keep) else None) or trajectory


def _noticed(trajectories: Iterable[Trajectory], on_read: Callable[[], None]) -> Iterator[Trajectory]:
    for trajectory in trajectories:
        on_read()
        yield trajectory


def _link_media(kept: Path, store: MediaStore, source: SourceRuns) -> None:
    for trajectory in read_lines(kept, Trajectory):
        for part in trajectory.media():
            link_into(store, source, part.sha256)
