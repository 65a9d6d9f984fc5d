"""A model that is asked about trajectories: several questions side by side, replies kept on the disk.

A reply that does not follow the asked form exactly is no verdict: the question is put again, and after the last attempt
the filter is undecided, as it is where the judge's server refuses this one question. An outage is none either; it ends
the run with a `ModelError`, and what was answered so far need not be asked again. A cached reply is found by model
name, messages and attempt, so a changed prompt asks anew; that a provider changes a model under the same name is not
noticed. Replies without a verdict are cached too: delete the cache to ask again.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from pydantic import PositiveInt, ValidationError

from saccade.errors import ModelDeniedError, ModelRefusedError, SettingsError
from saccade.models.base import MediaReader, Model, Request
from saccade.models.hosted import patient
from saccade.models.registry import load_model
from saccade.models.retry import DEFAULT_RETRY, RetryPolicy
from saccade.record.base import Record, clean_text
from saccade.record.content import Message, TextPart
from saccade.record.trajectory import Sampling, Trajectory
from saccade.sft.curate.stage import (
    BatchStage,
    FilterContext,
    FilterOutcome,
    FilterSettings,
    FilterStage,
    Undecided,
    task_pictures,
)

V = TypeVar("V", bound=Record)


class CachedReply(Record):
    """A cached reply."""

    model: str
    text: str


@dataclass(frozen=True, slots=True)
class JudgeQuestion:
    """What a judge is asked, and how its reply is read."""

    message: Message
    read: Callable[[str], FilterOutcome | None]
    """The outcome that a reply says; None for a reply that is no verdict."""


class JudgedSettings(FilterSettings):
    """Base of filters that ask a model."""

    judge: str
    """A model, as `saccade ask --model` names it."""
    attempts: PositiveInt = 2
    """How often a question is put until the reply is a verdict."""
    concurrent: PositiveInt = 8
    """Questions that are asked side by side."""
    max_tokens: PositiveInt = 2048
    """Of a reply, thoughts included."""
    retry: RetryPolicy = DEFAULT_RETRY
    """How often a request is tried, and for how long."""

    def start(self, around: FilterContext) -> FilterStage:
        """The stage; the model is made when the first question has no reply in the cache."""
        judge = CurationJudge(self, around)
        return BatchStage(lambda batch: judge.decide([self.question(trajectory) for trajectory in batch]), judge.close)

    def question(self, trajectory: Trajectory) -> JudgeQuestion | FilterOutcome:
        """What to ask about a trajectory, or the outcome where there is nothing to ask."""
        raise NotImplementedError


class CurationJudge:
    """Asks one model. Not for use inside a running event loop."""

    def __init__(self, settings: JudgedSettings, around: FilterContext) -> None:
        self._settings = settings
        self._media: MediaReader = around.media
        self._cache = around.cache
        self._model: Model | None = None
        self._runner = asyncio.Runner()

    def decide(self, questions: Sequence[JudgeQuestion | FilterOutcome]) -> list[FilterOutcome]:
        """An outcome for each question. Raises `ModelError` when the judge cannot be asked."""
        return self._runner.run(self._decide(questions))

    def close(self) -> None:
        """Give back connections."""
        if self._model is not None:
            self._runner.run(self._model.close())
        self._runner.close()

    async def _decide(self, questions: Sequence[JudgeQuestion | FilterOutcome]) -> list[FilterOutcome]:
        room = asyncio.Semaphore(self._settings.concurrent)

        async def one(question: JudgeQuestion | FilterOutcome) -> FilterOutcome:
            if not isinstance(question, JudgeQuestion):
                return question
            async with room:
                return await self._verdict(question)

        # All are waited for, so that what was answered is in the cache when one of them fails.
        settled = await asyncio.gather(*map(one, questions), return_exceptions=True)
        outcomes: list[FilterOutcome] = []
        for item in settled:
            if isinstance(item, BaseException):
                raise item
            outcomes.append(item)
        return outcomes

    async def _verdict(self, question: JudgeQuestion) -> FilterOutcome:
        text = ""
        for attempt in range(self._settings.attempts):
            try:
                text = await self._reply(question.message, attempt)
            except ModelDeniedError:
                raise
            except ModelRefusedError as error:
                return Undecided("the judge refused the question", str(error))
            outcome = question.read(text)
            if outcome is not None:
                return outcome
        return Undecided("no verdict in the reply", text[:300])

    async def _reply(self, message: Message, attempt: int) -> str:
        asked = [self._settings.judge, message.model_dump_json(), self._settings.max_tokens, attempt]
        digest = sha256(json.dumps(asked).encode()).hexdigest()
        file = self._cache / digest[:2] / f"{digest}.json"
        try:
            return CachedReply.model_validate_json(file.read_bytes()).text
        except FileNotFoundError:
            pass
        except ValidationError as error:
            raise SettingsError(f"{file} is no cached reply of a judge; delete it: {error}") from error
        if self._model is None:
            self._model = patient(load_model(self._settings.judge), self._settings.retry)
        # The first attempt is greedy; a second one would say the same again.
        sampling = Sampling(temperature=0.7 if attempt else 0.0, max_tokens=self._settings.max_tokens)
        completion = await self._model.complete(Request((message,), sampling=sampling), self._media)
        _keep(file, CachedReply(model=completion.model, text=clean_text(completion.text)))
        return clean_text(completion.text)


def ask_about(trajectory: Trajectory, text: str) -> Message | Undecided:
    """A message with the task's pictures and then `text`; undecided for a task with a video, which is not shown."""
    pictures = task_pictures(trajectory)
    if len(pictures) < len(trajectory.task.media):
        return Undecided("the task has a video, which judges are not shown")
    return Message(role="user", parts=(*pictures, TextPart(text=text)))


def strict_verdict(reply: str, kind: type[V]) -> V | None:
    """The reply as a JSON object with exactly the fields of `kind`, fenced or not; None for anything else."""
    try:
        return kind.model_validate_json(unfenced(reply), strict=True)
    except ValidationError:
        return None


def unfenced(reply: str) -> str:
    """The reply without the Markdown fence that models like to put around JSON."""
    text = reply.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text.partition("\n")[2][:-3].strip()
    return text


def _keep(file: Path, reply: CachedReply) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}.part")
    partial.write_text(reply.model_dump_json(), encoding="utf-8")
    partial.replace(file)
