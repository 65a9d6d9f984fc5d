"""Lists the evaluations below a folder (model, share right, cost, how far each has come), and merges shards.

The figures of a run whose `summary.json` counts every stored sample are taken from it; of any other run the samples are
read. A run that cannot be read is listed with the reason, and stops nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from saccade.core.disk import noted_files, one_writer
from saccade.core.settings import differences, save_settings
from saccade.episode.run_folder import MEDIA, SETTINGS, TRAJECTORIES, saved_settings
from saccade.errors import SaccadeError, SettingsError
from saccade.evals.grades import FAILURES, SampleFailure
from saccade.evals.intervals import Interval
from saccade.evals.rows import dollars_text
from saccade.evals.run import figures_of, sum_up
from saccade.evals.settings import EvalSettings
from saccade.evals.summary import SUMMARY, Summary, markdown
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines, write_lines
from saccade.record.trajectory import Trajectory

# Puts the shards of one run together in a new run folder, and writes its summary.
#
# Trajectories and media of the shards are copied; nothing of the shards is changed. Shards may be merged before they
# are complete: the merged run is one like any other and can be continued, as shard 1/1.


def merge(shards: Sequence[Path], out: Path, *, incomplete: bool = False) -> Summary:
    """Put the run folders `shards` together in the new folder `out`; not all of them only if it may be `incomplete`.

    Raises `SettingsError`: one is no run of `saccade eval`, their settings differ by more than the shard and the places
    of data and servers, two are the same shard, some are missing, or `out` is there already; `RecordError`:
    trajectories cannot be read.
    """
    settings = [run_settings(shard) for shard in shards]
    _check(shards, settings)
    if (out / SETTINGS).exists() or (out / TRAJECTORIES).exists():
        raise SettingsError(f"{out} holds a run already. Name a new folder for the merged one.")
    missing = missing_shards(settings)
    if missing and not incomplete:
        raise SettingsError(
            f"{', '.join(missing)} of this run {'is' if len(missing) == 1 else 'are'} not named: the figures would be "
            "those of a part of the tasks. Name all shards, or say --incomplete."
        )
    merged = settings[0].model_copy(update={"shard": "1/1"})
    with one_writer(out):
        store = MediaStore(out / MEDIA)
        write_lines(out / FAILURES, (item for shard in shards for item in _failures(shard)))
        write_lines(out / TRAJECTORIES, (item for shard in shards for item in _copied(shard, store)))
        save_settings(merged, out / SETTINGS, shards[0] / SETTINGS)
        return sum_up(out, merged)


def missing_shards(settings: Sequence[EvalSettings]) -> list[str]:
    """Name the shards that these leave out. Raises `SettingsError` if they are parts of different numbers of shards."""
    counts = {item.shards[1] for item in settings}
    if len(counts) > 1:
        names = ", ".join(item.shard for item in settings)
        raise SettingsError(f"these are shards of different divisions: {names}. Merge those of one.")
    here = {item.shards[0] for item in settings}
    return [f"{number + 1}/{count}" for count in counts for number in range(count) if number not in here]


def run_settings(run: Path) -> EvalSettings:
    """Read the settings of a run folder. Raises `SettingsError` if it is no run of `saccade eval`."""
    saved = run / SETTINGS
    if not saved.is_file():
        raise SettingsError(f"{run} is no run of `saccade eval`: it has no {SETTINGS}. Name the folder of a run.")
    return saved_settings(EvalSettings, run)


def _copied(shard: Path, store: MediaStore) -> Iterator[Trajectory]:
    """Yield the trajectories of a shard, each after its media were copied into `store`."""
    if not (shard / TRAJECTORIES).exists():
        return
    own = MediaStore(shard / MEDIA)
    for trajectory in read_lines(shard / TRAJECTORIES, Trajectory):
        for part in trajectory.media():
            if part not in store:
                store.put_blob(own.get_bytes(part.sha256))
        yield trajectory


def _failures(shard: Path) -> Iterator[SampleFailure]:
    if (shard / FAILURES).exists():
        yield from read_lines(shard / FAILURES, SampleFailure)


def _check(shards: Sequence[Path], settings: Sequence[EvalSettings]) -> None:
    for shard, other in zip(shards[1:], settings[1:], strict=True):
        free = {"shard", *other.may_differ(settings[0])} - {"n", "k", "grader", "headline"}
        if other.judge_name != settings[0].judge_name:  # a run may get a judge; half a run may not
            free.discard("judge")
        changed = [item for item in differences(settings[0], other) if item.name not in free]
        if changed:
            listed = "\n".join(f"  {item}" for item in changed)
            raise SettingsError(f"{shards[0]} and {shard} are no shards of one run; their settings differ:\n{listed}")
        first, own = (noted_files(folder / SETTINGS) for folder in (shards[0], shard))
        if first != own:
            listed = ", ".join(sorted(place for place, _ in first.items() ^ own.items()))
            raise SettingsError(
                f"{shards[0]} and {shard} are no shards of one run: they ran other versions of {listed}."
            )
    names = [item.shard for item in settings]
    if len(set(names)) < len(names):
        raise SettingsError(f"two of these folders are the same shard: {', '.join(names)}. Name each shard once.")


_DEEPEST = 4
"""Levels of folders below the named one that are searched."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One evaluation that was found in a folder."""

    path: Path
    name: str
    """Its path below the folder that was listed."""
    model: str
    dialect: str
    sources: tuple[str, ...]
    k: int
    """Samples of each task that were asked for."""
    samples: int
    """Stored."""
    failed: int
    """Samples that failed."""
    right: float | None
    """avg@k, 0 to 1; None where nothing is graded."""
    interval: Interval | None
    """Of `right`, 95%."""
    dollars: float | None
    """Of the samples whose price is known; None if it is known of none."""
    priced: int
    """Samples whose price is known."""
    changed: datetime
    """When a sample was last stored, in UTC."""
    complete: bool
    """Whether the summary counts every stored sample: the command came to its end."""
    problem: str = ""
    """Why there are no numbers; empty if there are."""

    @property
    def state(self) -> str:
        """`complete`, `complete, 3 failed`, `not complete` or `cannot be read`."""
        if self.problem:
            return "cannot be read"
        failed = f", {self.failed:,} failed" if self.failed else ""
        return ("complete" if self.complete else "not complete") + failed


def list_runs(folder: Path) -> list[Listed]:
    """Find the evaluations in `folder` and below it, the one that changed last first; `folder` itself may be one."""
    runs = [_listed(path, folder) for path in _folders(folder, _DEEPEST)]
    return sorted((run for run in runs if run is not None), key=lambda run: (run.changed, run.name), reverse=True)


def is_run(folder: Path) -> bool:
    """Tell whether `folder` is a run, or was begun as one."""
    return (folder / TRAJECTORIES).is_file() or (folder / SETTINGS).is_file()


def runs_text(runs: list[Listed]) -> str:
    """Write the runs as a table for a terminal."""
    heads = ("run", "model", "dialect", "sources", "samples", "right, %", "95%", "cost", "changed (UTC)", "state")
    lines = markdown(heads, [_cells(run) for run in runs])
    return "\n".join([*lines, *(f"{run.name}: {run.problem}" for run in runs if run.problem)])


def cost_text(run: Listed) -> str:
    """Write the cost of a run, and of how many samples it is known where not of all."""
    if run.dollars is None:
        return "–"
    part = "" if run.priced == run.samples else f" (of {run.priced:,})"
    return f"{dollars_text(run.dollars)}{part}"


def _cells(run: Listed) -> tuple[str, ...]:
    ends = run.interval
    return (
        run.name,
        run.model,
        run.dialect,
        ", ".join(run.sources),
        f"{run.samples:,}",
        "–" if run.right is None else f"{100 * run.right:.1f}",
        "–" if ends is None else f"{100 * ends.low:.1f}–{100 * ends.high:.1f}",
        cost_text(run),
        f"{run.changed:%Y-%m-%d %H:%M}",
        run.state,
    )


def _folders(folder: Path, deep: int) -> Iterator[Path]:
    if (folder / SETTINGS).is_file():
        yield folder
        return
    if deep and folder.is_dir():
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False) and entry.name != MEDIA and not entry.name.startswith("."):
                yield from _folders(Path(entry.path), deep - 1)


def _listed(path: Path, folder: Path) -> Listed | None:
    try:
        settings = run_settings(path)
    except SaccadeError:
        return None  # the run of another command
    try:
        return _read_run(path, folder, settings)
    except (SaccadeError, OSError, ValueError) as error:
        return Listed(
            path,
            *_who(path, folder, settings),
            samples=0,
            failed=0,
            right=None,
            interval=None,
            dollars=None,
            priced=0,
            changed=_changed(path),
            complete=False,
            problem=" ".join(str(error).split()),
        )


def _read_run(path: Path, folder: Path, settings: EvalSettings) -> Listed:
    lines = _lines(path / TRAJECTORIES)
    summary = _stored(path, lines)
    if summary is None:
        rows, figures = figures_of(path, settings)
        summary = _numbers(figures)
        complete = _counted(path) == len(rows)
    else:
        complete = True
    samples, failed, right, interval, dollars, priced = summary
    changed = _changed(path)
    return Listed(
        path, *_who(path, folder, settings), samples, failed, right, interval, dollars, priced, changed, complete
    )


_Numbers = tuple[int, int, float | None, Interval | None, float | None, int]


def _numbers(summary: Summary) -> _Numbers:
    dollars = summary.spent.dollars
    known = dollars.amount if dollars.samples else None
    total = summary.total
    return summary.spent.samples, summary.missing, total.avg, total.interval, known, dollars.samples


def _stored(path: Path, lines: int) -> _Numbers | None:
    """Return the numbers of `summary.json`; None if it is not of all stored samples."""
    try:
        data = json.loads((path / SUMMARY).read_bytes())
        spent, total = data["spent"], data["total"]
        if spent["samples"] != lines:
            return None
        dollars = spent["dollars"]
        interval = Interval(*total["interval"]) if total["interval"] is not None else None
        known = dollars["amount"] if dollars["samples"] else None
        return spent["samples"], data["missing"], total["avg"], interval, known, dollars["samples"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _counted(path: Path) -> int | None:
    """Return samples that `summary.json` counts; None without one."""
    try:
        stops: dict[str, int] = json.loads((path / SUMMARY).read_bytes())["stops"]
        return sum(stops.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _who(path: Path, folder: Path, settings: EvalSettings) -> tuple[str, str, str, tuple[str, ...], int]:
    name = path.name if path == folder else path.relative_to(folder).as_posix()
    sources = tuple(source.rstrip("/").rpartition("/")[2] for source in settings.sources)
    return name, settings.asked, settings.dialect, sources, settings.k


def _lines(file: Path) -> int:
    if not file.is_file():
        return 0
    with file.open("rb") as lines:
        return sum(1 for _ in lines)


def _changed(path: Path) -> datetime:
    file = path / TRAJECTORIES
    stat = (file if file.is_file() else path / SETTINGS).stat()
    return datetime.fromtimestamp(stat.st_mtime, UTC)
