"""CodeDance's synthesis: reasoning in words, alone or rewritten so that calculations become code that is really run.

The teacher reasons without tools; a writer turns that into steps of code; the steps are played in the sandbox as any
model's turns; then the writer, shown what really came back, gives the answer. Steps that fail discard the trajectory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from saccade.dialects.base import Dialect
from saccade.episode.flow import Plan
from saccade.errors import ModelError, ModelRefusedError
from saccade.models.base import Completion, MediaReader, Model, Request
from saccade.record.content import Action, Answer, Code, Message, Part, TextPart
from saccade.record.execution import Status
from saccade.record.task import Task
from saccade.record.trajectory import FinishReason, Sampling, TokenCounts, Trajectory, Turn
from saccade.training.sft.synth.makers import ATOMIC_PROMPTS, Job, Maker, StoredJobs, SynthResources, labelled
from saccade.training.sft.synth.prompts import (
    CodeStep,
    DiscardedError,
    conclusion_in,
    invalid,
    names_of,
    question_of,
    reasoning_in,
    steps_in,
    thoughts_in,
)
from saccade.training.sft.synth.settings import completion

R = TypeVar("R")


@dataclass(frozen=True)
class ReasonMaker:
    """Answers at once, with reasoning in words before them: what easy questions are to be answered with."""

    stage: SynthResources
    teacher: Model

    async def make(self, job: Job, task: Task, notes: Mapping[str, str]) -> Trajectory:
        plan = self.stage.plan(job, task)
        model = Reasoned(self.stage, plan, self.teacher)
        played = await self.stage.play(plan, model)
        if model.discarded is not None:
            raise model.discarded
        return played


@dataclass(frozen=True)
class CodifyMaker:
    """Trajectories out of reasoning in words."""

    stage: SynthResources
    teacher: Model
    writer: Model

    async def make(self, job: Job, task: Task, notes: Mapping[str, str]) -> Trajectory:
        plan = self.stage.plan(job, task)
        asked = self.stage.atomic_of(job)
        model = Codified(self.stage, plan, self.teacher, self.writer, "" if asked is None else ATOMIC_PROMPTS[asked])
        played = await self.stage.play(plan, model)
        if model.discarded is not None:
            raise model.discarded
        for turn in played.turns:
            if turn.execution is not None and turn.execution.status is not Status.OK:
                raise DiscardedError("code failed", turn.execution.traceback or turn.execution.status.value)
        return labelled(played, asked)


class Reasoned:
    """A teacher that reasons in words, spoken in a dialect; for one episode."""

    def __init__(self, stage: SynthResources, plan: Plan, teacher: Model) -> None:
        self.name = teacher.name
        self.discarded: DiscardedError | None = None
        """Why the episode must not be kept."""
        self._stage = stage
        self._plan = plan
        self._teacher = teacher
        self._turn = 0

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the next turn. Raises `ModelRefusedError` for output of the wrong form."""
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
        """Do nothing: the run closes the models."""

    async def _next(self, request: Request, media: MediaReader) -> tuple[Action, str]:
        reasoning, answer = await self._reasoned(media)
        return Answer(text=answer), reasoning

    async def _reasoned(self, media: MediaReader) -> tuple[str, str]:
        question = question_of(self._plan.task)
        return await self._ask(
            self._teacher, (self._message(f"{self._stage.texts.text('reason')}\n{question}"),), media, reasoning_in
        )

    def _message(self, text: str) -> Message:
        media = [item.part for item in self._plan.task.media]
        return Message(role="user", parts=(*media, TextPart(text=text)))

    async def _ask(
        self, model: Model, messages: tuple[Message, ...], media: MediaReader, read: Callable[[str], R]
    ) -> R:
        settings = self._stage.settings.teacher
        sampling: Sampling = settings.sampling if model is self._teacher else settings.writer_sampling
        return await in_form(model, Request(messages, sampling=sampling), media, read, settings.tries)


class Codified(Reasoned):
    """Two models as one, for one episode."""

    def __init__(self, stage: SynthResources, plan: Plan, teacher: Model, writer: Model, hint: str = "") -> None:
        """`hint` describes the steps beyond what holds for every step."""
        super().__init__(stage, plan, teacher)
        self.name = f"{teacher.name}+{writer.name}"
        self._writer = writer
        self._hint = hint
        self._steps: list[CodeStep] | None = None

    async def _next(self, request: Request, media: MediaReader) -> tuple[Action, str]:
        if self._steps is None:
            self._steps = list(await self._planned(media))
        if self._steps:
            step = self._steps.pop(0)
            return Code(code=step.code), step.thought
        last = Message(role="user", parts=(TextPart(text=self._stage.texts.text("conclude")),))
        thought, answer = await self._ask(self._writer, (*request.messages, last), media, conclusion_in)
        return Answer(text=answer), thought

    async def _planned(self, media: MediaReader) -> tuple[CodeStep, ...]:
        reasoning, _ = await self._reasoned(media)
        parts = [
            f"{self._stage.texts.text('codify')}{self._hint}",
            names_of(self._plan.opening),
            "",
            question_of(self._plan.task),
        ]
        asked = "\n".join([*parts, "", f"Reasoning:\n{reasoning}"])
        return await self._ask(self._writer, (self._message(asked),), media, steps_in)


async def in_form(model: Model, request: Request, media: MediaReader, read: Callable[[str], R], tries: int) -> R:
    """Return what `read` makes of a reply; asks up to `tries` times.

    Raises `DiscardedError` as `read` does for the last.
    """
    for _ in range(tries - 1):
        text = (await model.complete(request, media)).text
        try:
            return read(text)
        except DiscardedError:
            continue
    return read((await model.complete(request, media)).text)


# VISTA's second model: it writes the thoughts of a finished trajectory again and leaves everything else as it is.
#
# What a turn does is kept to the byte: the text behind the thought is the old text, and the dialect must read the very
# same action from the new turn. Observations are those of the episode that was really played.


_ENDS = re.compile(r"\n*(?:</think>|<code>|<tool_call|<answer>|```)")


@dataclass(frozen=True)
class DensifyMaker:
    """Another maker's trajectories, with thoughts of a second model."""

    stage: SynthResources
    base: Maker
    writer: Model

    async def make(self, job: Job, task: Task, notes: Mapping[str, str]) -> Trajectory:
        """See `Maker`; a trajectory that did not end with an answer comes back as it is."""
        return await with_new_thoughts(self.stage, self.writer, await self.base.make(job, task, notes))


@dataclass(frozen=True)
class RewriteMaker:
    """Stored trajectories with thoughts of another model; nothing is played, and their scores stay."""

    stage: SynthResources
    stored: StoredJobs
    writer: Model

    async def make(self, job: Job, task: Task, notes: Mapping[str, str]) -> Trajectory:
        return await with_new_thoughts(self.stage, self.writer, self.stored.trajectory(job))


async def with_new_thoughts(stage: SynthResources, writer: Model, played: Trajectory) -> Trajectory:
    """Return the trajectory with thoughts of `writer`; one without an answer as it is.

    Raises `DiscardedError`: what the writer wrote does not have the form, or it could not be asked.
    """
    if played.answer is None:
        return played
    settings = stage.settings.teacher
    sampling = settings.sampling if settings.recipe == "rewrite" else settings.writer_sampling
    request = Request((Message(role="user", parts=_parts(played, stage.texts.text("densify"))),), sampling=sampling)

    def read(text: str) -> Trajectory:
        return densified(played, stage.dialect, thoughts_in(text, len(played.turns)), writer.name)

    try:
        return await in_form(writer, request, stage.store, read, settings.tries)
    except ModelError as error:
        raise DiscardedError("writer lost", str(error)) from error


def densified(played: Trajectory, dialect: Dialect, thoughts: tuple[str, ...], writer: str) -> Trajectory:
    """Return the trajectory with these thoughts, one for each turn.

    Raises `DiscardedError` if that changed an action.
    """
    turns = tuple(with_thought(turn, dialect, thought) for turn, thought in zip(played.turns, thoughts, strict=True))
    names = f"{played.provenance.model}+{writer}"
    provenance = played.provenance.model_copy(update={"model": names})
    return played.model_copy(update={"turns": turns, "provenance": provenance})


def with_thought(turn: Turn, dialect: Dialect, thought: str) -> Turn:
    """Return the turn with another thought; its token ids and counts are no longer known."""
    start, end = thought_span(turn.text)
    text = turn.text[:start] + thought + turn.text[end:]
    spoken = dialect.transcribe(text, turn.calls)
    action = dialect.parse(spoken, turn.finish_reason or FinishReason.STOP)
    if action != turn.action or not text.endswith(turn.text[end:]):
        raise invalid("a thought changed what its turn does")
    update = {"text": text, "token_ids": None, "logprobs": None, "tokens": TokenCounts()}
    return turn.model_copy(update=update)


def thought_span(text: str) -> tuple[int, int]:
    """Return the span of the thought in a turn: behind the opening think tag, if there is one, up to the next tag."""
    opening = text.find("<think>")
    start = opening + len("<think>") if opening >= 0 else 0
    end = _ENDS.search(text, start)
    return start, end.start() if end is not None else len(text)


def _parts(played: Trajectory, asked: str) -> tuple[Part, ...]:
    """Return what is `asked`, the question and its pictures, then the turns with what they showed, as one message."""
    shown = [part for message in played.prompt for part in message.media]
    parts: list[Part] = [TextPart(text=f"{asked}\n{question_of(played.task)}\n"), *shown]
    for number, turn in enumerate(played.turns, 1):
        parts.append(TextPart(text=f"\n\nTurn {number}:\n{turn.text}"))
        parts += [TextPart(text=f"\n{call.name}: {call.arguments}") for call in turn.calls]
        if turn.observation is not None:
            parts += [TextPart(text="\nWhat came back:\n"), *turn.observation.parts]
    return tuple(parts)
