"""VISTA's second model: it writes the thoughts of a finished trajectory again and leaves everything else as it is.

What a turn does is kept to the byte: the text behind the thought is the old text, and the dialect must read the very
same action from the new turn. Observations are those of the episode that was really played.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from saccade.dialects.base import Dialect
from saccade.errors import ModelError
from saccade.models.base import Model, Request
from saccade.record.content import Message, Part, TextPart
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.record.turn import FinishReason, TokenCounts, Turn
from saccade.sft.synth.codify import in_form
from saccade.sft.synth.jobs import Job
from saccade.sft.synth.made import DiscardedError
from saccade.sft.synth.makers import Maker, SynthResources
from saccade.sft.synth.prompts import DENSIFY, invalid, question_of, thoughts_in
from saccade.sft.synth.stored import StoredJobs

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

    async def close(self) -> None:
        await self.base.close()
        await self.writer.close()


@dataclass(frozen=True)
class RewriteMaker:
    """Stored trajectories with thoughts of another model; nothing is played, and their scores stay."""

    stage: SynthResources
    stored: StoredJobs
    writer: Model

    async def make(self, job: Job, task: Task, notes: Mapping[str, str]) -> Trajectory:
        return await with_new_thoughts(self.stage, self.writer, self.stored.trajectory(job))

    async def close(self) -> None:
        await self.writer.close()


async def with_new_thoughts(stage: SynthResources, writer: Model, played: Trajectory) -> Trajectory:
    """The trajectory with thoughts of `writer`; one without an answer as it is.

    Raises:
        DiscardedError: what the writer wrote does not have the form, or it could not be asked.
    """
    if played.answer is None:
        return played
    settings = stage.settings.teacher
    sampling = settings.sampling if settings.recipe == "rewrite" else settings.writer_sampling
    request = Request((Message(role="user", parts=_parts(played)),), sampling=sampling)

    def read(text: str) -> Trajectory:
        return densified(played, stage.dialect, thoughts_in(text, len(played.turns)), writer.name)

    try:
        return await in_form(writer, request, stage.store, read, settings.tries)
    except ModelError as error:
        raise DiscardedError("writer lost", str(error)) from error


def densified(played: Trajectory, dialect: Dialect, thoughts: tuple[str, ...], writer: str) -> Trajectory:
    """The trajectory with these thoughts, one for each turn. Raises `DiscardedError` if that changed an action."""
    turns = tuple(with_thought(turn, dialect, thought) for turn, thought in zip(played.turns, thoughts, strict=True))
    names = f"{played.provenance.model}+{writer}"
    provenance = played.provenance.model_copy(update={"model": names})
    return played.model_copy(update={"turns": turns, "provenance": provenance})


def with_thought(turn: Turn, dialect: Dialect, thought: str) -> Turn:
    """The turn with another thought; its token ids and counts are no longer known."""
    start, end = thought_span(turn.text)
    text = turn.text[:start] + thought + turn.text[end:]
    spoken = dialect.transcribe(text, turn.calls)
    action = dialect.parse(spoken, turn.finish_reason or FinishReason.STOP)
    if action != turn.action or not text.endswith(turn.text[end:]):
        raise invalid("a thought changed what its turn does")
    update = {"text": text, "token_ids": None, "logprobs": None, "tokens": TokenCounts()}
    return turn.model_copy(update=update)


def thought_span(text: str) -> tuple[int, int]:
    """Where the thought of a turn stands: behind the opening think tag, if there is one, up to the next tag."""
    opening = text.find("<think>")
    start = opening + len("<think>") if opening >= 0 else 0
    end = _ENDS.search(text, start)
    return start, end.start() if end is not None else len(text)


def _parts(played: Trajectory) -> tuple[Part, ...]:
    """The trajectory as one message: the question and its pictures, then the turns with what they showed."""
    shown = [part for message in played.prompt for part in message.media]
    parts: list[Part] = [TextPart(text=DENSIFY + "\n" + question_of(played.task) + "\n"), *shown]
    for number, turn in enumerate(played.turns, 1):
        parts.append(TextPart(text=f"\n\nTurn {number}:\n{turn.text}"))
        parts += [TextPart(text=f"\n{call.name}: {call.arguments}") for call in turn.calls]
        if turn.observation is not None:
            parts += [TextPart(text="\nWhat came back:\n"), *turn.observation.parts]
    return tuple(parts)
