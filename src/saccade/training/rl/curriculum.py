"""Choose the tasks of a curriculum by the pass rates of the first policy.

    OUT/pass-rates.jsonl

Rolling out every task may take longer than training on those left, so rates are kept as they are found: a killed run
continues with the rest, and a person can see what a band would leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, NonNegativeInt

from saccade.errors import SettingsError, TrainingError
from saccade.record.codec import append_lines, read_lines, recover_lines
from saccade.record.content import Record, Text
from saccade.training.rl.metrics import RlCallback, StepTiming
from saccade.training.rl.rollout import RolloutGroup
from saccade.training.rl.scoring import accuracy_alone
from saccade.training.rl.select import Band, in_band, pass_rates
from saccade.training.rl.step import Trainer, check_lost
from saccade.training.rl.tasks import TaskList

PASS_RATES = "pass-rates.jsonl"


class TaskPassRate(Record):
    """The pass rate of the first policy on a task."""

    id: Text
    """Of the task."""
    rate: Annotated[float, Field(ge=0, le=1)] | None
    """Share of right rollouts; None where no rollout was usable."""
    usable: NonNegativeInt
    """Rollouts that count."""


async def choose_tasks(
    tasks: TaskList, band: Band, trainer: Trainer, out: Path, callback: RlCallback
) -> tuple[str, ...]:
    """Return the ids of `tasks` whose pass rate is in the band, in order; every process calls it.

    Raises `TrainingError`: there is none; `RecordError`: OUT/pass-rates.jsonl is damaged.
    """
    path, processes = out / PASS_RATES, trainer.processes
    stored = processes.all_gather(_read_pass_rates(path) if processes.is_main else [])[0]
    rates = {item.id: item for item in stored}
    size, total = trainer.recipe.rounds.tasks, len(tasks.ids)
    for start in range(0, total, size):
        part = range(start, min(start + size, total))
        if any(tasks.ids[place] not in rates for place in part):
            measured = await measure_pass_rates(trainer, tasks, part)
            unknown = {name: found for name, found in measured.items() if name not in rates}
            new = [TaskPassRate(id=name, rate=rate, usable=usable) for name, (rate, usable) in unknown.items()]
            if processes.is_main:
                append_lines(path, new)
            rates |= {item.id: item for item in new}
        callback.choosing(part.stop, total)
    chosen = _chosen(tasks, rates, band, path)
    callback.chose(len(chosen), total)
    return chosen


def chosen_before(tasks: TaskList, band: Band, path: Path) -> tuple[str, ...]:
    """Choose by the rates that another run of this policy wrote to the file `path`.

    Raises `SettingsError`: the file is not there, or lacks the rate of a task; `TrainingError`: there is none;
    `RecordError`: it is damaged.
    """
    if not path.is_file():
        raise SettingsError(f"there are no pass rates in {path}: the file does not exist")
    rates = {item.id: item for item in read_lines(path, TaskPassRate)}
    if missing := [name for name in tasks.ids if name not in rates]:
        raise SettingsError(
            f"{path} has no pass rate of {len(missing)} of {len(tasks.ids)} tasks, {missing[0]} first. Let a run "
            "choose among the same tasks."
        )
    return _chosen(tasks, rates, band, path)


def _chosen(tasks: TaskList, rates: Mapping[str, TaskPassRate], band: Band, path: Path) -> tuple[str, ...]:
    ordered = (rates[name] for name in tasks.ids)
    chosen = in_band({item.id: (item.rate, item.usable) for item in ordered if item.rate is not None}, band)
    if not chosen:
        raise TrainingError(
            f"no task has a pass rate from {band.lowest} to {band.highest} with at least {band.fewest} usable rollouts "
            f"under this policy (curriculum); {path} has the rates. Widen the band, or take other tasks."
        )
    return chosen


async def measure_pass_rates(
    trainer: Trainer, tasks: TaskList, places: Sequence[int]
) -> dict[str, tuple[float | None, int]]:
    """Roll out one group of each task at `places`; return the share of right rollouts (None where none is usable) and
    the number of usable ones.

    Raises `TrainingError`: every rollout was lost.
    """
    store, timing = trainer.resources.store, StepTiming()
    own = {place: tasks.made(tasks.ids[place], store) for place in trainer.processes.share(places)}
    scored = await trainer.score(await trainer.roll_out(own, timing), timing, trained_on=False)
    check_lost(scored)
    groups = (RolloutGroup(group.id, tuple(map(accuracy_alone, group.rollouts))) for group in scored)
    measured = pass_rates(groups)
    names = [tasks.ids[place] for place in places]
    return {name: measured.get(f"{name}@{place}", (None, 0)) for name, place in zip(names, places, strict=True)}


def _read_pass_rates(path: Path) -> list[TaskPassRate]:
    if not path.exists():
        return []
    recover_lines(path)
    return list(read_lines(path, TaskPassRate))
