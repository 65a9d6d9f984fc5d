"""What a model reads before its next turn: the prompt, then for each turn what it wrote and what it was shown.

One rule for everybody who needs it (the loop, replay, training, reports), so that they cannot differ. Neighbours of the
role `assistant` are one message: an observation of that role continues what the model wrote, and the next turn
continues the observation. A turn in which the model wrote nothing has no message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from saccade.record.content import Message
from saccade.record.turn import Turn


def conversation(prompt: Iterable[Message], turns: Iterable[Turn]) -> tuple[Message, ...]:
    """The messages after `turns`, in order."""
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
