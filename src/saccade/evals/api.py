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
from saccade.core.disk import one_writer
from saccade.core.retry import DEFAULT_RETRY, RetryPolicy
from saccade.core.settings import load_settings, merged, save_settings
from saccade.episode.run_folder import SETTINGS, TRAJECTORIES, note_empty
from saccade.errors import SettingsError, UnavailableError
from saccade.evals.grades import EvalProgress, ProgressCallback
from saccade.evals.judged import WORKERS, Verdicts, grade_again, judge_run, keep_verdicts, verdicts_of
from saccade.evals.metrics import Comparison
from saccade.evals.metrics import compare as compared
from saccade.evals.rows import EvalRow, read_rows
from saccade.evals.run import continuing, figures_of, sum_up
from saccade.evals.run import evaluate as play
from saccade.evals.settings import AnswerJudgeRules, EvalSettings
from saccade.evals.stored import run_settings
from saccade.evals.summary import Summary
from saccade.grading.registry import check_recorded, load_grader
from saccade.models.base import Model
from saccade.models.registry import load_model
from saccade.record.trajectory import Score
from saccade.rewards.judges.answer import AnswerJudge
from saccade.rewards.judges.client import JudgeClient

if TYPE_CHECKING:
    from pandas import DataFrame


# Grades a stored run anew, without the model: with another grader, after a grader was corrected, or by a judge.
#
# Only scores change, and the earlier ones are kept (`saccade.evals.judged`). The trajectories are replaced all at once,
# so a crash leaves the old ones.


@dataclass(frozen=True, slots=True)
class Change:
    """One sample whose score is another now."""

    id: str
    before: float | None
    after: float | None
    answer: str | None
    gold: str | None
    reason: str
    """Of the new grade."""


@dataclass(frozen=True, slots=True)
class Regraded:
    """What regrading changed."""

    summary: Summary
    samples: int
    changes: tuple[Change, ...]
    grader: str
    """Of all samples; empty: each source's own."""
    kept: Path | None
    """File of the earlier verdicts; None if they are the same."""


@dataclass(frozen=True, slots=True)
class Regrading:
    """What is to be another than before. Nothing at all: each sample by its source's own grader, in its newest version.

    With a judge or a headline only, the rule grader stays the one that the run has.
    """

    grader: str = ""
    """Of all samples."""
    judge: str = ""
    """A model that is asked about all answers of which it has not said anything yet."""
    headline: Literal["", "rule", "judge"] = ""
    judge_rules: Mapping[str, object] | tuple[str, ...] = ()
    """How the judge is asked, in place of what the run has: values by name, or each as `name=value`."""


class JudgeLimits(AnswerJudgeRules):
    """How the judge of a stored run is asked, and how often and how long one request is tried."""

    retry: RetryPolicy = DEFAULT_RETRY


def regrade(
    run: Path, regrading: Regrading | None = None, *, watch: ProgressCallback = lambda progress: None
) -> Regraded:
    """Grade all trajectories of `run` anew and write its summary anew.

    What `regrading` names holds from then on, also where the run is continued. Without a judge in it none is asked, and
    the verdicts that are there stay.

    Raises `SettingsError`: it is no run of `saccade eval`, nothing was played yet, or a source's own grader is not
    known; `RegistryError`: there is no such grader, or the run names a user's code as its grader; `RecordError`: the
    trajectories cannot be read; `ModelError`: the judge cannot be asked.
    """
    regrading = regrading or Regrading()
    before = run_settings(run)
    settings = before.model_copy(update=_changed(regrading, before))
    settings.check_headline()
    if regrading.grader:
        load_grader(regrading.grader)
    elif settings.grader:
        check_recorded(settings.grader)
    if regrading.judge:
        rules = settings.judge_rules.with_workers(1)
        sync.run(AnswerJudge(JudgeClient(load_model(regrading.judge), rules), rules).model.close())
    if not (run / TRAJECTORIES).is_file():
        raise SettingsError(f"{run} holds no trajectories yet. Play them first: saccade eval ... --out {run}")
    note_empty(run / TRAJECTORIES)
    with one_writer(run):
        return _regraded(run, regrading, before, settings, watch)


def _regraded(
    run: Path, regrading: Regrading, before: EvalSettings, settings: EvalSettings, watch: ProgressCallback
) -> Regraded:
    verdicts, credits = verdicts_of(run, before), {row.id: row.correct for row in read_rows(run)}
    kept: Path | None = keep_verdicts(run, verdicts)
    try:
        grade_again(run, settings, before)
        save_settings(settings, run / SETTINGS)
        if regrading.judge:
            workers = settings.judge_rules.concurrent or WORKERS
            sync.run(judge_run(run, settings, EvalProgress(len(verdicts)), workers=workers, watch=watch))
    finally:
        if kept is not None and _scores(verdicts_of(run, settings)) == _scores(verdicts):
            kept.unlink()
            kept = None
    rows = read_rows(run)
    changes = tuple(
        Change(row.id, credits[row.id], row.correct, row.answer, row.gold, row.reason)
        for row in rows
        if row.correct != credits[row.id]
    )
    return Regraded(sum_up(run, settings), len(rows), changes, settings.grader, kept)


def _scores(verdicts: Mapping[str, Verdicts]) -> dict[str, tuple[Score, ...]]:
    return {name: item.scores for name, item in verdicts.items()}


def _changed(regrading: Regrading, before: EvalSettings) -> dict[str, object]:
    given: dict[str, object] = {
        name: getattr(regrading, name) for name in ("grader", "judge", "headline") if getattr(regrading, name)
    }
    if regrading.judge_rules:
        if not regrading.judge:
            name = next(iter(regrading.judge_rules))
            raise SettingsError(f"{name} is about a judge, and none is asked: name one with --judge (`judge`).")
        given |= _judge_limits(regrading.judge_rules, before)
    return given or {"grader": ""}


def _judge_limits(rules: Mapping[str, object] | tuple[str, ...], before: EvalSettings) -> dict[str, object]:
    """Return `judge_rules` and `retry` of the run from now on."""
    values: Mapping[str, object] = rules if isinstance(rules, Mapping) else {}
    overrides = () if isinstance(rules, Mapping) else rules
    stored = {**before.judge_rules.model_dump(), "retry": before.retry.model_dump()}
    limits = load_settings(JudgeLimits, overrides=overrides, given=merged(stored, values))
    own = limits.model_dump(exclude={"retry"})
    return {"judge_rules": AnswerJudgeRules.model_validate(own), "retry": limits.retry}


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

        Raises `UnavailableError`: pandas is not installed.
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
            SettingsError, RegistryError, ModelError: as `saccade.evals.api.regrade`.
        """
        regrading = Regrading(grader, judge, headline, judge_rules or {})
        return regrade(self.path, regrading, watch=watch or (lambda progress: None))


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

    Raises `SettingsError`: a setting is wrong (names every mistake), or the folder was made with others;
    `RegistryError`: a dialect, tool, grader or model is unknown; `ModelError`, `SandboxError`: outages that do not end.
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
