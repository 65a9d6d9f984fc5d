"""A trajectory: one episode from the task to its end. The only thing that travels between the parts of Saccade."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Self

from pydantic import AwareDatetime, FiniteFloat, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from saccade.record.action import Answer
from saccade.record.base import SCHEMA_VERSION, Name, Record, SchemaVersion, Text
from saccade.record.content import ImagePart, Message, VideoPart
from saccade.record.score import Score
from saccade.record.task import Task
from saccade.record.turn import Turn


class StopReason(StrEnum):
    """Why an episode ended."""

    ANSWERED = "answered"
    TURN_LIMIT = "turn_limit"
    CONTEXT_LIMIT = "context_limit"
    IMAGE_LIMIT = "image_limit"
    PIXEL_LIMIT = "pixel_limit"
    WALL_LIMIT = "wall_limit"
    FAILED_CALL_LIMIT = "failed_call_limit"
    """More calls failed than the limit allows."""
    NO_ACTION = "no_action"
    """The model ended without an action or an answer, and the dialect does not ask again, or did so often enough."""
    CANCELLED = "cancelled"
    MODEL_LOST = "model_lost"
    """The model's backend failed. An outage of ours: never enters a loss."""
    MODEL_REFUSED = "model_refused"
    """The model's backend refused the request, and no retry could help. Never enters a loss."""
    SANDBOX_LOST = "sandbox_lost"
    """The sandbox failed. An outage of ours: never enters a loss."""
    TOOL_LOST = "tool_lost"
    """A typed tool's worker process or server failed. An outage of ours: never enters a loss."""


_LOST = frozenset({StopReason.MODEL_LOST, StopReason.MODEL_REFUSED, StopReason.SANDBOX_LOST, StopReason.TOOL_LOST})


class Sampling(Record):
    """How tokens were drawn; None where the backend's default was used."""

    temperature: NonNegativeFloat | None = None
    top_p: FiniteFloat | None = None
    top_k: NonNegativeInt | None = None
    max_tokens: PositiveInt | None = None
    """Most tokens of one turn."""
    seed: int | None = None


class EpisodeLimits(Record):
    """Limits of the episode; None where there was none."""

    turns: PositiveInt | None = None
    """Of the model, an answer that was asked for included."""
    context_tokens: PositiveInt | None = None
    """Everything that the model reads and writes, pictures included."""
    response_tokens: PositiveInt | None = None
    """Everything after the prompt: what the model writes and what it is shown in return."""
    images: NonNegativeInt | None = None
    """Pictures shown to the model, those of the task included."""
    pixels: PositiveInt | None = None
    """Pixels of all pictures shown together."""
    wall_seconds: NonNegativeFloat | None = None
    failed_calls: NonNegativeInt | None = None
    """Calls that may fail; the next failure ends the episode, unseen by the model."""
    idle_turns: PositiveInt | None = None
    """Turns in a row without an action or an answer, of which the last one ends the episode as `no_action`."""


class Provenance(Record):
    """What made the trajectory: enough to tell two runs apart and to repeat one."""

    saccade: Text = ""
    """Version of Saccade."""
    dialect: Text = ""
    """`id@version` of the dialect."""
    model: Text = ""
    model_revision: Text = ""
    sampling: Sampling = Sampling()
    limits: EpisodeLimits = EpisodeLimits()
    state_policy: Text = ""
    """What the sandbox did with the state after an exception."""
    tools: tuple[Text, ...] = ()
    """Names of the typed tools that were on offer."""
    repairs: tuple[Text, ...] = ()
    layers: tuple[Text, ...] = ()
    """Isolation layers that were on."""
    settings: Text = ""
    """The resolved settings of the command, as the TOML text that was saved beside the run."""
    notes: tuple[Text, ...] = ()
    """For a person: what was done to the user's media and limits before the episode, a sentence each."""


class Trajectory(Record):
    """One episode. Media that it names lie in a media store under their sha256."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    id: Name
    task: Task
    group: Text = ""
    """Rollouts of one task that are compared with each other share it."""
    rollout: NonNegativeInt = 0
    """Number of this rollout in its group."""
    provenance: Provenance = Provenance()
    prompt: tuple[Message, ...] = ()
    """The messages that the model saw before its first turn, as they were shown."""
    turns: tuple[Turn, ...] = ()
    stop: StopReason | None = None
    """None while the episode is running."""
    stop_detail: Text = ""
    """What a person should know of the stop, such as the error of a backend; no model reads it."""
    scores: tuple[Score, ...] = ()
    created: AwareDatetime | None = None
    seconds: NonNegativeFloat = 0.0
    """Wall time of the episode."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [score.name for score in self.scores]
        if len(set(names)) < len(names):
            raise ValueError(f"two scores share a name: {names}")
        answers = [index for index, turn in enumerate(self.turns) if isinstance(turn.action, Answer)]
        if answers and answers[0] != len(self.turns) - 1:
            raise ValueError(f"turn {answers[0]} answers, but further turns follow it")
        return self

    @property
    def answer(self) -> str | None:
        """The answer that the episode ended with, or None."""
        last = self.turns[-1].action if self.turns else None
        return last.text if isinstance(last, Answer) else None

    @property
    def lost(self) -> bool:
        """Whether an outage of ours ended the episode; such a trajectory is neither scored nor trained on."""
        return self.stop in _LOST

    def media(self) -> Iterator[ImagePart | VideoPart]:
        """Every distinct picture and video that the trajectory names, in order of first mention."""
        seen: set[str] = set()
        for part in self._mentions():
            if part.sha256 not in seen:
                seen.add(part.sha256)
                yield part

    def with_scores(self, scores: Iterable[Score]) -> Trajectory:
        """The same trajectory with `scores`, each in the place of an earlier one of its name, new ones at the end."""
        merged = {score.name: score for score in (*self.scores, *scores)}
        return self.model_copy(update={"scores": tuple(merged.values())})

    def _mentions(self) -> Iterator[ImagePart | VideoPart]:
        yield from (item.part for item in self.task.media)
        for message in self.prompt:
            yield from message.media
        for turn in self.turns:
            for execution in turn.executions:
                yield from (picture.image for picture in execution.pictures)
            if turn.observation is not None:
                yield from turn.observation.media
            if turn.request is not None:
                yield from turn.request.media
