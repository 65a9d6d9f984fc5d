"""Questions about pictures that have none (CodeDance makes them for SA-1B): a folder of pictures becomes tasks.

The folder `out` holds `tasks.jsonl` and `media/`, so every command takes it as a source. A picture's questions are on
the disk together; a run that is interrupted continues with the pictures that have none yet. Whether the answers are
right nobody has checked: `saccade curate` asks another model (`label-check`), `saccade review` a person.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from saccade.core.disk import one_writer
from saccade.core.settings import save_settings
from saccade.episode.run_folder import MEDIA, check_continued
from saccade.errors import ModelDeniedError, ModelError, SettingsError
from saccade.media.store import MediaStore
from saccade.models.base import Model, Request
from saccade.models.registry import check_sampling, load_model
from saccade.record.base import Record, Text
from saccade.record.codec import append_lines, read_lines, recover_lines
from saccade.record.content import ImagePart, Message, TextPart
from saccade.record.task import AnswerType, EvidenceBox, Task
from saccade.rewards.judges.client import PaidModel, Purse, unfenced
from saccade.tasks.sources.broken import BROKEN, MOST_BROKEN, BrokenTasks, refusal, too_many
from saccade.tasks.sources.folder import TASKS, files_in
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.settings import SourceSettings
from saccade.tasks.sources.task_set import TaskPool, expanded, open_tasks
from saccade.training.sft.synth.codify import in_form
from saccade.training.sft.synth.outcome import PRICE_SETTINGS
from saccade.training.sft.synth.prompts import (
    LOOKED_AT,
    DiscardedError,
    RecipeTexts,
    estimated,
    in_order,
    invalid,
    job_size,
    recipe_texts,
    scratch_store,
)
from saccade.training.sft.synth.settings import SynthSettings

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
        """Pictures that are over."""
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
    """Return the source, every picture with a question that nobody is asked."""
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
