"""From what a person names to runs: which kind each folder is, and names that tell them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from saccade.episode.run_folder import TRAJECTORIES
from saccade.errors import SettingsError
from saccade.report.runs.eval_run import EvalRun, open_eval_run
from saccade.report.runs.training_run import METRICS, TrainingCurves, open_training_run

ROLLOUTS = "rollouts"
"""Folder of a training run in which some of its episodes lie."""


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a report."""

    evals: tuple[EvalRun, ...]
    trainings: tuple[TrainingCurves, ...]
    rollouts: tuple[EvalRun, ...]
    """Kept episodes of the training runs; shown, and in no figure."""

    @property
    def episodes(self) -> tuple[EvalRun, ...]:
        """Everything whose episodes are shown."""
        return (*self.evals, *self.rollouts)


def open_runs(paths: Sequence[Path]) -> Runs:
    """The runs at `paths`, each once.

    Raises:
        SettingsError: one of them is no run.
    """
    paths = list({path.resolve(): path for path in paths}.values())
    evals, trainings, rollouts = [], [], []
    for path, name in zip(paths, run_names(paths), strict=True):
        if (path / METRICS).is_file():
            trainings.append(open_training_run(name, path))
            if (path / ROLLOUTS / TRAJECTORIES).is_file():
                rollouts.append(open_eval_run(f"{name} · {ROLLOUTS}", path / ROLLOUTS))
        elif path.is_file() or (path / TRAJECTORIES).is_file():
            evals.append(open_eval_run(name, path))
        else:
            raise SettingsError(
                f"{path} is no run: it holds neither {TRAJECTORIES} (as `saccade eval` writes) nor {METRICS} (as "
                "`saccade rl` and `saccade sft` write). Name the folder of a run."
            )
    return Runs(tuple(evals), tuple(trainings), tuple(rollouts))


def run_names(paths: Sequence[Path]) -> list[str]:
    """The last parts of the paths, as many as it takes to tell them apart."""
    parts = [path.resolve().parts for path in paths]
    for length in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if max(Counter(names).values()) == 1:
            return names
    return [str(path) for path in paths]
