"""`saccade bench grading`: our verdicts beside a benchmark's own, on answers that real models gave.

An official verdict is no truth: MMMU-Pro's takes a random option where it reads none, and MathVista's lets a language
model read the answer. So what is printed is where both differ, with examples, for a person to judge.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from rich.table import Table

from saccade.bench.answers import StoredAnswer, answer_files, stored_answers
from saccade.errors import GradingError
from saccade.grading.base import Verdict
from saccade.grading.registry import load_grader

_SHOWN = 160


class GraderSide(StrEnum):
    """Who accepts an answer."""

    BOTH = "both"
    OURS = "ours alone"
    THEIRS = "theirs alone"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class GradedAnswer:
    """One answer with both verdicts."""

    file: str
    task: str
    grader: str
    gold: str
    side: GraderSide
    read: bool
    reason: str
    response: str


@dataclass(frozen=True, slots=True)
class GradingFigures:
    """What is counted of one file, or of all."""

    name: str
    answers: int
    ungraded: int
    """Rows whose gold answer is missing or unreadable; in no other figure."""
    agree: int
    ours_alone: int
    theirs_alone: int
    unread: int
    """Answers in which we read none, or several: refusals to answer are among them."""

    def share(self, number: int) -> float:
        """`number` in percent of the answers that were graded."""
        return 100 * number / max(1, self.answers - self.ungraded)


def judge_folder(folder: Path) -> list[tuple[str, list[GradedAnswer], int]]:
    """Each file's name, its answers with both verdicts, and how many of its rows could not be graded.

    Raises:
        DataError: the folder or a row has none of the forms that are read.
    """
    verdicts = []
    for path in answer_files(folder):
        stored = stored_answers(path)
        judged = [one for one in (_judged(path.name, answer) for answer in stored) if one is not None]
        verdicts.append((path.name, judged, len(stored) - len(judged)))
    return verdicts


def figures(name: str, judged: Sequence[GradedAnswer], ungraded: int) -> GradingFigures:
    """The counts of these answers."""
    sides = [one.side for one in judged]
    ours, theirs = sides.count(GraderSide.OURS), sides.count(GraderSide.THEIRS)
    unread = sum(not one.read for one in judged)
    return GradingFigures(name, len(judged) + ungraded, ungraded, len(judged) - ours - theirs, ours, theirs, unread)


def grading_table(rows: Sequence[GradingFigures]) -> Table:
    """The figures as a table."""
    shown = Table(title="saccade bench grading", title_justify="left")
    shown.add_column("file")
    for column in ("answers", "not gradable", "agreement", "ours alone", "theirs alone", "unread"):
        shown.add_column(column, justify="right")
    for row in rows:
        counts = (row.ours_alone, row.theirs_alone, row.unread)
        cells = [f"{count} ({row.share(count):.2f} %)" for count in counts]
        shown.add_row(row.name, str(row.answers), str(row.ungraded), f"{row.share(row.agree):.2f} %", *cells)
    return shown


def examples(judged: Sequence[GradedAnswer], most: int) -> Iterator[str]:
    """Some answers of each kind on which both differ, or that were not read, evenly over the files."""
    kinds = {
        "accepted by us alone": [one for one in judged if one.side is GraderSide.OURS],
        "accepted by them alone": [one for one in judged if one.side is GraderSide.THEIRS],
        "unread": [one for one in judged if not one.read],
    }
    for title, ones in kinds.items():
        step = max(1, len(ones) // max(1, most))
        picked = ones[::step][:most]
        yield f"{title}: {len(ones)}" + (f", {len(picked)} of them:" if picked else "")
        for one in picked:
            tail = " ".join(one.response.split())[-_SHOWN:]
            yield f"  {one.file} {one.task} [{one.grader}] gold {one.gold[:60]!r}: {one.reason}"
            yield f"    ... {tail!r}"


def as_json(rows: Sequence[GradingFigures]) -> dict[str, Any]:
    """The figures for a file."""
    return {"figures": [asdict(row) for row in rows]}


def unread_lines(judged: Sequence[GradedAnswer]) -> str:
    """Every unread answer as a line of JSON, whole, for a person who says whether a reader sees an answer in it."""
    return "".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in judged if not one.read)


def _judged(file: str, answer: StoredAnswer) -> GradedAnswer | None:
    try:
        verdict: Verdict = load_grader(answer.grader).grade(answer.response, answer.task)
    except GradingError:
        return None
    side = {
        (True, True): GraderSide.BOTH,
        (True, False): GraderSide.OURS,
        (False, True): GraderSide.THEIRS,
        (False, False): GraderSide.NEITHER,
    }[verdict.accepted, answer.right]
    return GradedAnswer(
        file,
        answer.task.id,
        answer.grader,
        answer.task.answer or "",
        side,
        verdict.read,
        verdict.reason,
        answer.response or "",
    )
