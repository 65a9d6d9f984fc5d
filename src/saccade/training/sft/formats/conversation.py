r"""A trajectory as a plain conversation: roles, texts with a placeholder for each picture, and the pictures in order.

This is what the formats of conversations have in common, and so what they hold: prompt, the text of every turn, every
observation, and of the task its id, question, gold answer, source and the media that the prompt shows (under new
names). A last request for the answer becomes part of the observation before it; calls of an API are kept in the
canonical text of their dialect. They do not hold executions, token ids, log-probabilities, counts, times, prices,
scores, groups, choices, evidence, programs, sampling, limits, and why an episode ended other than with an answer.
`held` is a trajectory without all that; reading a written row gives exactly it. A text that holds a placeholder itself
has a backslash in it, `<image\>`, so that placeholders and pictures agree; one warning says so.
A row is written only if reading it would give back what the format promises to hold; otherwise it is refused.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from saccade.dialects.base import Dialect, join_texts, recorded_dialect
from saccade.errors import RecordError, RegistryError, SaccadeError
from saccade.media.store import MediaStore
from saccade.record.content import (
    Action,
    Answer,
    ImagePart,
    Message,
    ParseError,
    Part,
    Role,
    TextPart,
    VideoPart,
    clean_text,
    escape_places,
    unescape_places,
)
from saccade.record.execution import Execution, Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import FinishReason, Provenance, StopReason, Trajectory, Turn, conversation
from saccade.training.sft.curate.pipeline import Media
from saccade.training.sft.formats.files import (
    ConversionOptions,
    MediaIn,
    MediaOut,
    Refused,
    Row,
    TrajectorySource,
    find_rows,
    read_rows,
    write_jsonl,
)

IMAGE, VIDEO = "<image>", "<video>"
_PLACEHOLDER = re.compile(f"({IMAGE}|{VIDEO})")
# In a dialect whose observations continue the assistant's message. Its guard keeps these tags out of what was printed.
_CONTINUED = re.compile(r"(<sandbox_output>.*?</sandbox_output>)", re.DOTALL)
_MARK = "\ufffc"
_ESCAPED = (IMAGE, VIDEO, escape_places(IMAGE))
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RoleMessage:
    """Message of one role."""

    role: Role
    text: str
    """With a placeholder for each picture and video."""


@dataclass(frozen=True, slots=True)
class ConversationFacts:
    """Fields of a row other than the conversation."""

    id: str
    dialect: str
    task: str = ""
    """Id of the task; that of the row where it is empty."""
    question: str | None = None
    """None: what the user says last before the model does."""
    answer: str | None = None
    """The gold answer."""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A trajectory as lines."""

    about: ConversationFacts
    lines: tuple[RoleMessage, ...]
    media: tuple[ImagePart | VideoPart, ...] = field(default=())
    """One for each placeholder, in order."""


def flatten(trajectory: Trajectory) -> Conversation:
    """Return the conversation of a trajectory. Raises `RecordError`: it has no such form; the message says why."""
    held_ = held(trajectory)
    if any(not turn.text for turn in held_.turns):
        raise RecordError("a turn in which the model wrote nothing has no line in a conversation")
    messages = conversation(held_.prompt, held_.turns)
    task = held_.task
    return Conversation(
        ConversationFacts(held_.id, held_.provenance.dialect, task.id, task.question, task.answer, task.source),
        tuple(RoleMessage(message.role, placeholders(message.parts)) for message in messages),
        tuple(part for message in messages for part in message.media),
    )


def unflatten(talk: Conversation) -> Trajectory:
    """Return the trajectory of a conversation, its turns read by the dialect.

    Raises `RecordError`: a turn holds no action, or something else is not as it must be; the message says where.
    """
    dialect = dialect_of(talk.about.dialect)
    messages = _with_media(talk)
    first = next((at for at, message in enumerate(messages) if message.role == "assistant"), len(messages))
    turns = _turns(messages[first:], dialect)
    prompt = messages[:first]
    answered = bool(turns) and isinstance(turns[-1].action, Answer)
    try:
        return Trajectory(
            id=talk.about.id,
            task=_task(talk.about, prompt),
            provenance=Provenance(dialect=dialect.id),
            prompt=prompt,
            turns=tuple(turns),
            stop=StopReason.ANSWERED if answered else None,
        )
    except ValidationError as error:
        raise RecordError("; ".join(str(problem["msg"]) for problem in error.errors())) from error


def held(trajectory: Trajectory) -> Trajectory:
    """Return `trajectory` without what conversations do not hold; see the module's head.

    Raises:
        RecordError: as `dialect_of`, or a provider's own sandbox ran its code, so that its texts are not the whole.
    """
    if any(turn.hosted for turn in trajectory.turns):
        raise RecordError("its code ran in the provider's own sandbox, for which a conversation has no line")
    dialect = dialect_of(trajectory.provenance.dialect)
    prompt = _joined(trajectory.prompt)
    task = trajectory.task
    turns = []
    for turn in trajectory.turns:
        text = dialect.transcribe(turn.text, turn.calls)
        messages = [message for message in (turn.observation, turn.request) if message is not None]
        parts = join_texts([part for message in messages for part in message.parts])
        shown = Message(role=messages[0].role, parts=parts) if parts else None
        turns.append(Turn(text=text, action=turn.action, observation=shown))
    about = ConversationFacts(trajectory.id, dialect.id, task.id, task.question, task.answer, task.source)
    return Trajectory(
        id=trajectory.id,
        task=_task(about, prompt),
        provenance=Provenance(dialect=dialect.id),
        prompt=prompt,
        turns=tuple(turns),
        stop=StopReason.ANSWERED if trajectory.answer is not None else None,
    )


def dialect_of(name: str) -> Dialect:
    """Return the dialect of that id. Raises `RecordError` for one that there is not, or none at all."""
    if not name:
        raise RecordError("it names no dialect; give one with --dialect")
    try:
        return recorded_dialect(name)
    except RegistryError as error:
        raise RecordError(f"its turns cannot be read: {error}") from error


def _task(about: ConversationFacts, prompt: Sequence[Message]) -> Task:
    media = list(dict.fromkeys(part for message in prompt for part in message.media))
    asked = next((message.text for message in reversed(prompt) if message.role == "user"), "")
    return Task(
        id=about.task or about.id,
        question=escape_places(asked.strip()) if about.question is None else about.question,
        media=tuple(NamedMedia(name=f"media_{number}", part=part) for number, part in enumerate(media)),
        answer=about.answer,
        source=about.source,
    )


def _joined(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return `messages` with neighbours of one role joined, and texts that follow each other."""
    joined: list[Message] = []
    for message in messages:
        before = joined.pop().parts if joined and joined[-1].role == message.role else ()
        joined.append(Message(role=message.role, parts=join_texts((*before, *message.parts))))
    return tuple(message for message in joined if message.parts)


def placeholders(parts: Sequence[Part]) -> str:
    """Return the text of a message, with a placeholder for each picture and video; one that it holds is escaped."""
    pieces = []
    for part in join_texts(parts):
        if isinstance(part, TextPart):
            escaped = escape_places(part.text)
            if escaped != part.text:
                _warn_escaped()
            pieces.append(escaped)
        else:
            pieces.append(IMAGE if isinstance(part, ImagePart) else VIDEO)
    return "".join(pieces)


@cache
def _warn_escaped() -> None:
    _log.warning("A text holds %s or %s itself: it is written as %s, for it is no picture's place.", *_ESCAPED)


def _with_media(talk: Conversation) -> tuple[Message, ...]:
    """Return the lines as messages, each placeholder with its picture or video."""
    images = iter([part for part in talk.media if isinstance(part, ImagePart)])
    videos = iter([part for part in talk.media if isinstance(part, VideoPart)])
    messages = []
    for line in talk.lines:
        parts: list[Part] = []
        for piece in _PLACEHOLDER.split(clean_text(line.text)):
            if piece not in (IMAGE, VIDEO):
                parts.append(TextPart(text=unescape_places(piece)))
                continue
            part = next(images if piece == IMAGE else videos, None)
            if part is None:
                raise RecordError(f"there are more {piece} in the texts than there are media")
            parts.append(part)
        messages.append(Message(role=line.role, parts=join_texts(parts)))
    left = len([*images, *videos])
    if left:
        raise RecordError(f"{left} of the media have no placeholder in the texts")
    return _joined(messages)


def _turns(messages: Sequence[Message], dialect: Dialect) -> list[Turn]:
    """Return the turns that `messages`, which begin with the model's first, consist of."""
    turns: list[Turn] = []
    continued = _is_continued(dialect)
    for message in messages:
        if message.role == "assistant":
            pieces = _pieces(message) if continued else [(message, None)]
            turns += [_turn(text, shown, dialect) for text, shown in pieces]
        elif turns[-1].observation is None:
            turns[-1] = turns[-1].model_copy(update={"observation": message})
        else:
            raise RecordError("an observation is followed by another message that is not the model's")
    for number, turn in enumerate(turns):
        _check_action(number, turn, dialect)
    return turns


def _is_continued(dialect: Dialect) -> bool:
    """Return whether observations continue the assistant's message; a dialect without tools has none."""
    try:
        return dialect.observe(Execution(status=Status.OK), 0).message.role == "assistant"
    except ValueError:
        return False


def _turn(text: Message, shown: Message | None, dialect: Dialect) -> Turn:
    if text.media:
        raise RecordError("a picture stands in what the model wrote")
    action: Action = dialect.parse(text.text, FinishReason.STOP)
    return Turn(text=text.text, action=action, observation=shown)


def _check_action(number: int, turn: Turn, dialect: Dialect) -> None:
    """Refuse a turn without an action, unless the model was told so in the dialect's words."""
    if not isinstance(turn.action, ParseError):
        return
    correction = dialect.correct(turn.action.reason, 0)
    shown = turn.observation
    if correction is None or shown is None or not shown.text.startswith(correction.message.text):
        raise RecordError(f"turn {number} holds no action of {dialect.id}: {turn.action.reason}")


def _pieces(message: Message) -> list[tuple[Message, Message | None]]:
    """Split a message that holds several turns into pairs: what the model wrote and what it was shown."""
    text = "".join(part.text if isinstance(part, TextPart) else _MARK for part in message.parts)
    if text.count(_MARK) > len(message.media):
        raise RecordError("a text holds U+FFFC, which stands for a picture")
    media = iter(message.media)
    cut = _CONTINUED.split(text)
    pieces: list[tuple[Message, Message | None]] = []
    for at in range(0, len(cut), 2):
        wrote = _restored(cut[at], media)
        shown = _restored(cut[at + 1], media) if at + 1 < len(cut) else None
        if wrote.parts or shown is not None:
            pieces.append((wrote, shown))
    return pieces


def _restored(text: str, media: Iterator[ImagePart | VideoPart]) -> Message:
    parts: list[Part] = []
    for piece in re.split(f"({_MARK})", text):
        parts.append(next(media) if piece == _MARK else TextPart(text=piece))
    return Message(role="assistant", parts=join_texts(parts))


Parts = tuple[ImagePart | VideoPart, ...]


class Codec(Protocol):
    """How one trajectory is kept in one row."""

    @property
    def dialect(self) -> str:
        """The dialect of rows that name none; empty if the format has none of its own."""

    def labels(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the part of a row that holds the fields of `labels`."""

    def held(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory as the format holds it. Raises `RecordError` if it cannot hold it at all."""

    def media(self, trajectory: Trajectory) -> Parts:
        """Return the media of the row, in their order there."""

    def encode(self, trajectory: Trajectory, out: MediaOut) -> Row:
        """Return the row of a trajectory that is `held`. Raises `RecordError` if it has none."""

    def read_media(self, row: Mapping[str, Any], into: MediaIn) -> Parts:
        """Return the media that a row names. Raises `RecordError` or `MediaError`."""

    def decode(self, row: Mapping[str, Any], parts: Parts, about: ConversationFacts) -> Trajectory:
        """Return the trajectory of a row. Raises `RecordError`."""


@dataclass(frozen=True, slots=True)
class ConversationCodec:
    """Base of codecs whose rows hold a whole conversation and name its media in order."""

    dialect: str = ""

    def labels(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        return row

    def held(self, trajectory: Trajectory) -> Trajectory:
        return held(trajectory)

    def media(self, trajectory: Trajectory) -> Parts:
        return flatten(trajectory).media


def _no_files(folder: Path) -> None:
    """Write no file next to the rows."""


@dataclass(frozen=True, slots=True)
class RowFormat:
    """A format of one row for each trajectory."""

    codec: Codec
    file: str = "data.jsonl"
    save: Callable[[Path, Iterable[Row]], None] = write_jsonl
    beside: Callable[[Path], None] = _no_files
    """Writes further files into the folder."""

    def read(self, path: Path, options: ConversionOptions, store: MediaStore) -> TrajectorySource:
        file = find_rows(path)
        media = MediaIn(options.images or file.parent, store)
        return TrajectorySource(self._read(file, options, media), store)

    def write(
        self, trajectories: Iterable[Trajectory], media: Media, folder: Path, options: ConversionOptions
    ) -> list[Refused]:
        refused: list[Refused] = []
        out = MediaOut(media, folder, options.root)
        self.save(folder / self.file, self._rows(trajectories, out, refused))
        self.beside(folder)
        return refused

    def _read(self, file: Path, options: ConversionOptions, media: MediaIn) -> Iterator[Trajectory | Refused]:
        ids: set[str] = set()
        for number, row in enumerate(read_rows(file)):
            if isinstance(row, str):
                yield Refused(row=number, reason=row)
                continue
            own = self.codec.labels(row)
            name = clean_text(str(own.get("id") or "")) or f"{file.stem}-{number}"
            name = f"{name}-{number}" if name in ids else name
            ids.add(name)
            try:
                about = _about(own, name, options.dialect or _text(own, "dialect") or self.codec.dialect)
                yield self.codec.decode(row, self.codec.read_media(row, media), about)
            except (SaccadeError, OSError, ValueError, KeyError, TypeError) as error:
                yield Refused(row=number, id=name, reason=clean_text(str(error)) or type(error).__name__)

    def _rows(self, trajectories: Iterable[Trajectory], out: MediaOut, refused: list[Refused]) -> Iterator[Row]:
        for number, trajectory in enumerate(trajectories):
            try:
                yield self._row(trajectory, out)
            except RecordError as error:
                refused.append(Refused(row=number, id=trajectory.id, reason=str(error)))

    def _row(self, trajectory: Trajectory, out: MediaOut) -> Row:
        held = self.codec.held(trajectory)
        row = self.codec.encode(held, out)
        about = _about(self.codec.labels(row), held.id, held.provenance.dialect)
        again = self.codec.decode(row, self.codec.media(held), about)
        if again != held:
            raise RecordError(f"reading the row would not give it back: {difference(held, again)}")
        return row


def labels(trajectory: Trajectory) -> Row:
    """Return the fields of a row that say what the trajectory is; trainers leave them aside."""
    task = trajectory.task
    return {
        "id": trajectory.id,
        "dialect": trajectory.provenance.dialect,
        "task": task.id,
        "question": task.question,
        "answer": task.answer,
        "source_dataset": task.source,
    }


def _about(row: Mapping[str, Any], name: str, dialect: str) -> ConversationFacts:
    """Read the fields of `labels`; rows of other projects may lack all of them."""
    question, answer = row.get("question"), row.get("answer")
    return ConversationFacts(
        id=name,
        dialect=dialect,
        task=_text(row, "task"),
        question=clean_text(question) if isinstance(question, str) else None,
        answer=None if answer is None else clean_text(str(answer)),
        source=_text(row, "source_dataset"),
    )


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return clean_text(value) if isinstance(value, str) else ""


def difference(one: Trajectory, other: Trajectory) -> str:
    """Describe the first difference of two trajectories."""
    for name in ("prompt", "turns", "task", "stop"):
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine == theirs:
            continue
        if name == "turns" and len(mine) == len(theirs):
            at = next(number for number in range(len(mine)) if mine[number] != theirs[number])
            return f"turn {at} would be {theirs[at].action.kind} for {mine[at].action.kind}, or its text another"
        return f"its {name} would differ"
    return "it would differ"
