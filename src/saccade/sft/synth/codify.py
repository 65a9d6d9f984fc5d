"""CodeDance's synthesis: reasoning in words, rewritten so that calculations become code, and then really run.

The teacher reasons without tools; a writer turns that into steps of code; the steps are played in the sandbox as any
model's turns; then the writer, shown what really came back, gives the answer. Steps that fail discard the trajectory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from saccade.episode.plan import Plan
from saccade.errors import ModelRefusedError
from saccade.models.base import Completion, MediaReader, Model, Request
from saccade.record.action import Action, Answer, Code
from saccade.record.content import Message, TextPart
from saccade.record.status import Status
from saccade.record.task import Task
from saccade.record.trajectory import Sampling, Trajectory
from saccade.sft.experts.expert import completion
from saccade.sft.synth.jobs import Job
from saccade.sft.synth.made import DiscardedError
from saccade.sft.synth.makers import SynthResources
from saccade.sft.synth.prompts import (
    CODIFY,
    CONCLUDE,
    REASON,
    CodeStep,
    conclusion_in,
    invalid,
    names_of,
    question_of,
    reasoning_in,
    steps_in,
)

R = TypeVar("R")


@dataclass(frozen=True)
class CodifyMaker:
    """Trajectories out of reasoning in words."""

    stage: SynthResources
    teacher: Model
    writer: Model

    async def make(self, job: Job, task: Task, notes: Mapping[str, str]) -> Trajectory:
        model = Codified(self.stage, self.stage.plan(job, task), self.teacher, self.writer)
        played = await self.stage.play(self.stage.plan(job, task), model)
        if model.discarded is not None:
            raise model.discarded
        for turn in played.turns:
            if turn.execution is not None and turn.execution.status is not Status.OK:
                raise DiscardedError("code failed", turn.execution.traceback or turn.execution.status.value)
        return played

    async def close(self) -> None:
        await self.teacher.close()
        await self.writer.close()


class Codified:
    """Two models as one, for one episode."""

    def __init__(self, stage: SynthResources, plan: Plan, teacher: Model, writer: Model) -> None:
        self.name = f"{teacher.name}+{writer.name}"
        self.discarded: DiscardedError | None = None
        """Why the episode must not be kept."""
        self._stage = stage
        self._plan = plan
        self._teacher = teacher
        self._writer = writer
        self._steps: list[CodeStep] | None = None
        self._turn = 0

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The next step, or the answer after the last. Raises `ModelRefusedError` for output of the wrong form."""
        try:
            action, thought = await self._next(request, media)
            first, self._turn = self._turn == 0, self._turn + 1
            return completion(self._stage.dialect, action, thought, first=first, model=self.name)
        except DiscardedError as error:
            self.discarded = error
            raise ModelRefusedError(str(error)) from error
        except ValueError as error:
            self.discarded = invalid(str(error))
            raise ModelRefusedError(str(error)) from error

    async def close(self) -> None:
        """The models are the maker's."""

    async def _next(self, request: Request, media: MediaReader) -> tuple[Action, str]:
        if self._steps is None:
            self._steps = list(await self._planned(media))
        if self._steps:
            step = self._steps.pop(0)
            return Code(code=step.code), step.thought
        last = Message(role="user", parts=(TextPart(text=CONCLUDE),))
        thought, answer = await self._ask(self._writer, (*request.messages, last), media, conclusion_in)
        return Answer(text=answer), thought

    async def _planned(self, media: MediaReader) -> tuple[CodeStep, ...]:
        question = question_of(self._plan.task)
        reasoning = await self._ask(self._teacher, (self._message(f"{REASON}\n{question}"),), media, reasoning_in)
        asked = f"{CODIFY}\n{names_of(self._plan.opening)}\n\n{question}\n\nReasoning:\n{reasoning}"
        return await self._ask(self._writer, (self._message(asked),), media, steps_in)

    def _message(self, text: str) -> Message:
        media = [item.part for item in self._plan.task.media]
        return Message(role="user", parts=(*media, TextPart(text=text)))

    async def _ask(
        self, model: Model, messages: tuple[Message, ...], media: MediaReader, read: Callable[[str], R]
    ) -> R:
        settings = self._stage.settings.teacher
        sampling: Sampling = settings.sampling if model is self._teacher else settings.writer_sampling
        for _ in range(settings.tries - 1):
            text = (await model.complete(Request(messages, sampling=sampling), media)).text
            try:
                return read(text)
            except DiscardedError:
                continue
        return read((await model.complete(Request(messages, sampling=sampling), media)).text)
