"""A model that is asked about trajectories: several questions side by side, replies kept on the disk.

A question without a verdict leaves the filter undecided: the last reply does not follow the asked form exactly, or the
judge's server refuses this one question. An outage is no verdict either; it ends the run with a `ModelError`, and what
was answered so far need not be asked again. A kept reply is found by model name, messages and attempt, so a changed
prompt asks anew; that a provider changes a model under the same name is not noticed. Replies without a verdict are kept
too: delete the cache to ask again. How the model is asked is `saccade.rewards.judges.client`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeVar
from weakref import WeakValueDictionary

from pydantic import PositiveInt

from saccade.dialects.question import question_text
from saccade.errors import PromptFileError
from saccade.models.base import Completion, MediaReader, Model, Request
from saccade.models.registry import load_model
from saccade.record.base import Record
from saccade.record.content import Message, TextPart
from saccade.record.trajectory import Trajectory
from saccade.rewards.judges.client import JudgeClient, NoReply, PatientRules, strict_verdict
from saccade.rewards.judges.prompt import JudgePrompt, judge_prompt
from saccade.rewards.judges.verdict import NoVerdict
from saccade.training.sft.curate.stage import (
    AskStage,
    FilterContext,
    FilterOutcome,
    FilterSettings,
    FilterStage,
    Undecided,
    task_pictures,
)

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class JudgeQuestion:
    """A question to a judge, and how its reply is read."""

    message: Message
    read: Callable[[str], FilterOutcome | None]
    """The outcome that a reply says; None for a reply that is no verdict."""


class JudgedSettings(PatientRules, FilterSettings):
    """Base of filters that ask a model."""

    OWN_PROMPT: ClassVar[str] = ""
    """The text of the question, with `{name}` for a field; the form of the reply is added."""
    FIELDS: ClassVar[tuple[str, ...]] = ("question",)
    """Fields that a prompt file must have."""
    MORE_FIELDS: ClassVar[tuple[str, ...]] = ()
    """Fields that it may have."""

    judge: str
    """A model, as `saccade ask --model` names it."""
    attempts: PositiveInt = 2
    max_tokens: PositiveInt = 2048

    def start(self, around: FilterContext) -> FilterStage:
        """Return the stage; the model is made when the first question has no kept reply.

        Raises `PromptFileError`: the prompt file cannot be used.
        """
        if self.prompt_file and not self.OWN_PROMPT:
            raise PromptFileError(f"this filter takes no prompt file, and {self.prompt_file} is named: leave it out.")
        _ = self.prompt  # read now, so that a wrong file is refused before the first trajectory
        judge = CurationJudge(self, around)

        async def decide(trajectory: Trajectory) -> FilterOutcome:
            return await judge.decide(self.question(trajectory))

        return AskStage(decide, self.concurrent, judge.close)

    @cached_property
    def prompt(self) -> JudgePrompt:
        """Return the text of the prompt file, or else the filter's own. Raises `PromptFileError`."""
        return judge_prompt(self.prompt_file, self.OWN_PROMPT, self.FIELDS, self.MORE_FIELDS)

    @abstractmethod
    def question(self, trajectory: Trajectory) -> JudgeQuestion | FilterOutcome:
        """Return the question about a trajectory, or the outcome where there is nothing to ask."""


class CurationJudge:
    """Asks one model; about two trajectories to which the same question is put, once."""

    def __init__(self, settings: JudgedSettings, around: FilterContext) -> None:
        self._media: MediaReader = around.media
        name = settings.judge
        later = _LaterModel(name, lambda: load_model(name, settings.retry))
        self._client = JudgeClient(later, settings, around.cache)
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def close(self) -> None:
        """Give back connections."""
        await self._client.close()

    async def decide(self, question: JudgeQuestion | FilterOutcome) -> FilterOutcome:
        """Return the outcome of a question. Raises `ModelError` when the judge cannot be asked."""
        if not isinstance(question, JudgeQuestion):
            return question
        # A second one waits, and finds the reply on the disk.
        lock = self._asking.setdefault(question.message.model_dump_json(), asyncio.Lock())
        async with lock:
            said: FilterOutcome | NoReply = await self._client.ask(question.message, question.read, self._media)
        if not isinstance(said, NoReply):
            return said
        if said.reason is NoVerdict.REFUSED:
            return Undecided("the judge refused the question", said.detail)
        if said.error is not None:
            raise said.error
        return Undecided("no verdict in the reply", said.detail)


class _LaterModel:
    """The model `name`, made when it is first asked: replies that are kept need no key and no server."""

    def __init__(self, name: str, make: Callable[[], Model]) -> None:
        self.name = name
        self._make = make
        self._made: Model | None = None

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the model's reply. Raises as the model does, and as making it does."""
        self._made = self._made or self._make()
        return await self._made.complete(request, media, on_text=on_text)

    async def close(self) -> None:
        """Close the model if it was made."""
        if self._made is not None:
            await self._made.close()


def judge_question(
    trajectory: Trajectory, text: str, form: type[R], decide: Callable[[R], FilterOutcome]
) -> JudgeQuestion | Undecided:
    """Return the question that `ask_about` asks; a reply of exactly the fields of `form` goes to `decide`.

    All fields are true or false; a line at the end of the text asks for them.
    """
    fields = ", ".join(f'"{name}": true or false' for name in form.model_fields)
    message = ask_about(trajectory, f"{text}\n\nReply with one JSON object and nothing else: {{{fields}}}")
    if isinstance(message, Undecided):
        return message

    def read(reply: str) -> FilterOutcome | None:
        verdict = strict_verdict(reply, form)
        return None if verdict is None else decide(verdict)

    return JudgeQuestion(message, read)


def gold_question(
    trajectory: Trajectory, prompt: JudgePrompt, form: type[R], decide: Callable[[R], FilterOutcome]
) -> JudgeQuestion | Undecided:
    """Return a question about the gold answer, `{gold}` in the `prompt`; undecided for a task without one."""
    gold = trajectory.task.answer
    if gold is None:
        return Undecided("no gold answer")
    text = prompt.fill({"question": question_text(trajectory.task), "gold": gold})
    return judge_question(trajectory, text, form, decide)


def ask_about(trajectory: Trajectory, text: str) -> Message | Undecided:
    """Return a message with the task's pictures and then `text`; undecided for a task with a video."""
    pictures = task_pictures(trajectory)
    if len(pictures) < len(trajectory.task.media):
        return Undecided("the task has a video, which judges are not shown")
    return Message(role="user", parts=(*pictures, TextPart(text=text)))
