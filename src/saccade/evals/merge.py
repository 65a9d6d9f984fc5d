"""Puts the shards of one run together in a new run folder, and writes its summary.

Trajectories and media of the shards are copied; nothing of the shards is changed. Shards may be merged before they are
complete: the merged run is one like any other and can be continued, as shard 1/1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from saccade.core.disk import noted_files, one_writer
from saccade.core.settings import differences, save_settings
from saccade.episode.run_folder import MEDIA, SETTINGS, TRAJECTORIES, saved_settings
from saccade.errors import SettingsError
from saccade.evals.grades import FAILURES, SampleFailure
from saccade.evals.run import sum_up
from saccade.evals.settings import EvalSettings
from saccade.evals.summary import Summary
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines, write_lines
from saccade.record.trajectory import Trajectory


def merge(shards: Sequence[Path], out: Path, *, incomplete: bool = False) -> Summary:
    """Put the run folders `shards` together in the new folder `out`; not all of them only if it may be `incomplete`.

    Raises:
        SettingsError: one is no run of `saccade eval`, their settings differ by more than the shard and the
            places of data and servers, two are the same shard, some are missing, or `out` is there already.
        RecordError: trajectories cannot be read.
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
