"""From the record of an episode to its tokens.

The only place where a trajectory becomes ids. What the policy sampled keeps its ids; a turn without recorded ids is
tokenised by itself, never together with what stands around it. What follows the last turn is left out: nobody reads it.
A turn in which nothing was written stays, as an end of turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from saccade.errors import TrainingError
from saccade.models.families.base import END_OF_TURN
from saccade.models.families.pieces import PicturePlaceholder, Piece
from saccade.record.content import ImagePart, Message, TextPart
from saccade.record.trajectory import Trajectory
from saccade.record.turn import FinishReason, Turn
from saccade.tokens.encoder import Encoder
from saccade.tokens.segments import SegmentKind, TokenSegment, TokenTrajectory

SampledIds = Literal["recorded", "text"]
"""Where the ids of a turn come from: the record where it has them, or always the turn's text (another tokenizer's
trajectories)."""


def token_trajectory(trajectory: Trajectory, encoder: Encoder, ids: SampledIds = "recorded") -> TokenTrajectory:
    """The tokens of `trajectory`.

    Raises:
        TrainingError: it has no turn, shows a video, holds calls of an API's own function calling or of a provider's
            sandbox, or its recorded ids are not of this tokenizer.
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
        continues = not last and (not follows or follows[0].role == "assistant")
        segments.append(framing.sampled_segment(number, turn, continues=continues, ids=ids))
        unread, kind = follows, SegmentKind.OBSERVATION
    return TokenTrajectory(trajectory.id, tuple(segments))


class ChatFormatter:
    """What stands around a conversation's texts, as it grows.

    Keeps track of whether the assistant's message is still open, and whether its end was written.
    """

    def __init__(self, encoder: Encoder, name: str) -> None:
        """`name` is the trajectory's, for messages."""
        self._encoder = encoder
        self._family = encoder.family
        self._name = name
        self._open = False
        self._ended = False

    def prompt_pieces(self, messages: Iterable[Message], *, first: bool) -> list[Piece]:
        """What is read before the next turn; an assistant's message continues where one is open."""
        pieces: list[Piece] = []
        for number, message in enumerate(messages):
            if first and number == 0 and message.role != "system":
                pieces += self._encoder.preamble
            if not (self._open and message.role == "assistant"):
                pieces += self._close()
                pieces += self._family.head(message.role)
            pieces += self._content(message)
            if message.role == "assistant":
                self._open = True
            else:
                pieces += self._family.tail(message.role)
        if not self._open:
            pieces += self._family.head("assistant")
            self._open = True
        return pieces

    def sampled_segment(self, number: int, turn: Turn, *, continues: bool, ids: SampledIds) -> TokenSegment:
        """What was written in a turn; `continues` tells that the message is continued after it."""
        recorded = turn.token_ids if ids == "recorded" else None
        if recorded is None:
            text_ids = self._encoder.text(turn.text)
            ends = not continues and turn.finish_reason is not FinishReason.LENGTH
            self._ended = ends
            return TokenSegment(
                SegmentKind.SAMPLED, (*text_ids, self._encoder.end_id) if ends else text_ids, turn=number
            )
        self._check(number, turn, recorded)
        kept = self.kept_length(recorded, continues=continues)
        logprobs = None if turn.logprobs is None else turn.logprobs[:kept]
        return TokenSegment(SegmentKind.SAMPLED, recorded[:kept], turn=number, logprobs=logprobs)

    def kept_length(self, ids: Sequence[int], *, continues: bool) -> int:
        """How many of the sampled `ids` are read by the next turn: its end goes where the message is continued."""
        kept = len(ids)
        if continues:
            while kept and ids[kept - 1] in self._encoder.end_ids:
                kept -= 1
        self._ended = kept > 0 and ids[kept - 1] == self._encoder.end_id
        return kept

    def _close(self) -> tuple[Piece, ...]:
        """The end of an open message; its end-of-turn token only if the model did not write it."""
        if not self._open:
            return ()
        self._open = False
        tail = self._family.tail("assistant")
        ended, self._ended = self._ended, False
        return tail[1:] if ended and tail[0] == END_OF_TURN else tail

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
            elif isinstance(part, ImagePart):
                pieces.append(PicturePlaceholder(part))
            else:
                raise TrainingError(
                    f"{self._name} shows a video, and a video as such has no token form here. "
                    "Take a dialect that shows frames."
                )
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
