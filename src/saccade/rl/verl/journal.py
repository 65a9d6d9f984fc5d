"""What a run on verl keeps of its steps: rollouts as trajectories, their numbers, answers to held-out tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from saccade.episode.run_folder import RunFolder
from saccade.rl.rollout import Rollout, RolloutGroup
from saccade.rl.select.selection import Selection
from saccade.rl.train.metrics import StepTiming, UpdateMetrics, rollout_metrics, step_metrics
from saccade.rl.train.rollout_store import open_rollout_store, with_worth
from saccade.rl.train.settings import RlSettings
from saccade.rl.verl.carry import Carried

VALIDATIONS: Final = "validations.jsonl"
BEGINNING: Final = "saccade/"
"""Of our numbers in verl's log."""
_SAMPLES = 4
_NOT_KNOWN = ("updates", "learning_rate")
"""Numbers of a step that verl's trainer has."""


class VerlJournal:
    """One process writes: the one of verl's trainer."""

    def __init__(self, out: Path, settings: RlSettings) -> None:
        """Writes nothing yet."""
        self._out = out
        self._settings = settings
        self._folder: RunFolder | None = None

    def step(
        self,
        number: int,
        rollouts: Sequence[Rollout],
        selection: Selection,
        carried: Sequence[Carried],
        seconds: float,
    ) -> dict[str, float]:
        """Keep what step `number` (from 1) keeps, and give its numbers under the names that verl logs.

        Raises:
            RecordError: the folder of the rollouts cannot be written to.
        """
        steps, every = self._settings.recipe.steps, self._settings.rollouts.every
        if every and (number % every == 0 or number == steps):
            folder = self._opened(rollouts)
            for rollout in rollouts:
                if rollout.id not in folder:
                    folder.append(with_worth(rollout))
        timing = StepTiming(decoding=seconds, replayed=_replayed(carried))
        values = step_metrics(rollouts, selection, UpdateMetrics(), timing, 0.0)
        kept = {name: value for name, value in values.items() if not name.startswith("seconds/")}
        return {f"{BEGINNING}{name}": value for name, value in kept.items() if name not in _NOT_KNOWN}

    def validation(self, step: int, groups: Sequence[RolloutGroup]) -> None:
        """Write the numbers of the answers after `step` steps."""
        rollouts = [item for group in groups for item in group.rollouts]
        values = dict(rollout_metrics(rollouts))
        if self._settings.validation.samples > 1:
            values["pass_at_k"] = sum(any(item.right for item in group.rollouts) for group in groups) / len(groups)
        shown = [_sample(item) for item in rollouts[:_SAMPLES]]
        _append(self._out / "verl" / VALIDATIONS, {"step": step, "values": values, "samples": shown})

    def _opened(self, rollouts: Sequence[Rollout]) -> RunFolder:
        if self._folder is None:
            places = [item.trajectory.group.rpartition("@")[2] for item in rollouts]
            # Those of later tasks are of steps that a resumed run makes again.
            self._folder = open_rollout_store(self._out / "rollouts", min(map(int, places)))
        return self._folder


def _replayed(carried: Sequence[Carried]) -> int:
    """Every rollout of a group tells that of its group."""
    return sum({one.rollout.trajectory.group: one.replayed for one in carried}.values())


def _sample(rollout: Rollout) -> dict[str, str]:
    wrote = "\n".join(turn.text for turn in rollout.trajectory.turns)
    return {"id": rollout.id, "wrote": wrote, "expected": rollout.trajectory.task.answer or ""}


def _append(path: Path, values: Mapping[str, object]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(values, ensure_ascii=False) + "\n")
