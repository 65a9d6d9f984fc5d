"""Evaluations from Python: play, look at the numbers, grade again, compare.

    run = saccade.evaluate("vstar@1", data="data", model="openai:gpt-4.1", out="runs/a")
    print(run.summary.total.avg, run.summary.total.interval)

An `Evaluation` holds only the path of the run folder, which `saccade eval` can continue, and reads every number anew.
Works inside a running event loop too, such as a notebook's.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from saccade.core import sync
from saccade.core.settings import load_settings
from saccade.errors import UnavailableError
from saccade.evals.grades import ProgressCallback
from saccade.evals.metrics import Comparison
from saccade.evals.metrics import compare as compared
from saccade.evals.regrade import Regraded, Regrading
from saccade.evals.regrade import regrade as regraded
from saccade.evals.rows import EvalRow, read_rows
from saccade.evals.run import continuing, figures_of
from saccade.evals.run import evaluate as play
from saccade.evals.settings import EvalSettings
from saccade.evals.stored import run_settings
from saccade.evals.summary import Summary
from saccade.models.base import Model

if TYPE_CHECKING:
    from pandas import DataFrame
Paths = str | os.PathLike[str]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A run folder of an evaluation."""

    path: Path

    @property
    def settings(self) -> EvalSettings:
        """Every setting, resolved. Raises `SettingsError` if the folder is no run of an evaluation."""
        return run_settings(self.path)

    @property
    def rows(self) -> list[EvalRow]:
        """A row for each stored sample, by task and rollout. Raises `RecordError`, `SettingsError`."""
        return read_rows(self.path)

    @property
    def summary(self) -> Summary:
        """The figures of what is stored now, as `saccade eval` prints them. Raises as `rows`."""
        return figures_of(self.path, self.settings)[1]

    def records(self) -> list[dict[str, object]]:
        """Return the rows as dictionaries: for `json.dumps`, polars, or any other table."""
        return [{**asdict(row), "judgement": row.judgement, "headline": row.headline} for row in self.rows]

    def frame(self) -> DataFrame:
        """Return the rows as a pandas data frame, its index the ids of the samples.

        Raises:
            UnavailableError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise UnavailableError("a data frame needs pandas: pip install pandas; records() needs nothing") from error
        records = self.records()
        return pandas.DataFrame.from_records(records, index="id") if records else pandas.DataFrame()

    def compare(self, other: Evaluation | Paths) -> Comparison:
        """Return this run against another over the same tasks; positive differences mean that this one is better.
        Raises `SettingsError` if they have no task in common, or a task is not the same in both.
        """
        return compared(self.rows, open_evaluation(other).rows, seed=self.settings.seed)

    def regrade(
        self,
        grader: str = "",
        *,
        judge: str = "",
        headline: Literal["", "rule", "judge"] = "",
        judge_rules: Mapping[str, object] | None = None,
        watch: ProgressCallback | None = None,
    ) -> Regraded:
        """Grade all samples anew; without arguments by each source's own grader. The earlier verdicts are kept.

        `judge_rules` are the judge's limits as in `evaluate`, by name (`seconds`, `attempts`, `concurrent`, `outages`,
        `max_tokens`, `dollars`, and a dictionary `retry`); those that are not named stay as the run has them.

        Raises:
            SettingsError, RegistryError, ModelError: as `saccade.evals.regrade.regrade`.
        """
        regrading = Regrading(grader, judge, headline, judge_rules or {})
        return regraded(self.path, regrading, watch=watch or (lambda progress: None))


def evaluate(
    sources: str | Sequence[str],
    *,
    model: str | Model,
    out: Paths,
    workers: int = 16,
    watch: ProgressCallback | None = None,
    **settings: object,
) -> Evaluation:
    """Play the tasks of `sources` with `model`, grade and keep them in the folder `out`; continues what is there.

    `settings` are those of `saccade eval --set` and its options (`dialect`, `n`, `k`, `data`, `judge`, `limits`, …),
    nested ones as dictionaries. A model given as an object plays every sample and is not closed; one that cannot play
    side by side, such as a scripted list of replies, needs `workers=1`. Notices about the settings (a dialect that was
    chosen, a paper's settings) are warnings of the logger `saccade.evals.api`.

    Raises:
        SettingsError: a setting is wrong (names every mistake), or the folder was made with others.
        RegistryError: a dialect, tool, grader or model is unknown.
        ModelError, SandboxError: outages that do not end.
    """
    named = (sources,) if isinstance(sources, str) else tuple(sources)
    values = {"sources": named, "model": model if isinstance(model, str) else model.name, **settings}
    resolved, notices = continuing(load_settings(EvalSettings, given=values), Path(out))
    for line in notices:
        _log.warning("%s", line)
    player = None if isinstance(model, str) else lambda plan: model
    counted = play(resolved, Path(out), workers=workers, player=player, watch=watch or (lambda progress: None))
    sync.run(counted)
    return Evaluation(Path(out))


def open_evaluation(run: Evaluation | Paths) -> Evaluation:
    """Return the run in a folder. Raises `SettingsError` if it is no run of an evaluation."""
    evaluation = run if isinstance(run, Evaluation) else Evaluation(Path(run))
    run_settings(evaluation.path)
    return evaluation
