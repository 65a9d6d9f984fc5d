"""How good a tiny model is: tasks of seeds that no demonstration has, with code and without, one row for each family.

Right is the gold answer exactly, as in `rewards.rubric.ExactMatch`. Every episode is kept in a run folder, for
`saccade show`. Greedy, so the same weights give the same table on one machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from saccade.core.settings import Settings
from saccade.dialects.registry import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.episode.run_folder import RunFolder
from saccade.models.base import Model
from saccade.record.trajectory import CORRECT, Sampling, Score
from saccade.rewards.rubric import ExactMatch
from saccade.sandbox.local import LocalSandbox
from saccade.training.sft.synth.jobs import Jobs
from saccade.training.sft.synth.settings import SynthSettings

WITHOUT_CODE = "tiny:direct"
_MOST_TOKENS = 700
"""Of a turn: longer than the longest program of a demonstration."""


class Exam(Settings):
    """One line of the table: a family of tasks on seeds that no demonstration has."""

    name: str
    worlds: tuple[str, ...] = Field(min_length=1)
    dialect: str = "tiny:look"
    knobs: dict[str, dict[str, Any]] = Field(default_factory=dict)
    target: float | None = Field(None, ge=0, le=1)
    """Share of right answers that is aimed at."""


@dataclass(frozen=True, slots=True)
class ExamRow:
    """What came of one exam."""

    name: str
    tasks: int
    with_code: int
    """Right answers."""
    without_code: int | None
    """None where the dialect has no form without code."""
    target: float | None

    def as_json(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)


async def hold_exam(
    exam: Exam,
    n: int,
    model: Model,
    out: Path,
    tell: Callable[[str, int, int], None] = lambda name, done, right: None,
    *,
    start: int = 0,
) -> ExamRow:
    """Ask `n` tasks of the test split of each world of `exam`, from number `start` on; episodes go to run folders under
    `out`.

    Raises:
        SettingsError: a knob is wrong, or `out` holds other episodes already.
    """
    settings = SynthSettings.model_validate(
        {"sources": exam.worlds, "dialect": exam.dialect, "n": n, "start": start, "split": "test", "knobs": exam.knobs}
    )
    total = n * len(exam.worlds)
    right = await _sat(exam.name, settings, model, out / exam.name, tell)
    if "video" in exam.dialect:
        return ExamRow(exam.name, total, right, None, exam.target)
    direct = settings.model_copy(update={"dialect": WITHOUT_CODE})
    guessed = await _sat(f"{exam.name} without code", direct, model, out / f"{exam.name}-without-code", tell)
    return ExamRow(exam.name, total, right, guessed, exam.target)


async def _sat(
    name: str, settings: SynthSettings, model: Model, out: Path, tell: Callable[[str, int, int], None]
) -> int:
    """Right answers to the tasks of `settings`."""
    dialect = load_dialect(settings.dialect)
    folder = RunFolder(out)
    listed = Jobs(settings)
    grade = ExactMatch()
    right = 0
    async with LocalSandbox(limits=dialect.sandbox) as sandbox:
        for number, job in enumerate(listed, 1):
            task = listed.make(job, folder.store)
            plan = Plan(task, dialect, sampling=Sampling(temperature=0.0, max_tokens=_MOST_TOKENS))
            played = await run_episode(plan, model, sandbox, folder.store)
            (part,) = grade(played)
            folder.append(played.with_scores([Score(name=CORRECT, value=part.value)]))
            right += part.value == 1.0
            tell(name, number, right)
    return right
