"""The loop, written once: a generator that yields what is to be done and is sent what came of it.

It does no IO, reads no clock and knows no model and no sandbox; the drivers and the Gymnasium environment all play this
one generator, so the same model outputs give the same trajectory.

    model writes → the dialect reads an action → code or tool runs → the dialect shows what came back → again

It ends with an answer, at a limit, at an outage, or when its driver says so; every end has a `StopReason`. A limit of
N turns is N turns of the model. Before the last of them, or where a limit of pictures or pixels is reached, a dialect
that asks for the answer does so; it then counts as any other. An observation that would pass a limit is not shown at
all. In the last turn nothing is run, since nobody would see the result.

Tokens are bounded before a turn is sampled: each request says how many its context may hold, and how many the answers
before have left. The latter does not know what the last observation takes, and nothing at all after a backend that
does not count; a backend that counts its prompt itself is exact.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import islice
from typing import Final, TypeVar

from saccade.core.seam import seam
from saccade.dialects.base import Dialect, Observation, Opening, opened, parsed
from saccade.dialects.boxes import Seen, in_pixels
from saccade.episode.shown import ShownAs, as_shown, opened_as_shown
from saccade.models.base import Completion, Request, ToolSpec
from saccade.record.content import Action, Answer, Code, ImagePart, Message, ParseError, TextPart, ToolCall, clean_text
from saccade.record.execution import Execution, Status
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits, FinishReason, Sampling, StopReason, TokenCounts, Turn, conversation

_log = logging.getLogger(__name__)

# What the loop asks its driver to do, and what the driver says in return. Frozen data, nothing runs here.


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the model. Answered by `Said`."""

    request: Request
    turns: tuple[Turn, ...] = ()
    """The episode so far; so in every effect."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run code in the episode's session. Answered by `Ran`."""

    code: str
    bindings: Mapping[str, ImagePart] = field(default_factory=dict)
    """Variables to bind first: pictures that were shown since the last call."""
    turns: tuple[Turn, ...] = ()
    """The last one is the one that asks for this; so for `Call`."""


@dataclass(frozen=True, slots=True)
class Call:
    """Call a typed tool. Answered by `Ran`."""

    call: ToolCall
    """Its boxes in pixels of the pictures at their full size; the turn has the call as the model wrote it."""
    pictures: Mapping[str, ImagePart]
    """The pictures that the tool may look at, by the names that the model knows, oldest first."""
    shown: int
    """Pictures shown so far: the number of the next one."""
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    """What the model wrote, and the seconds that it took."""

    completion: Completion
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Ran:
    """What the sandbox or the tool gave back, and the seconds that it took."""

    execution: Execution
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """The driver could not do what it was asked, or must end the episode. May answer anything."""

    reason: StopReason
    detail: str = ""
    """For a person."""


Effect = Ask | Run | Call
"""What the loop asks its driver for."""
Reply = Said | Ran | Stopped
"""What the driver sends back."""


@dataclass(frozen=True, slots=True)
class Wrote:
    """A piece of the model's text, as it comes; an empty one means that the text begins again."""

    piece: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a person should know of the episode, such as that it continues an earlier one."""

    text: str


Event = Effect | Reply | Wrote | Notice
"""What someone who watches an episode hears, in the order in which it happens."""

_SEVERAL: Final = "Only the first of the calls was made. Make one call at a time."


@cache  # in every episode of a run it is the same
def _warn_left(note: str) -> None:
    _log.warning(note)


# Turns without an action: how many there are at the end of an episode, and what may help.
#
# A model that does not follow its dialect writes prose, is told so, and writes prose again. Nothing here decides when
# that is enough: `EpisodeLimits.idle_turns` does.


IDLE_NOTICE: Final = 3
"""So many in a row say that the model does not follow its dialect."""
_NOTHING: Final = (
    "Look at the server's log: an empty answer is a fault of its template or parser as often as of the model."
)
_LONGEST_REFUSAL: Final = 600
_WITHHELD: Final[Mapping[FinishReason | None, StopReason]] = {
    FinishReason.DECLINED: StopReason.MODEL_DECLINED,
    FinishReason.FILTERED: StopReason.FILTERED,
}
"""Asking again would be paid for and refused again, so the first such turn ends the episode."""
CUT: Final = "Each of these was cut off at its limit of tokens: allow more with sampling.max_tokens."
_OTHERS: Final = {"native": "native (for an API with function calls)", "direct": "direct"}


def idle_turns(turns: Sequence[Turn]) -> int:
    """Return how many turns in a row, the last one among them, hold neither an action nor an answer."""
    acting = [number for number, turn in enumerate(turns) if not isinstance(turn.action, ParseError)]
    return len(turns) - 1 - acting[-1] if acting else len(turns)


def empty_turns(turns: Sequence[Turn]) -> int:
    """Return how many turns in a row, the last one among them, hold neither text nor a call, and were not cut off."""
    count = 0
    for turn in reversed(turns):
        if turn.text.strip() or turn.calls or turn.hosted or turn.finish_reason is FinishReason.LENGTH:
            break
        count += 1
    return count


def idle_detail(dialect: str, idle: int, limit: int | None = None) -> str:
    """Return what `idle` turns in a row say of a model that is spoken to in the dialect of that id, and what to try.

    Args:
        dialect: its id.
        idle: turns without an action.
        limit: the limit of such turns, where it was reached.
    """
    others = [words for name, words in _OTHERS.items() if name != dialect.partition("@")[0]]
    reached = "" if limit is None else f" (limits.idle_turns = {limit})"
    return (
        f"the model wrote {idle} turns in a row without an action{reached}: it does not follow the dialect {dialect}. "
        f"Try --dialect {' or '.join(others)}."
    )


# What an episode follows: the task, how the model is spoken to, and where it ends.


@dataclass(frozen=True)
class Plan:
    """One episode to be played; playing it changes nothing in it."""

    task: Task
    dialect: Dialect
    sampling: Sampling = field(default_factory=Sampling)
    given_limits: EpisodeLimits | None = None
    """None: those of the dialect."""
    group: str = ""
    """Rollouts of one task that are compared with each other share it."""
    rollout: int = 0
    """Number of this rollout in its group."""
    settings: str = ""
    """The resolved settings of the command, for the record."""
    shown: Mapping[str, ShownAs] = field(default_factory=dict)
    """Pictures that the first messages show otherwise than they are, by sha256. Tools have the pictures themselves, and
    so has code unless the dialect's `code_sees_shown`."""
    notes: tuple[str, ...] = ()
    """What was done to media and limits beforehand, for a person."""
    opened: Opening | None = field(default=None, compare=False, repr=False)
    """What `dialect.open(task)` gave, where it was asked already."""

    @property
    def limits(self) -> EpisodeLimits:
        """The limits that hold."""
        return self.dialect.limits if self.given_limits is None else self.given_limits

    @cached_property
    def opening(self) -> Opening:
        """How the episode begins. Raises `SettingsError` for a task that the dialect cannot show."""
        if self.dialect.code_sees_shown and self.shown:
            return opened_as_shown(self.task, self.dialect, self.shown)
        return as_shown(self.opened or opened(self.dialect, self.task), self.shown)

    def shown_part(self, part: ImagePart) -> ImagePart:
        """Return the picture as which a picture of the task is shown."""
        other = self.shown.get(part.sha256)
        return part if other is None else other.part

    @cached_property
    def functions(self) -> tuple[ToolSpec, ...]:
        """What the model may call through its API's own function calling."""
        return self.dialect.functions

    @cached_property
    def hosted(self) -> bool:
        """Whether the provider of the model runs its code."""
        return self.dialect.provider_runs

    @property
    def id(self) -> str:
        """Names the trajectory: the task and the number of the rollout."""
        return f"{self.task.id}#{self.rollout}"


@lru_cache(maxsize=256)  # a server of agents asks the same at every request
def limits_with(limits: EpisodeLimits, **overrides: float | None) -> EpisodeLimits:
    """Return `limits` with those of `given` that are not None in place of its own."""
    return EpisodeLimits.model_validate(
        {**limits.model_dump(), **{name: value for name, value in overrides.items() if value is not None}}
    )


@dataclass(frozen=True, slots=True)
class EpisodeOutcome:
    """How an episode went."""

    prompt: tuple[Message, ...]
    turns: tuple[Turn, ...]
    stop: StopReason
    detail: str = ""
    """For a person."""
    model: str = ""
    """The name and revision that the backend gave itself."""


Flow = Generator[Effect, Reply, EpisodeOutcome]


def flow(plan: Plan) -> Flow:
    """Play `plan`. Raises `SettingsError` at once for a task that the dialect cannot show."""
    talk = _Talk(plan)
    while True:
        reply = yield Ask(talk.request(), tuple(talk.turns))
        if isinstance(reply, Stopped):
            return talk.end(reply.reason, reply.detail)
        if not isinstance(reply, Said):
            raise TypeError(f"Ask is answered by Said or Stopped, not by {type(reply).__name__}")
        action = talk.hear(reply)
        stop = talk.stop_after(action)
        if stop is not None:
            return talk.ended(stop)
        if isinstance(action, Code | ToolCall):
            ran = yield talk.effect(action)
            if isinstance(ran, Stopped):
                return talk.end(ran.reason, ran.detail)
            if not isinstance(ran, Ran):
                raise TypeError(f"{type(action).__name__} is answered by Ran or Stopped, not by {type(ran).__name__}")
            stop = talk.watch(ran)
        else:
            stop = talk.correct(action)
        if stop is not None and not talk.asks_for_answer(stop):
            return talk.ended(stop)


@dataclass
class _Talk:
    """What has been said so far in one episode."""

    plan: Plan
    turns: list[Turn] = field(default_factory=list)
    limit: StopReason | None = None
    """The limit because of which the model was asked for its answer, and so for its last turn."""
    failed: int = 0
    """Calls that did not end well."""
    several: bool = False
    """Whether the last text holds more calls than the one that is made."""
    model: str = ""

    def __post_init__(self) -> None:
        opening = self.plan.opening
        media = {item.name: item.part for item in self.plan.task.media}
        bound = {variable: media[name] for variable, name in opening.bindings.items()}
        self.shown = opening.pictures
        self.pixels = sum(part.width * part.height for message in opening.messages for part in message.media)
        self.pictures = {name: part for name, part in bound.items() if isinstance(part, ImagePart)}
        self.seen = {name: Seen(part, self.plan.shown_part(part)) for name, part in self.pictures.items()}
        self.unbound: dict[str, ImagePart] = {}

    def request(self) -> Request:
        """Return what the model is asked next."""
        used, most = self._used(), self._most_context()
        room = self.plan.limits.response_tokens if not self.turns else None
        return Request(
            messages=conversation(self.plan.opening.messages, self.turns),
            stop=self.plan.dialect.stop,
            sampling=self.plan.sampling,
            tools=self.plan.functions,
            hosted=self.plan.hosted,
            context_tokens=most,
            room=most - used if most is not None and used else room,
        )

    def hear(self, reply: Said) -> Action:
        """Read what the model wrote, and keep it as a turn."""
        completion = reply.completion
        self.model = completion.model or self.model
        text = clean_text(completion.text)
        dialect = self.plan.dialect
        calls: tuple[ToolCall, ...] = ()
        spoken = text
        if dialect.functions:
            calls, spoken = completion.tool_calls, dialect.transcribe(text, completion.tool_calls)
        declined = completion.finish is FinishReason.DECLINED
        action = ParseError(reason="The model refused.") if declined else parsed(dialect, spoken, completion.finish)
        left = None if calls or declined or isinstance(action, Answer) else dialect.left_in_text(spoken)
        self.several = left is not None and left.several
        notes = completion.notes
        if left is not None:
            _warn_left(left.note)
            notes += (left.note,)
        usage = completion.usage
        self.turns.append(
            Turn(
                text=text,
                calls=calls,
                hosted=completion.hosted,
                token_ids=completion.token_ids,
                logprobs=completion.logprobs,
                action=action,
                call_shape=dialect.call_shape(text) if isinstance(action, ToolCall) else "",
                tokens=TokenCounts(
                    context=usage.prompt_tokens,
                    context_visual=usage.visual_tokens,
                    context_cached=usage.cached_tokens,
                    sampled=usage.sampled_tokens,
                    reasoning=usage.reasoning_tokens,
                ),
                dollars=usage.dollars,
                finish_reason=completion.finish,
                notes=tuple(map(clean_text, notes)),
                model_seconds=reply.seconds,
            )
        )
        return action

    def stop_after(self, action: Action) -> StopReason | None:
        """Say why the episode ends before anything is run or said about `action`; None if it continues."""
        if isinstance(action, Answer):
            return StopReason.ANSWERED
        if isinstance(action, ParseError):
            if withheld := _WITHHELD.get(self.turns[-1].finish_reason):
                return withheld
            if empty_turns(self.turns) >= IDLE_NOTICE:
                return StopReason.EMPTY
        if self.limit is not None:
            return self.limit
        most = self._most_context()
        if most is not None and self._used() >= most:
            return StopReason.CONTEXT_LIMIT
        return StopReason.TURN_LIMIT if self._turns_left() == 0 else None

    def effect(self, action: Code | ToolCall) -> Run | Call:
        if isinstance(action, Code):
            bindings, self.unbound = self.unbound, {}
            return Run(action.code, bindings, tuple(self.turns))
        call = in_pixels(action, self.plan.dialect.boxes, self.seen)
        return Call(call, dict(self.pictures), self.shown, tuple(self.turns))

    def watch(self, ran: Ran) -> StopReason | None:
        """Keep what was run, and show it if it may be shown; the reason to stop, if there is one."""
        execution = ran.execution
        self._amend(execution=execution, execution_seconds=ran.seconds)
        if execution.status is Status.LOST:
            return StopReason.SANDBOX_LOST
        self.failed += execution.status is not Status.OK
        allowed = self.plan.limits.failed_calls
        if allowed is not None and self.failed > allowed:
            return StopReason.FAILED_CALL_LIMIT
        same, most = repeats(self.turns), self.plan.limits.repeated_calls
        if most is not None and same >= most:
            return StopReason.STUCK
        observation = seam(self.plan.dialect.observe, Observation)(execution, self.shown)
        if self.several:
            observation = told(observation, _SEVERAL)
        if most is not None and same >= REPEAT_NOTICE:
            observation = told(observation, repeat_words(execution, same))
        return self._show(observation)

    def correct(self, error: Action) -> StopReason | None:
        """Tell the model that it asked for nothing, if the dialect does; else the episode ends."""
        limit = self.plan.limits.idle_turns
        if limit is not None and idle_turns(self.turns) >= limit:
            return StopReason.NO_ACTION
        reason = error.reason if isinstance(error, ParseError) else ""
        observation = seam(self.plan.dialect.correct, Observation, type(None))(reason, self.shown)
        if observation is None:
            return StopReason.NO_ACTION
        return self._show(observation)

    def asks_for_answer(self, reason: StopReason) -> bool:
        """Ask for the answer because of the limit `reason`, if that limit and the dialect leave room for it."""
        if reason not in (StopReason.TURN_LIMIT, StopReason.IMAGE_LIMIT, StopReason.PIXEL_LIMIT):
            return False
        request = seam(self.plan.dialect.ask_for_answer, Message, type(None))()
        if request is None:
            return False
        self.limit = reason
        self._amend(request=request)
        return True

    def ended(self, reason: StopReason) -> EpisodeOutcome:
        """Return the episode, ended by what the model wrote or by a limit."""
        empty = empty_turns(self.turns)
        idle = {StopReason.NO_ACTION: idle_turns(self.turns), StopReason.TURN_LIMIT: len(self.turns)}.get(reason)
        if empty and empty == idle:
            reason = StopReason.EMPTY
        last = self.turns[-1]
        if reason is StopReason.MODEL_DECLINED:
            detail = f"the model refused to answer: {last.text[:_LONGEST_REFUSAL]}" if last.text else ""
        elif reason is StopReason.FILTERED:
            detail = " ".join(last.notes)
        elif reason is StopReason.EMPTY:
            detail = f"the model wrote nothing in its last {empty} turn{'s' * (empty > 1)}. {_NOTHING}"
        elif reason is StopReason.STUCK:
            detail = (
                f"{repeat_words(last.execution, repeats(self.turns)).partition('. ')[0]}." if last.execution else ""
            )
        else:
            detail = self.idleness(reason)
        return self.end(reason, detail)

    def idleness(self, reason: StopReason) -> str:
        """Return what a person should know of a model that ended without an action.

        Empty where there is nothing to say.
        """
        idle, limit = idle_turns(self.turns), self.plan.limits.idle_turns
        if reason not in (StopReason.NO_ACTION, StopReason.TURN_LIMIT) or idle < min(limit or IDLE_NOTICE, IDLE_NOTICE):
            return ""
        reached = limit if reason is StopReason.NO_ACTION and limit is not None and idle >= limit else None
        detail = idle_detail(self.plan.dialect.id, idle, reached)
        cut = all(turn.finish_reason is FinishReason.LENGTH for turn in self.turns[-idle:])
        left = self.plan.dialect.left_in_text(self.turns[-1].text)
        return " ".join([detail, *([CUT] if cut else []), *([left.note] if left is not None else [])])

    def end(self, reason: StopReason, detail: str = "") -> EpisodeOutcome:
        return EpisodeOutcome(self.plan.opening.messages, tuple(self.turns), reason, detail, self.model)

    def _show(self, observation: Observation) -> StopReason | None:
        limits = self.plan.limits
        pixels = self.pixels + sum(part.width * part.height for part in observation.message.media)
        if limits.images is not None and observation.pictures > max(limits.images, self.shown):
            return StopReason.IMAGE_LIMIT
        if limits.pixels is not None and pixels > max(limits.pixels, self.pixels):
            return StopReason.PIXEL_LIMIT
        self.shown, self.pixels = observation.pictures, pixels
        self.pictures.update(observation.bindings)
        self.seen |= {name: Seen(part, part) for name, part in observation.bindings.items()}
        self.unbound.update(observation.bindings)
        message = observation.message
        calls = self.turns[-1].calls
        if message.role == "tool" and calls:
            message = message.model_copy(update={"call_id": calls[0].call_id})
        self._amend(observation=message)
        # The last turn is for the answer.
        return StopReason.TURN_LIMIT if self._turns_left() == 1 and self.plan.dialect.ask_for_answer() else None

    def _turns_left(self) -> int | None:
        """Return the turns that are left; None without a limit."""
        limit = self.plan.limits.turns
        return None if limit is None else max(0, limit - len(self.turns))

    def _used(self) -> int:
        """Return tokens of the context when the last turn had been written, as far as the backend counts them."""
        tokens = self.turns[-1].tokens if self.turns else TokenCounts()
        return (tokens.context or 0) + (tokens.sampled or 0)

    def _most_context(self) -> int | None:
        """Count the tokens that the context may have; None without a limit or a known length of the prompt."""
        limits = self.plan.limits
        prompt = self.turns[0].tokens.context if self.turns else None
        own = None if limits.response_tokens is None or prompt is None else prompt + limits.response_tokens
        return min((most for most in (limits.context_tokens, own) if most is not None), default=None)

    def _amend(self, **fields: object) -> None:
        # Built anew and not copied: the record checks itself only when it is built.
        last = self.turns[-1]
        self.turns[-1] = Turn(**{**{name: getattr(last, name) for name in Turn.model_fields}, **fields})


# Work on many items at once, results as they are done.


T = TypeVar("T")
R = TypeVar("R")


async def as_done(items: Iterable[T], work: Callable[[T], Awaitable[R]], workers: int) -> AsyncIterator[list[R]]:
    """Yield the results in the order in which they come, those that came since the last time together.

    At most `workers` items are worked on at once, and items are drawn only when there is a worker for them. The first
    exception of `work` ends it, after the results that came with it were given; what is under way is then cancelled, as
    it is when the iterator is closed.
    """
    queue = iter(items)
    working: set[asyncio.Future[R]] = set()
    ended: list[asyncio.Future[R]] = []
    woken = asyncio.Event()

    # Each task tells its own end: asyncio.wait would go through all that are under way whenever one of them ends.
    def end(task: asyncio.Future[R]) -> None:
        working.discard(task)
        ended.append(task)
        woken.set()

    def start(count: int) -> None:
        for item in islice(queue, count):
            task = asyncio.ensure_future(work(item))
            working.add(task)
            task.add_done_callback(end)

    try:
        start(workers)
        while working or ended:
            await woken.wait()
            woken.clear()
            done = ended.copy()
            ended.clear()
            start(len(done))
            results = [task.result() for task in done if task.exception() is None]
            if results:
                yield results
            for task in done:
                task.result()
    finally:
        left = [*working, *ended]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


REPEAT_NOTICE: Final = 3
"""From so many in a row on the model is told."""
_PASSING = re.compile(r"\b0x[0-9a-fA-F]{6,}|<cell \d+>")
"""What differs between calls that are the same: addresses of objects, and the number of the cell."""
_CLOSING = re.compile(r"(?:\s*(?:</\w+>|```))?\s*\Z")


def repeats(turns: Sequence[Turn]) -> int:
    """Return how many calls in a row, the last one among them, are the same and came to the same.

    Turns without one apart.
    """
    made = [_outcome(turn.action, turn.execution) for turn in turns if turn.execution is not None]
    return next((at for at, outcome in enumerate(reversed(made)) if outcome != made[-1]), len(made))


def _outcome(action: object, execution: Execution) -> tuple[object, ...]:
    """Return what a call asked for and what came back.

    But not on standard error, where bars and warnings have times.
    """
    asked = action.code.strip() if isinstance(action, Code) else action
    if isinstance(action, ToolCall):
        asked = action.name, dict(action.arguments)
    texts = (execution.stdout, execution.value or "", execution.traceback or "")
    pictures = [picture.image.sha256 for picture in execution.pictures]
    return asked, execution.status, [_PASSING.sub("", text) for text in texts], pictures


def repeat_words(execution: Execution, count: int) -> str:
    """Return what the model is told of the last of `count` calls that are the same."""
    came = "gives the same result" if execution.status is Status.OK else "fails in the same way"
    return f"This is the same call {count} times in a row, and it {came}. Do something else, or answer."


def told(observation: Observation, line: str) -> Observation:
    """Return the observation with a line more at its end, inside the tag that closes it."""
    *before, last = observation.message.parts or (TextPart(text=""),)
    if not isinstance(last, TextPart):
        before, last = [*before, last], TextPart(text="")
    closing = _CLOSING.search(last.text)
    at = closing.start() if closing else len(last.text)
    text, ending = last.text[:at], last.text[at:]
    start = "\n" if text or before else ""
    parts = (*before, TextPart(text=f"{text}{start}{line}" + (ending if ending.startswith("\n") else f"\n{ending}")))
    return replace(observation, message=observation.message.model_copy(update={"parts": parts}))
