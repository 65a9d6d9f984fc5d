"""Asks a judge about the answers of a stored run, once all samples are played.

Every reply is kept in `judge/` of the run folder at once, keyed by the question, so a killed run continues where it
stopped; the trajectories are replaced all at once. A reply without a verdict is final; after an outage or a refusal
the next call asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from saccade.episode.flow import as_done
from saccade.episode.run_folder import TRAJECTORIES
from saccade.errors import GradingError, ModelDeniedError, ModelLostError, ModelRefusedError
from saccade.evals.benchmarks import headline_of, in_shares
from saccade.evals.grades import BY_JUDGE, JUDGE, Headline, headed, rule_score, score_named
from saccade.evals.progress import OUTAGES, EvalProgress, ProgressCallback
from saccade.evals.settings import EvalSettings
from saccade.grading.registry import Grade, grade_of, grade_score
from saccade.models.registry import load_model
from saccade.record.base import clean_text
from saccade.record.codec import read_lines, write_lines
from saccade.record.task import Task
from saccade.record.trajectory import Score, Trajectory
from saccade.rewards.judges.answer import AnswerJudge, judged_score
from saccade.rewards.judges.client import JudgeClient
from saccade.rewards.judges.prompt import prompt_mark
from saccade.rewards.judges.verdict import JudgeVerdict, NoVerdict

WORKERS: Final = 16
"""Answers judged at once where nobody says how many."""
REPLIES = "judge"
"""Folder of the judge's replies in a run folder."""
_AGAIN = (NoVerdict.OUTAGE.value, NoVerdict.REFUSED.value)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One answer that needs a verdict."""

    id: str
    answer: str | None
    task: Task


async def judge_run(
    run: Path,
    settings: EvalSettings,
    progress: EvalProgress,
    *,
    workers: int = WORKERS,
    watch: ProgressCallback = lambda progress: None,
) -> None:
    """Give every trajectory of `run` the judge's verdict and the headline that the settings name.

    Raises:
        ModelError: the last answers one after the other could not be judged; replies so far are kept.
        RecordError: a trajectory cannot be read.
    """
    file = run / TRAJECTORIES
    if not file.is_file():
        return
    pass_ = _Pass(
        f"{JUDGE}{settings.judge_name}{prompt_mark(settings.judge_rules)}", headline_of(settings), in_shares(settings)
    )
    cases, changed = pass_.open_cases(file)
    if cases:
        progress.to_judge = len(cases)
        watch(progress)
        model = load_model(settings.judge, settings.retry)
        rules = settings.judge_rules.with_workers(workers)
        client = JudgeClient(model, rules, run / REPLIES)
        try:
            await pass_.ask(AnswerJudge(client, rules), cases, progress, workers, watch)
        finally:
            await client.close()
    if cases or changed:
        write_lines(file, pass_.headed(file))


@dataclass
class _Pass:
    name: str
    """Of the judge and its prompt file, as grades name it."""
    headline: Callable[[Task], Headline]
    in_shares: Callable[[Task], bool]
    scores: dict[str, Score] = field(default_factory=dict)
    """New ones by the id of the sample."""

    def open_cases(self, file: Path) -> tuple[list[_Asked], bool]:
        """Return the answers that need a verdict, and whether others have the wrong headline."""
        cases, changed = [], False
        for trajectory in read_lines(file, Trajectory):
            judge = score_named(trajectory.scores, BY_JUDGE)
            grade = Grade("") if judge is None else grade_of(judge.detail)
            if grade.grader != self.name or grade.invalid in _AGAIN:
                cases.append(_Asked(trajectory.id, trajectory.answer, trajectory.task))
            else:
                changed = changed or self._headed(trajectory) != trajectory
        return cases, changed

    async def ask(
        self, judge: AnswerJudge, cases: list[_Asked], progress: EvalProgress, workers: int, watch: ProgressCallback
    ) -> None:
        failed, said = 0, set[str]()

        async def one(item: _Asked) -> tuple[str, Score]:
            return item.id, await self._score(judge, item)

        async for came in as_done(cases, one, workers):
            for name, score in came:
                self.scores[name] = score
                grade = grade_of(score.detail)
                if grade.invalid in _AGAIN and grade.invalid not in said:
                    said.add(grade.invalid)
                    progress.notices.append(f"{name}: the judge gave {grade.reason}")
                failed = failed + 1 if grade.invalid in _AGAIN else 0
                if failed >= max(OUTAGES, workers):
                    raise _error(grade, failed)
            progress.judged += len(came)
            watch(progress)

    def headed(self, file: Path) -> Iterator[Trajectory]:
        """Return the trajectories with their verdicts."""
        return map(self._headed, read_lines(file, Trajectory))

    def _headed(self, trajectory: Trajectory) -> Trajectory:
        judge = self.scores.get(trajectory.id) or score_named(trajectory.scores, BY_JUDGE)
        return headed(trajectory, rule_score(trajectory.scores), judge, self.headline(trajectory.task))

    async def _score(self, judge: AnswerJudge, item: _Asked) -> Score:
        try:
            verdict = await judge.verdict(item.answer, item.task, share=self.in_shares(item.task))
        except GradingError as error:
            return grade_score(None, Grade(self.name, reason=str(error)))
        except ModelDeniedError as error:
            verdict = JudgeVerdict(invalid=NoVerdict.REFUSED, detail=clean_text(str(error)))
        return judged_score(self.name, item.answer, verdict)


def _error(grade: Grade, failed: int) -> ModelLostError | ModelRefusedError:
    kind = ModelRefusedError if grade.invalid == NoVerdict.REFUSED.value else ModelLostError
    return kind(
        f"the judge could not be asked about {failed} answers in a row: {grade.reason} What was played and judged "
        "before is kept; correct the cause and run the same command again."
    )
