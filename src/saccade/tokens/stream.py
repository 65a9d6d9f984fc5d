"""The tokens of an episode while it is played: at each turn what is new since the last, never what is skipped already.

    stream = TokenStream(encoder, "task#0")
    delta = stream.prompt_delta(request.messages)      # the prompt
    ...                                       # the model writes
    stream.add_sampled(ids, text)
    delta = stream.prompt_delta(request.messages)      # the observation, with every mark around it

Put together, what was read and written is `token_trajectory` of the finished episode, to the token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from saccade.record.base import clean_text
from saccade.record.content import Message
from saccade.tokens.build import ChatFormatter
from saccade.tokens.encoder import Encoder
from saccade.tokens.segments import PromptPicture


@dataclass(frozen=True, slots=True)
class PromptDelta:
    """What is to be read before the next turn."""

    ids: tuple[int, ...]
    pictures: tuple[PromptPicture, ...] = ()
    """In the order of their placeholders in `ids`."""
    dropped: int = 0
    """How many of the tokens written last are not read, since the message continues without them."""


class TokenStream:
    """One episode; `prompt_delta` and `add_sampled` take turns."""

    def __init__(self, encoder: Encoder, name: str) -> None:
        """`name` is the episode's, for messages."""
        self._encoder = encoder
        self._framing = ChatFormatter(encoder, name)
        self._messages: tuple[Message, ...] = ()
        self._ids: tuple[int, ...] = ()
        self._text = ""

    def prompt_delta(self, messages: Sequence[Message]) -> PromptDelta:
        """What of the whole conversation `messages` is new.

        Raises:
            TrainingError: a message has no token form (calls of an API's own function calling, or a video that the
                family does not read).
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
        """What was sampled, and its text as the record will have it."""
        self._ids, self._text = ids, text


def _new_messages(before: Sequence[Message], wrote: bool, now: Sequence[Message]) -> list[Message]:
    """The messages of `now` behind those `before` and the text that was written; the first may be a continuation."""
    continued = before[-1].role == "assistant"
    if not (continued or wrote):
        return list(now[len(before) :])
    skipped = (len(before[-1].parts) if continued else 0) + wrote
    at = len(before) - continued
    rest = now[at].parts[skipped:]
    tail = list(now[at + 1 :])
    return [Message(role="assistant", parts=rest), *tail] if rest else tail
