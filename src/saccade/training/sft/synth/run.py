"""Run a synthesis: make every job that is not there yet, side by side, and keep them in order; or ask for questions.

A trajectory is on the disk when it is counted. A run that is killed or interrupted continues where it stood when it is
started again with the same settings, and ends as if it had never stopped. Jobs that failed are tried again,
but for those whose trajectory was played and is not wanted (`rejected.jsonl`).
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Self

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from saccade.core.disk import one_writer
from saccade.core.settings import save_settings
from saccade.dialects.base import Dialect, load_dialect
from saccade.episode.flow import Plan
from saccade.episode.run_folder import MEDIA, check_continued
from saccade.episode.task_media import check_media
from saccade.errors import ModelDeniedError, ModelError, SettingsError
from saccade.media.store import MediaStore
from saccade.models.base import Model, Request
from saccade.models.registry import check_sampling, load_model
from saccade.record.codec import append_lines, read_lines, recover_lines
from saccade.record.content import Code, ImagePart, Message, Record, Text, TextPart
from saccade.record.task import AnswerType, EvidenceBox, Task
from saccade.record.trajectory import StopReason
from saccade.rewards.judges.answer import AnswerJudge
from saccade.rewards.judges.client import PaidModel, Purse, unfenced
from saccade.sandbox.registry import sandbox_at
from saccade.tasks.sources.folder import TASKS, files_in
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.settings import BROKEN, MOST_BROKEN, BrokenTasks, SourceSettings, refusal, too_many
from saccade.tasks.sources.task_set import TaskPool, expanded, open_tasks
from saccade.tasks.worlds import WorldSample, store_sample
from saccade.training.sft.synth.codify import CodifyMaker, DensifyMaker, ReasonMaker, RewriteMaker, in_form
from saccade.training.sft.synth.makers import (
    Job,
    Jobs,
    Maker,
    Player,
    PlayerMaker,
    StoredJobs,
    SynthResources,
    TeacherMaker,
    Wording,
)
from saccade.training.sft.synth.outcome import PRICE_SETTINGS, OutcomeFilter, SynthProgress, opened, outcome_lines
from saccade.training.sft.synth.prompts import (
    LOOKED_AT,
    CostEstimate,
    DiscardedError,
    Made,
    RecipeTexts,
    estimated,
    in_order,
    invalid,
    job_size,
    recipe_texts,
    scratch_store,
)
from saccade.training.sft.synth.settings import ExpertChoice, ExpertStopped, SynthSettings, UnfitSampleError

# Questions about pictures that have none (CodeDance makes them for SA-1B). The folder `out` holds `tasks.jsonl` and
# `media/`, so every command takes it as a source. A picture's questions are on the disk together; a run that is
# interrupted continues with the pictures that have none yet. Whether the answers are right nobody has checked: `saccade
# curate` asks another model (`label-check`), `saccade review` a person.


ASKED_BY: Final = "asked-by="
"""Begins the tag that names the model."""
_OUTAGES = 8
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*")


class WrittenQuestion(Record):
    """One entry of a reply."""

    question: Text
    answer: Text
    choices: tuple[Text, ...] = ()
    bbox_2d: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat] | None = None


_REPLY = TypeAdapter(list[WrittenQuestion])


@dataclass
class QuestionProgress:
    """Counts so far."""

    total: int
    skipped: int
    sources: tuple[str, ...]
    estimate: str
    most_broken: float = MOST_BROKEN
    asked: int = 0
    """Pictures that were asked about."""
    questions: int = 0
    discarded: Counter[str] = field(default_factory=Counter)
    """Pictures without a usable reply, by the kind of reason."""
    example: dict[str, str] = field(default_factory=dict)
    _outages: int = 0

    @property
    def done(self) -> int:
        return self.asked + sum(self.discarded.values())

    def count(self, tasks: tuple[Task, ...] | DiscardedError) -> None:
        """Count one picture. Raises `ModelError` after eight outages in a row."""
        if not isinstance(tasks, DiscardedError):
            self._outages = 0
            self.asked += 1
            self.questions += len(tasks)
            return
        self.discarded[tasks.kind] += 1
        self.example.setdefault(tasks.kind, tasks.detail)
        broken = self.discarded["broken task"]
        if too_many(broken, self.total, self.most_broken):
            raise refusal(broken, self.total, self.most_broken, self.example["broken task"])
        self._outages = self._outages + 1 if tasks.kind == "teacher lost" else 0
        if self._outages >= _OUTAGES:
            raise ModelError(
                f"{_OUTAGES} requests in a row were lost: {tasks.detail} What was made before is kept; correct the "
                "cause and run the same command again."
            )


async def make_questions(
    settings: SynthSettings,
    out: Path,
    *,
    workers: int = 4,
    models: Callable[[str], Model] | None = None,
    watch: Callable[[QuestionProgress], None] = lambda progress: None,
) -> QuestionProgress:
    """Ask about every picture that has no questions in `out` yet.

    Raises `SettingsError`: a source is no folder of pictures, or `out` was made with other settings; `PromptFileError`:
    a prompt file of the teacher cannot be used; `ModelError`: outages that do not end, or a refusal whatever is asked.
    """
    teacher = settings.teacher
    check_sampling(teacher.model, teacher.sampling)
    texts = recipe_texts(teacher.prompt_files)
    pool = open_tasks(map(_pictures, expanded(settings.sources)), SourceDefaults(most=settings.n))
    purse = Purse(teacher.dollars, "teacher", "What was made is kept")
    model = PaidModel((models or partial(load_model, retry=settings.retry))(teacher.model), purse)
    store = MediaStore(out / MEDIA, limits=settings.media.limits)
    asker = _Asker(settings, pool, store, model, purse, texts)
    try:
        with one_writer(out):
            return await _asked(asker, out, workers, watch)
    finally:
        await model.close()


async def _asked(asker: _Asker, out: Path, workers: int, watch: Callable[[QuestionProgress], None]) -> QuestionProgress:
    settings, pool = asker.settings, asker.pool
    check_continued(out, settings, may_differ={"n", "most_broken", *PRICE_SETTINGS})
    done = _done(out / TASKS)
    names = [name for name in pool.ids if name not in done]
    estimate = await asyncio.to_thread(_estimate, settings, pool, names, asker.model.model)
    progress = QuestionProgress(len(pool.ids), len(pool.ids) - len(names), pool.lines(), estimate, settings.most_broken)
    watch(progress)
    save_settings(settings, out / "settings.toml")
    async for tasks in in_order(names, asker.ask, workers):
        if not isinstance(tasks, DiscardedError):
            append_lines(out / TASKS, tasks)
        progress.count(tasks)
        watch(progress)
    return progress


def questions_in(text: str, picture: Task, most: int, model: str) -> tuple[Task, ...]:
    """Return the tasks of a reply about `picture`.

    Raises `DiscardedError` for one without the form, or with a box outside.
    """
    try:
        written = _REPLY.validate_json(unfenced(text))
        tasks = tuple(_task(item, picture, number, model) for number, item in enumerate(written[:most], 1))
    except ValidationError as error:
        raise invalid(f"no array of questions: {error.errors()[0]['msg']}") from error
    return tasks


@dataclass(frozen=True)
class _Asker:
    settings: SynthSettings
    pool: TaskPool
    store: MediaStore
    model: PaidModel
    purse: Purse
    texts: RecipeTexts

    async def ask(self, name: str) -> tuple[Task, ...] | DiscardedError:
        """Return the tasks about one picture, or why there are none."""
        if self.purse.is_empty():
            return DiscardedError("dollars spent", self.purse.refusal(self.model.name))
        try:
            picture = await asyncio.to_thread(self.pool.make, name, self.store)
        except BROKEN as error:
            return DiscardedError("broken task", str(error))
        part = picture.media[0].part
        if not isinstance(part, ImagePart):
            return DiscardedError("no picture", f"{name} is a video, and questions are made about pictures only")
        teacher = self.settings.teacher
        values = {"width": str(part.width), "height": str(part.height), "most": str(teacher.questions)}
        text = self.texts.text("question", **values)
        request = Request((Message(role="user", parts=(part, TextPart(text=text))),), sampling=teacher.sampling)

        def read(reply: str) -> tuple[Task, ...]:
            return questions_in(reply, picture, teacher.questions, self.model.name)

        try:
            return await in_form(self.model, request, self.store, read, teacher.tries)
        except DiscardedError as error:
            return error
        except ModelDeniedError as error:
            if self.purse.is_empty():
                return DiscardedError("dollars spent", str(error))
            raise
        except ModelError as error:
            return DiscardedError("teacher lost", str(error))


def _task(item: WrittenQuestion, picture: Task, number: int, model: str) -> Task:
    answer = item.answer.strip()
    kind = AnswerType.CHOICE if item.choices else AnswerType.TEXT
    if kind is AnswerType.TEXT and answer.lower() in ("yes", "no"):
        kind = AnswerType.YES_NO
    elif kind is AnswerType.TEXT and _NUMBER.fullmatch(answer):
        kind = AnswerType.NUMBER
    box = item.bbox_2d
    evidence = () if box is None else (EvidenceBox(image=picture.media[0].name, xyxy=box),)
    return Task(
        id=f"{picture.id}/q{number}",
        question=item.question.strip(),
        media=picture.media,
        choices=item.choices,
        answer=answer,
        answer_type=kind,
        evidence=evidence,
        source=picture.source,
        tags=(*picture.tags, f"{ASKED_BY}{model}"),
    )


def _pictures(source: SourceSettings) -> SourceSettings:
    folder = Path(source.name)
    if not folder.is_dir() or not files_in(folder, source.split).media:
        raise SettingsError(
            f"recipe `question` makes questions about a folder of pictures that has none, and {source} is no such "
            "folder. Name one, or another recipe for tasks that have questions."
        )
    return source.model_copy(update={"question": source.question or "?"})


def _done(file: Path) -> set[str]:
    """Return the pictures that have questions already."""
    if not file.exists():
        return set()
    recover_lines(file)
    return {task.id.rpartition("/q")[0] for task in read_lines(file, Task)}


def _estimate(settings: SynthSettings, pool: TaskPool, names: list[str], model: Model) -> str:
    folder, store = scratch_store()
    with folder:
        looked = BrokenTasks(LOOKED_AT, most=1.0)
        made = [looked.made(name, lambda name=name: pool.make(name, store)) for name in names[:LOOKED_AT]]  # type: ignore[misc]
        pictures = [picture for picture in made if picture is not None]
        sizes = [job_size("question", picture, settings.teacher.expect_tokens, 1) for picture in pictures]
    if not sizes:
        return ""
    return estimated(len(names), sizes, {"teacher": model}).line(settings.teacher.dollars)


# Hold what one process needs to make trajectories: dialect, sandbox, store, and the maker with its models.
#
#     async with Synthesizer(settings, store) as synthesizer:
#         made = await synthesizer.make(job)
#
# Jobs may be made concurrently. Samples are drawn in threads, so that drawing and playing overlap.

ModelLoader = Callable[[str], Model]
"""Loads a model by its name."""
SampleCheck = Callable[[Job, WorldSample], None]
"""Raises `ExpertStopped` for a sample that need not be stored, since nothing would come of it."""

BROKEN_TASK = "broken task"
"""Kind of the jobs whose task cannot be made."""
SPENT = "dollars spent"
"""Kind of the jobs that were not made because the dollars were spent."""


class Synthesizer:
    """Makes the trajectories of jobs."""

    def __init__(
        self,
        settings: SynthSettings,
        store: MediaStore,
        *,
        models: ModelLoader | None = None,
        player: Player | None = None,
        wording: Wording | None = None,
        check: SampleCheck | None = None,
    ) -> None:
        """Read the settings; nothing is started before it is entered.

        Args:
            settings: of the run.
            store: where the media go.
            models: loads a teacher or writer.
            player: plays in place of the experts that the settings name.
            wording: puts each task of a player in other words.
            check: refuses samples before they are stored.

        Raises:
            RegistryError: a world, an expert, a dialect or a tool is unknown.
            PromptFileError: a prompt file cannot be used.
            UnavailableError: a world or an expert is in a plug-in that is not installed.
            SettingsError: a knob is wrong, the dialect offers no tools, or it cannot show a task's pictures or videos.
        """
        self.settings = settings
        self._player, self._wording, self._check = player, wording, check
        teacher = settings.teacher
        check_sampling(teacher.model, teacher.sampling)
        check_sampling(teacher.writer or teacher.model, teacher.writer_sampling)
        recipe_texts(teacher.prompt_files)  # a wrong file is refused now
        self._store = store.limited(settings.media.limits)
        self.purse = Purse(teacher.dollars, "teacher", "What was made is kept")
        self._load = models or partial(load_model, retry=settings.retry)
        self._dialect, self._tools = settings.prepared(load_dialect(settings.dialect))
        self._outcome = OutcomeFilter(settings)
        self._said: tuple[str, ...] = ()
        self.stored: StoredJobs | None = None
        self.jobs: Jobs | StoredJobs
        if teacher.recipe == "rewrite":
            self.jobs = self.stored = StoredJobs(settings)
        else:
            self.jobs = sourced = Jobs(settings)
            check_media(sourced.tasks.parts, self._dialect)
            self._said = outcome_lines(settings, sourced)
            if not teacher.model:
                self._player = player or self._experts(sourced.tasks)
        if teacher.recipe == "codify" or teacher.atomic:
            _check_writes_code(self._dialect)
        self._stack = AsyncExitStack()
        self._maker: Maker | None = None

    def lines(self) -> tuple[str, ...]:
        """Return lines about the tasks that are taken, those that are not and why, and how they can be graded."""
        return (*self.jobs.lines(), *self._said)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            sandbox = await stack.enter_async_context(sandbox_at(self.settings.sandbox, self._dialect.sandbox))
            self._maker = self._made_for(
                SynthResources(self.settings, self._dialect, self._tools, sandbox, self._store), stack
            )
            if self.settings.judge:
                judge = AnswerJudge(self._models(self.settings.judge), self.settings.judge_rules)
                self._outcome = OutcomeFilter(self.settings, judge)
            stack.push_async_callback(self._outcome.close)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def make(self, job: Job) -> Made:
        """Draw the sample, play the episode, grade it.

        Raises `SettingsError`: the dialect cannot hold the task; `IsolationError`: the sandbox refuses to start on this
        machine.
        """
        assert self._maker is not None, "a synthesizer is entered before it is used"
        if self.purse.is_empty():
            return Made(None, SPENT, self.purse.refusal("the teacher"))
        sample = await asyncio.to_thread(self.jobs.drawn, job)
        notes: Mapping[str, str] = {}
        try:
            if sample is None:
                task = await asyncio.to_thread(self._task, job)
            else:
                if self._check is not None:
                    self._check(job, sample)
                split = self.settings.split
                task = await asyncio.to_thread(_stored, sample, self._store, job, split)
                notes = sample.notes
            played = await self._maker.make(job, task, notes)
            if played.lost or played.stop is StopReason.CANCELLED:
                return self._spent() or Made(None, str(played.stop), played.stop_detail)
            return await self._outcome.made(played, exactly=sample is not None)
        except DiscardedError as error:
            return self._spent() or Made(None, error.kind, error.detail)
        except ModelDeniedError:
            if spent := self._spent():
                return spent
            raise
        except UnfitSampleError as error:
            return Made(None, "no style fits", str(error))
        except ExpertStopped as error:
            return Made(None, "not to be shown", str(error))

    def _task(self, job: Job) -> Task:
        try:
            return self.jobs.make(job, self._store)
        except BROKEN as error:
            raise DiscardedError(BROKEN_TASK, str(error)) from error

    def _spent(self) -> Made | None:
        """Return the outcome of a job for which the dollars did not last."""
        return Made(None, SPENT, self.purse.refusal("the teacher")) if self.purse.is_empty() else None

    def estimate(self, jobs: Sequence[Job]) -> CostEstimate | None:
        """Estimate the cost of these jobs; None for experts, who cost nothing."""
        teacher = self.settings.teacher
        if not teacher.model or not jobs:
            return None
        models = {"teacher": self._models(teacher.model).model}
        models["writer"] = self._models(teacher.writer).model if teacher.writer else models["teacher"]
        turns = self.settings.limits.turns or self._dialect.limits.turns or 3
        sizes = []
        folder, store = scratch_store()
        with folder:
            for job in jobs[:LOOKED_AT]:
                sample = self.jobs.drawn(job)
                try:
                    task = (
                        self.jobs.make(job, store)
                        if sample is None
                        else _stored(sample, store, job, self.settings.split)
                    )
                except BROKEN:
                    continue  # it is said when it is to be played
                work = task if self.stored is None else self.stored.trajectory(job)
                sizes.append(job_size(teacher.recipe, work, teacher.expect_tokens, turns))
        return estimated(len(jobs), sizes, models) if sizes else None

    def _experts(self, tasks: TaskPool) -> Player:
        experts = ExpertChoice([part.reader.label for part in tasks.parts], self.settings.expert)

        def played(job: Job, plan: Plan, notes: Mapping[str, str]) -> Model:
            task, drawn = plan.task, tasks.parts[job.source].endless
            if not drawn and not (task.evidence and task.answer):
                lacks = "no box that shows where" if task.answer else "no gold answer"
                raise UnfitSampleError(
                    f"outside of generated worlds experts cut out what a box shows, and {task.id} has {lacks}. "
                    "Name a model that solves such tasks with --teacher."
                )
            return experts.make(job.source, plan, notes if drawn else _CUT, job.seed(self.settings))

        return played

    def _models(self, name: str) -> PaidModel:
        return PaidModel(self._load(name), self.purse)

    def _made_for(self, stage: SynthResources, stack: AsyncExitStack) -> Maker:
        teacher = self.settings.teacher
        if self._player is not None:
            return PlayerMaker(stage, self._player, self._wording)
        model = self._models(teacher.model)
        stack.push_async_callback(model.close)
        if teacher.recipe == "solve":
            return TeacherMaker(stage, model)
        if teacher.recipe == "reason":
            return ReasonMaker(stage, model)
        if self.stored is not None:
            return RewriteMaker(stage, self.stored, model)
        writer = model
        if teacher.writer:
            writer = self._models(teacher.writer)
            stack.push_async_callback(writer.close)
        if teacher.recipe == "codify":
            return CodifyMaker(stage, model, writer)
        return DensifyMaker(stage, TeacherMaker(stage, model), writer)


_CUT = {"look": "crop"}
"""Notes for experts on tasks of no world: all that is known is where the answer can be seen."""


def _check_writes_code(dialect: Dialect) -> None:
    try:
        dialect.write(Code(code="print(1)"))
    except ValueError as error:
        raise SettingsError(
            f"recipe codify and atomic ask for code, and dialect {dialect.id} cannot write it ({error}). "
            "Use codedance, pyvision, codev or thyme."
        ) from error


def _stored(sample: WorldSample, store: MediaStore, job: Job, split: str) -> Task:
    return store_sample(sample, store, task_id=job.task_id, split=split)


SynthCallback = Callable[[SynthProgress], None]
"""Hears the counts after every job."""


async def synthesise(
    settings: SynthSettings,
    out: Path,
    *,
    workers: int = 4,
    models: ModelLoader | None = None,
    watch: SynthCallback = lambda progress: None,
) -> SynthProgress:
    """Make what is missing in the run folder `out`, `workers` jobs at once, and say what came of it.

    Raises `SettingsError`: the folder was made with other settings, or the dialect cannot hold a world's tasks;
    `RegistryError`: a world, dialect or model is unknown; `ModelError`, `SandboxError`: outages that do not end.
    """
    # Before anything is written: the names in the settings must mean something.
    synthesizer = Synthesizer(settings, MediaStore(out / MEDIA), models=models)
    with one_writer(out):
        return await _made(synthesizer, settings, out, workers, watch)


async def _made(
    synthesizer: Synthesizer, settings: SynthSettings, out: Path, workers: int, watch: SynthCallback
) -> SynthProgress:
    run = opened(out, settings)
    listed = list(synthesizer.jobs)
    missing = [job for job in listed if job.id not in run.done and job.id not in run.rejected]
    skipped = sum(job.id in run.done for job in listed)
    progress = SynthProgress(len(listed), skipped, len(listed) - len(missing) - skipped, synthesizer.lines())
    estimate = await asyncio.to_thread(synthesizer.estimate, missing)
    progress.estimate = "" if estimate is None else estimate.line(settings.teacher.dollars)
    watch(progress)
    if not missing:
        return progress
    broken: set[str] = set()
    tasks = len({job.task_id for job in listed})
    async with synthesizer:
        async for job, made in in_order(missing, lambda job: _named(synthesizer, job), workers):
            if made.trajectory is not None:
                run.folder.append(made.trajectory)
            elif made.final:
                run.reject(job, made)
            progress.count(made)
            watch(progress)
            if made.discarded == BROKEN_TASK:
                broken.add(job.rpartition("#")[0])
                if too_many(len(broken), tasks, settings.most_broken):
                    raise refusal(len(broken), tasks, settings.most_broken, made.detail)
    return progress


async def _named(synthesizer: Synthesizer, job: Job) -> tuple[str, Made]:
    return job.id, await synthesizer.make(job)
