"""A model that says again what a stored trajectory says: text, token ids, log-probabilities, end and tool calls.

It answers a request by its messages, not by counting: the request must hold exactly the messages that the recorded
model saw before one of its turns, else it is refused with the place of the first difference. Parts of text that follow
each other count as one. Sampling, stop strings and tools of the request are not compared. Any number of episodes may
ask at once.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

from saccade.errors import ModelRefusedError, RecordError, SettingsError
from saccade.models.base import Completion, MediaReader, Request, Usage
from saccade.models.registry import Provider
from saccade.record.codec import read_lines
from saccade.record.content import Message, TextPart
from saccade.record.trajectory import FinishReason, Trajectory, Turn, conversation

_Seen = tuple[str, tuple[str, ...]]
"""Role, then texts and sha256 of media in their order: what counts for two messages to be the same."""

_BEFORE, _AFTER = 30, 50
"""Characters that a message shows before and after the first difference."""


class ReplayModel:
    """Plays the turns of one trajectory."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.name = f"replay:{trajectory.id}"
        self._model = trajectory.provenance.model
        self._turns: list[tuple[tuple[_Seen, ...], Turn]] = []
        for number, turn in enumerate(trajectory.turns):
            before = conversation(trajectory.prompt, trajectory.turns[:number])
            self._turns.append((tuple(map(_seen, before)), turn))

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return what was recorded after these messages. Raises `ModelRefusedError` if they are not those of a turn."""
        messages = tuple(_seen(message) for message in request.messages)
        turn = next((turn for seen, turn in self._turns if seen == messages), None)
        if turn is None:
            raise ModelRefusedError(self._difference(messages))
        if on_text is not None and turn.text:
            on_text(turn.text)
        return completion_of(turn, self._model)

    async def close(self) -> None:
        """Do nothing: nothing is held that needs closing."""

    def _difference(self, messages: tuple[_Seen, ...]) -> str:
        if not self._turns:
            return f"{self.name} has no turns to play: the recorded episode ended before the model spoke."
        recorded = max((seen for seen, _ in self._turns), key=lambda seen: (_common(seen, messages), -len(seen)))
        at = _common(recorded, messages)
        if at < min(len(recorded), len(messages)):
            place = _first_difference(_plain(messages[at]), _plain(recorded[at]))
            what = (
                f"message {at + 1} differs at character {place + 1}: asked {_around(messages[at], place)}, recorded "
                f"{_around(recorded[at], place)}"
            )
        else:
            known = sorted({len(seen) for seen, _ in self._turns})
            what = f"it got {len(messages)} messages; the model spoke after {', '.join(map(str, known))}"
        return (
            f"{self.name} was asked with other messages than recorded: {what}. "
            "Replay with the task, dialect and sandbox of the recording."
        )


def completion_of(turn: Turn, model: str = "") -> Completion:
    """Return what the model gave in that turn; `model` is the name that it gave itself."""
    return Completion(
        text=turn.text,
        finish=turn.finish_reason or FinishReason.STOP,
        tool_calls=turn.calls,
        hosted=turn.hosted,
        token_ids=turn.token_ids,
        logprobs=turn.logprobs,
        usage=Usage(
            prompt_tokens=turn.tokens.context,
            cached_tokens=turn.tokens.context_cached,
            visual_tokens=turn.tokens.context_visual,
            sampled_tokens=turn.tokens.sampled,
            reasoning_tokens=turn.tokens.reasoning,
            dollars=turn.dollars,
        ),
        model=model,
        notes=turn.notes,
    )


def replay_from_file(path: Path) -> ReplayModel:
    """Return the model that plays the only trajectory in a file of JSON lines. Raises `SettingsError` if there is no
    such file, or it does not hold exactly one trajectory, `RecordError` if a line cannot be read.
    """
    try:
        stored = list(read_lines(path, Trajectory))
    except OSError as error:
        raise SettingsError(f"{path} cannot be replayed: {error.strerror}. Name a file of JSON lines.") from error
    if len(stored) != 1:
        raise SettingsError(f"{path} holds {len(stored)} trajectories; put the one to replay into a file of its own")
    return ReplayModel(stored[0])


def _seen(message: Message) -> _Seen:
    content = _joined(
        [("text", part.text) if isinstance(part, TextPart) else (part.kind, part.sha256) for part in message.parts]
    )
    return message.role, (*content, *(f"call {call.model_dump_json()}" for call in message.calls))


def _joined(parts: list[tuple[str, str]]) -> tuple[str, ...]:
    joined: list[str] = []
    text = ""
    for kind, value in parts:
        if kind == "text":
            text += value
        else:
            joined += [f"text {text}"] * bool(text) + [f"{kind} {value}"]
            text = ""
    return (*joined, *[f"text {text}"] * bool(text))


def _common(one: tuple[_Seen, ...], other: tuple[_Seen, ...]) -> int:
    """Return how many messages at their beginnings are the same."""
    same = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        same += 1
    return same


def _plain(seen: _Seen) -> str:
    return f"{seen[0]}: {' | '.join(seen[1])}"


def _first_difference(one: str, other: str) -> int:
    """Return the index of the first character that is not the same, or the length of the shorter text."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def _around(seen: _Seen, place: int) -> str:
    """Return the text around a place, cut on both sides where it is longer."""
    text = _plain(seen)
    start, end = max(0, place - _BEFORE), place + _AFTER
    return f"{'…' if start else ''}{text[start:end]!r}{'…' if end < len(text) else ''}"


# A stored trajectory, played again.


def _model(provider: Provider, name: str) -> ReplayModel:
    return replay_from_file(Path(name))


def _recorded(name: str) -> str:
    try:
        return next((item.provenance.dialect for item in islice(read_lines(Path(name), Trajectory), 1)), "")
    except (OSError, RecordError):
        return ""  # making the model says what is wrong with the file


REPLAY = Provider(
    name="replay",
    description="A stored trajectory, played again, as in `replay:FILE.jsonl`.",
    make=_model,
    samples=False,
    stop_strings="as recorded",
    token_ids=True,
    continues=True,
    hosted_code=True,
    learned_dialect=_recorded,
)
