"""Asks a judge about the answers of a stored run, once all samples are played.

Every reply is kept in `judge/` of the run folder at once, keyed by the question, so a killed run continues where it
stopped; the trajectories are replaced all at once. A reply without a verdict is final; after an outage or a refusal
the next call asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from saccade.episode.flow import as_done
from saccade.episode.run_folder import TRAJECTORIES
from saccade.errors import (
    GradingError,
    ModelDeniedError,
    ModelLostError,
    ModelRefusedError,
    SaccadeError,
    SettingsError,
)
from saccade.evals.benchmarks import headline_of, in_shares, source_names
from saccade.evals.grades import (
    BY_JUDGE,
    JUDGE,
    OUTAGES,
    EvalProgress,
    Headline,
    ProgressCallback,
    graded,
    headed,
    rule_score,
    score_named,
)
from saccade.evals.settings import EvalSettings
from saccade.grading.registry import Grade, grade_of, grade_score, newest
from saccade.models.registry import load_model
from saccade.record.codec import read_lines, write_lines
from saccade.record.content import SCHEMA_VERSION, Name, Record, SchemaVersion, clean_text
from saccade.record.task import Task
from saccade.record.trajectory import Score, Trajectory
from saccade.rewards.judges.answer import AnswerJudge, judged_score
from saccade.rewards.judges.client import JudgeClient
from saccade.rewards.judges.prompt import prompt_mark
from saccade.rewards.reward import JudgeVerdict, NoVerdict
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.registry import recorded_card
from saccade.tasks.worlds import WORLDS

VERDICTS = "verdicts"


# Verdicts of a run that are replaced: the scores before go to `verdicts/0001.jsonl` of the run folder, then `0002`, and
# so on. Only `own_grader` reads them, and nothing deletes them. Trajectories are replaced all at once.


class Verdicts(Record):
    """The scores that a sample had."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    id: Name
    scores: tuple[Score, ...]
    own: bool
    """Whether the rule grader was the one that the sample's source names."""


def verdicts_of(run: Path, settings: EvalSettings) -> dict[str, Verdicts]:
    """Return the present scores of the samples of `run`, which has these settings, by id. Raises `RecordError`."""
    return {
        item.id: Verdicts(id=item.id, scores=item.scores, own=not settings.grader)
        for item in read_lines(run / TRAJECTORIES, Trajectory)
    }


def keep_verdicts(run: Path, verdicts: Mapping[str, Verdicts]) -> Path:
    """Write `verdicts` to `run` under the next number, and return the file."""
    folder = run / VERDICTS
    folder.mkdir(exist_ok=True)
    file = folder / f"{len(_versions(run)) + 1:04}.jsonl"
    write_lines(file, verdicts.values())
    return file


def grade_again(run: Path, settings: EvalSettings, before: EvalSettings) -> None:
    """Give every sample the verdict of `settings.grader`, or of its source's own; those of judges stay.

    Args:
        run: the run folder, with trajectories; keep their verdicts first.
        settings: those that hold from now on.
        before: those with which the samples were graded so far.

    Raises:
        SettingsError: the own grader of a sample cannot be found out.
        RecordError: a trajectory cannot be read.
    """
    file, headline = run / TRAJECTORIES, headline_of(settings)
    grader = (lambda _: settings.grader) if settings.grader else own_grader(run, before)

    def regraded() -> Iterator[Trajectory]:
        for trajectory in read_lines(file, Trajectory):
            yield graded(trajectory, grader(trajectory), headline(trajectory.task))

    write_lines(file, regraded())


def own_grader(run: Path, settings: EvalSettings) -> Callable[[Trajectory], str]:
    """Return a function from a sample to its source's grader, newest version; empty: by the answer's type.

    Where a card is gone, the run's verdicts name the grader, if the sources' own graders ever gave them. The function
    raises `SettingsError` for a sample whose grader cannot be found.
    """
    names = source_names(settings)
    cards = {card.id: card for card in map(_card, names) if card is not None}
    gone = [name for name in names if _card(name) is None and not _needs_no_card(name)]
    first = _first_graders(run) if gone else {}

    def of(trajectory: Trajectory) -> str:
        card = cards.get(trajectory.task.source)
        if card is not None and trajectory.task.answer_type in card.graders:
            return newest(card.grader_of(trajectory.task).spec)
        if not gone or trajectory.task.grader:
            return ""
        now = "" if settings.grader else grade_of(rule_score(trajectory.scores).detail).grader
        verdicts = first.get(trajectory.id, now)
        if not verdicts:
            raise SettingsError(
                f"the source {gone[0]} is not there any more (or is code, which a stored run does not run), and {run} "
                f"does not say how it graded {trajectory.id}. "
                "Put its card back where it was, or name a grader with --grader."
            )
        return newest(verdicts)

    return of


def _versions(run: Path) -> list[Path]:
    return sorted((run / VERDICTS).glob("*.jsonl"))


def _first_graders(run: Path) -> dict[str, str]:
    """Map samples to the grader of the oldest kept verdict that the source's own grader gave."""
    first: dict[str, str] = {}
    for file in _versions(run):
        for item in read_lines(file, Verdicts):
            if item.own:
                first.setdefault(item.id, grade_of(rule_score(item.scores).detail).grader)
    return first


def _card(name: str) -> Card | None:
    with suppress(SaccadeError):
        return recorded_card(name)
    return None


def _needs_no_card(name: str) -> bool:
    """Tell whether the source is a file of tasks or a world; code of the user counts if this process loaded it."""
    if name.endswith(".toml"):
        return False
    folder = name.rpartition(":")[0]
    if Path(name).exists() or (folder and Path(folder).is_dir()):
        return True
    with suppress(SaccadeError):
        WORLDS.load_recorded(name.removeprefix("world:"))
        return True
    return False


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
