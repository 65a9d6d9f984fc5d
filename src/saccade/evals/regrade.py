"""Grades a stored run anew, without the model: with another grader, after a grader was corrected, or by a judge.

Only scores change, and the earlier ones are kept (`saccade.evals.judged`). The trajectories are replaced all at once,
so a crash leaves the old ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from saccade.core import sync
from saccade.core.disk import one_writer
from saccade.core.retry import DEFAULT_RETRY, RetryPolicy
from saccade.core.settings import load_settings, merged, save_settings
from saccade.episode.run_folder import SETTINGS, TRAJECTORIES, note_empty
from saccade.errors import SettingsError
from saccade.evals.grades import EvalProgress, ProgressCallback
from saccade.evals.judged import WORKERS, Verdicts, grade_again, judge_run, keep_verdicts, verdicts_of
from saccade.evals.rows import read_rows
from saccade.evals.run import sum_up
from saccade.evals.settings import AnswerJudgeRules, EvalSettings
from saccade.evals.stored import run_settings
from saccade.evals.summary import Summary
from saccade.grading.registry import check_recorded, load_grader
from saccade.models.registry import load_model
from saccade.record.trajectory import Score
from saccade.rewards.judges.answer import AnswerJudge
from saccade.rewards.judges.client import JudgeClient


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

    Raises:
        SettingsError: it is no run of `saccade eval`, nothing was played yet, or a source's own grader is not known.
        RegistryError: there is no such grader, or the run names a user's code as its grader.
        RecordError: the trajectories cannot be read.
        ModelError: the judge cannot be asked.
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
