"""Turn the record of an episode into tokens: the only place where a trajectory becomes ids.

Sampled turns keep their ids; a turn without recorded ids is tokenised by itself, never with its surroundings. Messages
after the last turn are left out, as nothing reads them. An empty turn stays, as an end of turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from saccade.errors import TrainingError
from saccade.models.families.base import PicturePlaceholder, Piece
from saccade.record.base import clean_text
from saccade.record.content import Message, Role, TextPart
from saccade.record.trajectory import FinishReason, Trajectory, Turn
from saccade.tokens.encoder import Encoder
from saccade.tokens.segments import PromptPicture, SegmentKind, TokenSegment, TokenTrajectory

SampledIds = Literal["recorded", "text"]
"""Where the ids of a turn come from: the record where it has them, or always the turn's text (another tokenizer's
trajectories)."""


def token_trajectory(trajectory: Trajectory, encoder: Encoder, ids: SampledIds = "recorded") -> TokenTrajectory:
    """Tokenise `trajectory`.

    Raises `TrainingError`: it has no turn, shows a video that the model does not read, holds calls of an API's own
    function calling or of a provider's sandbox, or its recorded ids are not of this tokenizer.
    """
    if not trajectory.turns:
        raise TrainingError(f"{trajectory.id} has no turn, so there is nothing to learn from it; leave it out")
    if any(turn.hosted for turn in trajectory.turns):
        raise TrainingError(
            f"{trajectory.id} holds calls of a provider's own sandbox, which stand in no text; leave it out"
        )
    segments: list[TokenSegment] = []
    framing = ChatFormatter(encoder, trajectory.id)
    unread: Iterable[Message] = trajectory.prompt
    kind = SegmentKind.PROMPT
    for number, turn in enumerate(trajectory.turns):
        pieces = framing.prompt_pieces(unread, first=number == 0)
        if pieces:
            prompt_ids, pictures = encoder.encode(pieces)
            segments.append(TokenSegment(kind, prompt_ids, pictures))
        follows = [message for message in (turn.observation, turn.request) if message is not None]
        last = number == len(trajectory.turns) - 1
        next_role: Role | None = None if last else follows[0].role if follows else "assistant"
        segments.append(framing.sampled_segment(number, turn, follows=next_role, ids=ids))
        unread, kind = follows, SegmentKind.OBSERVATION
    return TokenTrajectory(trajectory.id, tuple(segments))


class ChatFormatter:
    """Writes the frame around a growing conversation's texts.

    Tracks whether the assistant's message is still open, and whether its end was sampled.
    """

    def __init__(self, encoder: Encoder, name: str) -> None:
        """`name` is the trajectory's, for messages."""
        self._encoder = encoder
        self._family = encoder.family
        self._name = name
        self._open = False
        self._last: int | None = None
        """The token that was sampled last, if it is read."""

    def prompt_pieces(self, messages: Iterable[Message], *, first: bool) -> list[Piece]:
        """Return the pieces read before the next turn; an open message of the assistant is continued."""
        pieces: list[Piece] = []
        frame = self._encoder.frame
        for number, message in enumerate(messages):
            if first and number == 0:
                pieces += frame.start if message.role == "system" else frame.preamble
            if not (self._open and message.role == "assistant"):
                pieces += self._between(message.role)
            content = self._content(message)
            if message.role == "assistant":
                pieces += content
                self._last = None
            else:
                pieces += self._family.shown(content)
                pieces += self._family.tail(message.role, media=bool(message.media))
        if not self._open:
            pieces += self._between("assistant")
        return pieces

    def sampled_segment(self, number: int, turn: Turn, *, follows: Role | None, ids: SampledIds) -> TokenSegment:
        """Return the tokens of a turn; `follows` is the next role, the assistant where its message is continued."""
        recorded = turn.token_ids if ids == "recorded" else None
        if recorded is None:
            text_ids = self._encoder.text(self._family.answer(turn.text, self._encoder.frame.opening))
            ends = follows != "assistant" and turn.finish_reason is not FinishReason.LENGTH
            end = self._encoder.end_after(follows) if ends else None
            self._last = end
            return TokenSegment(SegmentKind.SAMPLED, text_ids if end is None else (*text_ids, end), turn=number)
        self._check(number, turn, recorded)
        kept = self.kept_length(recorded, follows=follows)
        logprobs = None if turn.logprobs is None else turn.logprobs[:kept]
        return TokenSegment(SegmentKind.SAMPLED, recorded[:kept], turn=number, logprobs=logprobs)

    def kept_length(self, ids: Sequence[int], *, follows: Role | None) -> int:
        """Return how many of the sampled `ids` the next turn reads.

        The end is dropped where the message is continued, and where it announces another role than `follows`.
        """
        kept = len(ids)
        if follows == "assistant":
            while kept and ids[kept - 1] in self._encoder.end_ids:
                kept -= 1
        elif follows is not None and kept and not self._family.tail("assistant"):
            other = ids[kept - 1] in self._encoder.end_ids and ids[kept - 1] != self._encoder.end_after(follows)
            kept -= other
        self._last = ids[kept - 1] if kept else None
        return kept

    def _between(self, role: Role) -> tuple[Piece, ...]:
        """Return the end of an open message and the beginning of the next, without what the model sampled of it."""
        pieces = (*(self._family.tail("assistant") if self._open else ()), *self._family.head(role))
        if self._open and self._last is not None and self._last == self._encoder.end_after(role):
            pieces = pieces[1:]
        self._open, self._last = role == "assistant", None
        return (*pieces, *self._encoder.frame.opening_pieces) if self._open else pieces

    def _content(self, message: Message) -> list[Piece]:
        if message.calls:
            raise TrainingError(
                f"{self._name} holds calls of an API's own function calling, which have no token form here. "
                "Write it in a dialect that says its calls as text."
            )
        pieces: list[Piece] = []
        for part in message.parts:
            if isinstance(part, TextPart):
                pieces.append(part.text)
            else:
                pieces.append(PicturePlaceholder(part))
        return pieces

    def _check(self, number: int, turn: Turn, ids: tuple[int, ...]) -> None:
        where = f"turn {number} of {self._name}"
        reserved = sorted(self._encoder.reserved_ids.intersection(ids))
        if reserved:
            raise TrainingError(
                f"in {where} the model sampled {self._encoder.decode(reserved[:1])}, which only a prompt may hold: "
                "it would claim a picture or a turn that is not there. Ban it when sampling; leave the trajectory out."
            )
        text = self._encoder.decode(token for token in ids if token not in self._encoder.end_ids)
        if not text.startswith(turn.text):
            raise TrainingError(
                f"the recorded ids of {where} are not those of its text in the tokenizer of {self._encoder.name}. "
                'If another model wrote it, take the ids from the text (sampled_ids = "text").'
            )


@dataclass(frozen=True, slots=True)
class PromptDelta:
    """Tokens to be read before the next turn."""

    ids: tuple[int, ...]
    pictures: tuple[PromptPicture, ...] = ()
    """In the order of their placeholders in `ids`."""
    dropped: int = 0
    """How many of the last sampled tokens are not read, as the message continues without them."""


class TokenStream:
    """The tokens of an episode while it is played, turn by turn; to the token those of `token_trajectory` at its end.

    delta = stream.prompt_delta(request.messages)      # the prompt, later the observation with all marks around it
    stream.add_sampled(ids, text)                      # the turn
    """

    def __init__(self, encoder: Encoder, name: str) -> None:
        """`name` is the episode's, for messages."""
        self._encoder = encoder
        self._framing = ChatFormatter(encoder, name)
        self._messages: tuple[Message, ...] = ()
        self._ids: tuple[int, ...] = ()
        self._text = ""

    def prompt_delta(self, messages: Sequence[Message]) -> PromptDelta:
        """Return what is new in the whole conversation `messages`. Raises `TrainingError` if a message has no token
        form (calls of an API's own function calling, or a video that the family does not read).
        """
        first = not self._messages
        new = list(messages) if first else _new_messages(self._messages, bool(clean_text(self._text)), messages)
        dropped = 0
        if not first:
            follows = new[0].role if new else "assistant"
            dropped = len(self._ids) - self._framing.kept_length(self._ids, follows=follows)
        ids, pictures = self._encoder.encode(self._framing.prompt_pieces(new, first=first))
        self._messages = tuple(messages)
        return PromptDelta(ids, pictures, dropped)

    def add_sampled(self, ids: tuple[int, ...], text: str) -> None:
        """Add a sampled turn, and its text as recorded."""
        self._ids, self._text = ids, text


def _new_messages(before: Sequence[Message], wrote: bool, now: Sequence[Message]) -> list[Message]:
    """Return the messages of `now` after those `before` and the sampled text; the first may be a continuation."""
    continued = before[-1].role == "assistant"
    if not (continued or wrote):
        return list(now[len(before) :])
    skipped = (len(before[-1].parts) if continued else 0) + wrote
    at = len(before) - continued
    rest = now[at].parts[skipped:]
    tail = list(now[at + 1 :])
    return [Message(role="assistant", parts=rest), *tail] if rest else tail
