"""The samples of a stored run as rows: what metrics, comparisons and exports need, without texts, pictures and times.

Rows come in the order of the tasks' ids (numbers in them by their value) and then of the rollouts, whatever order they
were stored in. So two runs that hold the same samples have the same rows, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from saccade.episode.continued import SETTINGS
from saccade.episode.run_folder import TRAJECTORIES
from saccade.errors import RecordError, SettingsError
from saccade.evals.grades import BY_JUDGE, BY_RULE, JUDGE, Headline, score_named
from saccade.grading.grade import grade_of
from saccade.record.base import SCHEMA_VERSION
from saccade.record.score import CORRECT, Score
from saccade.record.trajectory import StopReason, Trajectory
from saccade.record.turn import TokenCounts


@dataclass(frozen=True, slots=True)
class EvalRow:
    """One sample of an evaluation, as rows.jsonl keeps it."""

    id: str
    task: str
    """Id of the task."""
    rollout: int
    source: str
    split: str
    tags: tuple[str, ...]
    question: str
    choices: tuple[str, ...]
    gold: str | None
    answer: str | None
    """What the episode ended with."""
    correct: float | None
    """From 0 to 1; None if the task could not be graded, or was not."""
    extracted: str
    reason: str
    grader: str
    stop: str
    turns: int
    calls: int
    """Executions of code and of tools, those of a provider's own sandbox included."""
    sampled_tokens: int | None
    """Tokens that the model wrote; None if its backend does not say."""
    context_tokens: int | None
    """The longest context that it read."""
    by_rule: float | None = None
    """The rule's verdict, where a judge was asked too."""
    by_judge: float | None = None
    read_tokens: int | None = None
    """Tokens that it read in all turns together; None if a turn does not say."""
    dollars: float | None = None
    """Price of all its turns; None if that of one is not known."""
    no_verdict: str = ""
    """Why the judge gave none: `malformed`, `outage`, `refused`; empty if it did, or was not asked."""

    @property
    def headline(self) -> Headline:
        """Whose verdict `correct` is."""
        return "judge" if self.grader.startswith(JUDGE) else "rule"

    @property
    def judgement(self) -> str:
        """What the judge said: `right`, `wrong`, `invalid` (asked, and no verdict), or `none` (not asked)."""
        if self.by_judge is None:
            return "invalid" if self.no_verdict else "none"
        return "right" if self.by_judge >= 0.5 else "wrong"


class _Lean(BaseModel):
    """Reads a few fields and skips the others."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Task(_Lean):
    id: str
    question: str
    choices: tuple[str, ...] = ()
    answer: str | None = None
    source: str = ""
    split: str = ""
    tags: tuple[str, ...] = ()


class _Action(_Lean):
    kind: str
    text: str | None = None


class _Turn(_Lean):
    action: _Action
    execution: _Lean | None = None
    hosted: tuple[_Lean, ...] = ()
    tokens: TokenCounts = TokenCounts()
    dollars: float | None = None


class _Line(_Lean):
    schema_version: int
    id: str
    task: _Task
    rollout: int = 0
    turns: tuple[_Turn, ...] = ()
    stop: StopReason | None = None
    scores: tuple[Score, ...] = ()


def read_rows(run: Path) -> list[EvalRow]:
    """The rows of a run folder, in order; of two trajectories of one id the later one counts.

    Raises:
        SettingsError: it is no run folder.
        RecordError: a trajectory cannot be read.
    """
    file = run / TRAJECTORIES
    if not file.is_file() and (run / SETTINGS).is_file():
        return []  # begun, and nothing came of it yet
    if not file.is_file():
        raise SettingsError(f"{run} is no run folder: it has no {TRAJECTORIES}. Name the folder of a run.")
    rows = {row.id: row for row in _rows(file)}
    return sorted(rows.values(), key=row_order)


def row_of(trajectory: Trajectory) -> EvalRow:
    """The row of a trajectory that was read already."""
    return _row(_Line.model_validate(trajectory, from_attributes=True))


def row_order(row: EvalRow) -> tuple[Sequence[tuple[int, str]], int, str]:
    """Sorts rows by task and rollout."""
    return natural(row.task), row.rollout, row.id


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """Sorts `t2` before `t10`."""
    return tuple((int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d{1,18})", text))


def _rows(file: Path) -> Iterator[EvalRow]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                data = _Line.model_validate_json(line)
            except ValidationError as error:
                raise RecordError(f"{file}, line {number} is no trajectory: {error.errors()[0]['msg']}") from error
            if data.schema_version != SCHEMA_VERSION:
                raise RecordError(f"{file}, line {number} has schema version {data.schema_version}.")
            yield _row(data)


def _row(line: _Line) -> EvalRow:
    last = line.turns[-1].action if line.turns else None
    score = score_named(line.scores, CORRECT) or Score(name=CORRECT)
    rule, judge = score_named(line.scores, BY_RULE), score_named(line.scores, BY_JUDGE)
    grade = grade_of(score.detail)
    sampled = [turn.tokens.sampled for turn in line.turns if turn.tokens.sampled is not None]
    contexts = [turn.tokens.context for turn in line.turns if turn.tokens.context is not None]
    task = line.task
    return EvalRow(
        id=line.id,
        task=task.id,
        rollout=line.rollout,
        source=task.source,
        split=task.split,
        tags=task.tags,
        question=task.question,
        choices=task.choices,
        gold=task.answer,
        answer=last.text if last is not None and last.kind == "answer" else None,
        correct=score.value,
        extracted=grade.extracted,
        reason=grade.reason,
        grader=grade.grader,
        stop=line.stop.value if line.stop else "",
        turns=len(line.turns),
        calls=sum((turn.execution is not None) + len(turn.hosted) for turn in line.turns),
        sampled_tokens=sum(sampled) if sampled else None,
        context_tokens=max(contexts) if contexts else None,
        read_tokens=sum(contexts) if contexts and len(contexts) == len(line.turns) else None,
        dollars=_total([turn.dollars for turn in line.turns]),
        by_rule=None if rule is None else rule.value,
        by_judge=None if judge is None else judge.value,
        no_verdict="" if judge is None else grade_of(judge.detail).invalid,
    )


def _total(values: Sequence[float | None]) -> float | None:
    """The sum; None of nothing, or if one is not known."""
    known = [value for value in values if value is not None]
    return fsum(known) if known and len(known) == len(values) else None
