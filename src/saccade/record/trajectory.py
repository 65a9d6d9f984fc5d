"""A trajectory: one episode from the task to its end. The only thing that travels between the parts of Saccade."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import (
    AwareDatetime,
    Field,
    FiniteFloat,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    SecretStr,
    model_validator,
)

from saccade.record.content import (
    SCHEMA_VERSION,
    Action,
    Answer,
    Code,
    ImagePart,
    JsonObject,
    Message,
    Name,
    Record,
    SchemaVersion,
    Text,
    TextPart,
    ToolCall,
    VideoPart,
)
from saccade.record.execution import Execution, HostedCall
from saccade.record.task import Task

# One turn: what the model wrote, what it was understood to ask for, what came back, and what that cost.


class FinishReason(StrEnum):
    """Why the model stopped writing."""

    STOP = "stop"
    """End-of-turn token."""
    STOP_STRING = "stop_string"
    LENGTH = "length"
    """The token limit of the turn or of the context."""
    TOOL_CALL = "tool_call"
    """The API ended the message with a function call."""
    FILTERED = "filtered"
    """The provider withheld the text, or did not let the model read the request."""
    DECLINED = "declined"
    """The model refused to answer; the text is its refusal."""


class TokenCounts(Record):
    """Tokens of a turn; None where the backend does not say."""

    context: NonNegativeInt | None = None
    """Tokens that the model read before it wrote, text and visual."""
    context_visual: NonNegativeInt | None = None
    """The visual ones among `context`."""
    context_cached: NonNegativeInt | None = None
    """Those of `context` that came from a cache of the provider."""
    sampled: NonNegativeInt | None = None
    """Tokens that the model wrote."""
    reasoning: NonNegativeInt | None = None
    """Those of `sampled` that were a thought."""
    observation_text: NonNegativeInt | None = None
    observation_visual: NonNegativeInt | None = None


class Turn(Record):
    """One turn of a trajectory."""

    text: Text
    """Exactly what the model wrote."""
    calls: tuple[ToolCall, ...] = ()
    """The calls that an API's own function calling gave besides the text, in order; the first is the action."""
    token_ids: tuple[NonNegativeInt, ...] | None = None
    """The ids that were sampled, never re-tokenised; None if the backend does not give them."""
    logprobs: tuple[FiniteFloat, ...] | None = None
    """Natural log-probability of each of `token_ids` under the policy that sampled it."""
    action: Action
    call_shape: Text = ""
    """How a typed call was written, as `saccade.dialects.calls` names the shape; empty for any other action."""
    execution: Execution | None = None
    """None if nothing was run: the action is an answer or a parse error, or a limit came first."""
    hosted: tuple[HostedCall, ...] = ()
    """Calls of the provider's own sandbox while the model wrote `text`, for a dialect that uses it."""
    observation: Message | None = None
    """Message shown to the model afterwards, as it was shown; None if there was none."""
    request: Message | None = None
    """A last request for the answer that followed, because a limit was reached."""
    tokens: TokenCounts = TokenCounts()
    dollars: NonNegativeFloat | None = None
    """Price of the model's call; None where it is not known."""
    finish_reason: FinishReason | None = None
    notes: tuple[Text, ...] = ()
    """Where the server's answer, or what it takes, departs from its protocol, and how that was met; a sentence each."""
    model_seconds: NonNegativeFloat = 0.0
    """Waiting for the model."""
    execution_seconds: NonNegativeFloat = 0.0
    """Waiting for the sandbox or the tool."""

    @property
    def message(self) -> Message:
        """Text of the model as it is sent back: with its call only where the observation answers it."""
        answered = self.observation is not None and self.observation.role == "tool"
        parts = (TextPart(text=self.text),) if self.text else ()
        return Message(role="assistant", parts=parts, calls=self.calls[:1] if answered else ())

    @property
    def executions(self) -> tuple[Execution, ...]:
        """All that was run in this turn: by the provider's sandbox while it was written, and then by ours."""
        own = () if self.execution is None else (self.execution,)
        return (*(call.execution for call in self.hosted), *own)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.logprobs is not None and len(self.logprobs) != len(self.token_ids or ()):
            raise ValueError(
                f"{len(self.logprobs)} log-probabilities for {len(self.token_ids or ())} token ids; one each is needed"
            )
        if self.execution is not None and not isinstance(self.action, Code | ToolCall):
            raise ValueError(f"an action of kind {self.action.kind!r} cannot have an execution")
        return self


# Scores and rewards as named parts: each kept, none summed away.


CORRECT: Final = "correct"
"""Name of the score that says how right the answer is, from 0 to 1, whoever graded it; `detail` says how."""


class Score(Record):
    """One named part of a score.

    `value` is None until it was computed, so "not scored" differs from zero.
    """

    name: Name
    value: FiniteFloat | None = None
    weight: FiniteFloat = 1.0
    """Factor of the part in the sum; 0 for a part that is only observed."""
    detail: Text = ""
    """Why the value is what it is, for a person."""


def total(scores: Iterable[Score]) -> float | None:
    """Return the weighted sum of the parts; None while a part with a weight other than 0 has no value."""
    amount = 0.0
    for score in scores:
        if score.weight == 0:
            continue
        if score.value is None:
            return None
        amount += score.weight * score.value
    return amount


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
    EMPTY = "empty"
    """The model wrote nothing at all in its last turns."""
    MODEL_DECLINED = "model_declined"
    """The model refused to answer. Counts as any other end without an answer."""
    FILTERED = "filtered"
    """The provider's filter withheld the answer or the request. Counts as any other end without an answer."""
    STUCK = "stuck"
    """The model made the same call again and again, with the same outcome."""
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
    reasoning: Literal["off", "low", "medium", "high"] | Annotated[int, Field(ge=1, strict=True)] | None = None
    """How much the model thinks before it writes: a word, or the most tokens of its thought."""
    extra_body: JsonObject | None = None
    """Fields of the server's own, sent with every request."""
    extra_headers: Mapping[str, SecretStr] | None = None
    """Headers of the server's own; only their names are recorded."""


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
    repeated_calls: Annotated[int, Field(ge=2)] | None = 5
    """Calls in a row that are the same and come to the same, of which the last one ends the episode as `stuck`. From
    the third on the model is told."""


class Provenance(Record):
    """Origin of the trajectory: enough to tell two runs apart and to repeat one."""

    saccade: Text = ""
    """Version of Saccade."""
    dialect: Text = ""
    """`id@version` of the dialect."""
    model: Text = ""
    model_revision: Text = ""
    sampling: Sampling = Sampling()
    limits: EpisodeLimits = EpisodeLimits()
    state_policy: Text = ""
    """Fate of the sandbox's state after an exception."""
    tools: tuple[Text, ...] = ()
    """Names of the typed tools that were on offer."""
    boxes: Text = ""
    """Unit of boxes in the model's calls, as `saccade.dialects.boxes` names it; empty: pixels at full size."""
    repairs: tuple[Text, ...] = ()
    layers: tuple[Text, ...] = ()
    """Isolation layers that were on."""
    settings: Text = ""
    """The resolved settings of the command, as the TOML text that was saved next to the run."""
    notes: tuple[Text, ...] = ()
    """For a person: what was done to the user's media and limits before the episode, a sentence each."""


class Trajectory(Record):
    """One episode. Media that it names are in a media store under their sha256."""

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
    """Detail for a person, such as the error of a backend; no model reads it."""
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
        """Yield every distinct picture and video that the trajectory names, in order of first mention."""
        seen: set[str] = set()
        for part in self._mentions():
            if part.sha256 not in seen:
                seen.add(part.sha256)
                yield part

    def with_scores(self, scores: Iterable[Score]) -> Trajectory:
        """Copy the trajectory with `scores`, each in place of an earlier one of its name, new ones at the end."""
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


# The one table of stop reasons: the words for each, the limit that set it, and what it says of a rollout.


class Broken(StrEnum):
    """Faults of the model that broke a rollout."""

    TIMEOUT = "timeout"
    RUNTIME_DEATH = "runtime_death"
    """The program's process died, or asked for too much memory."""
    EXECUTION_ERROR = "execution_error"
    """The code raised, or a tool refused the call."""
    NO_ACTION = "no_action"
    """The last turn holds no action."""
    OVER_LENGTH = "over_length"
    OVER_IMAGES = "over_images"
    """Too many pictures or pixels."""


@dataclass(frozen=True, slots=True)
class StopFacts:
    """Facts about a stop reason."""

    words: str
    """A sentence for whoever looks at the episode."""
    limit: str = ""
    """The field of `EpisodeLimits` that set it; empty if none did."""
    broken: Broken | None = None
    """Fault of the rollout; None if it has none."""


STOPS: Final[Mapping[StopReason, StopFacts]] = {
    StopReason.ANSWERED: StopFacts("The model gave its answer."),
    StopReason.TURN_LIMIT: StopFacts("The limit of turns was reached before an answer.", "turns"),
    StopReason.CONTEXT_LIMIT: StopFacts("The context was full before an answer.", "context_tokens", Broken.OVER_LENGTH),
    StopReason.IMAGE_LIMIT: StopFacts(
        "The limit of pictures was reached before an answer.", "images", Broken.OVER_IMAGES
    ),
    StopReason.PIXEL_LIMIT: StopFacts(
        "The limit of pixels was reached before an answer.", "pixels", Broken.OVER_IMAGES
    ),
    StopReason.WALL_LIMIT: StopFacts("The limit of time was reached before an answer.", "wall_seconds", Broken.TIMEOUT),
    StopReason.FAILED_CALL_LIMIT: StopFacts("More calls failed than the limit allows.", "failed_calls"),
    StopReason.NO_ACTION: StopFacts("The model stopped without code, a call or an answer.", broken=Broken.NO_ACTION),
    StopReason.EMPTY: StopFacts("The model wrote nothing.", broken=Broken.NO_ACTION),
    StopReason.MODEL_DECLINED: StopFacts("The model refused to answer.", broken=Broken.NO_ACTION),
    StopReason.FILTERED: StopFacts("The provider's filter withheld the answer, or the question from the model."),
    StopReason.STUCK: StopFacts("The model made the same call again and again.", "repeated_calls"),
    StopReason.CANCELLED: StopFacts("The episode was cancelled."),
    StopReason.MODEL_LOST: StopFacts("The model's backend failed. This is an outage, not a mistake of the model."),
    StopReason.MODEL_REFUSED: StopFacts("The model's backend refused the request. This is no mistake of the model."),
    StopReason.SANDBOX_LOST: StopFacts("The sandbox failed. This is an outage, not a mistake of the model."),
    StopReason.TOOL_LOST: StopFacts("A tool's process or server failed. This is an outage, no mistake of the model."),
}
"""Every stop reason."""
UNANSWERED: Final = (StopReason.MODEL_DECLINED, StopReason.FILTERED, StopReason.EMPTY, StopReason.STUCK)
"""Ends that a person should hear of beside the number of right answers: nothing says so in the answers themselves."""


# What a model reads before its next turn: the prompt, then for each turn what it wrote and what it was shown.
#
# One rule for everybody who needs it (the loop, replay, training, reports), so that they cannot differ. Neighbours of
# the role `assistant` are one message: an observation of that role continues what the model wrote, and the next turn
# continues the observation. A turn in which the model wrote nothing has no message.


def conversation(prompt: Iterable[Message], turns: Iterable[Turn]) -> tuple[Message, ...]:
    """Return the messages after `turns`, in order."""
    joined: list[Message] = []
    for message in _messages(prompt, turns):
        last = joined[-1] if joined else None
        if last is not None and last.role == message.role == "assistant":
            joined[-1] = Message(role="assistant", parts=last.parts + message.parts, calls=last.calls + message.calls)
        elif message.parts or message.calls:
            joined.append(message)
    return tuple(joined)


def _messages(prompt: Iterable[Message], turns: Iterable[Turn]) -> Iterator[Message]:
    yield from prompt
    for turn in turns:
        yield turn.message
        if turn.observation is not None:
            yield turn.observation
        if turn.request is not None:
            yield turn.request
