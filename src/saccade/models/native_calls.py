"""Native calls as APIs want them: each has an identifier, and its result follows at once.

APIs refuse a request in which a call is not answered or a result answers nothing. The loop makes no such request; this
holds for messages from anywhere. Pure data; no API is named here.
"""

from __future__ import annotations

from collections.abc import Sequence

from saccade.record.action import ToolCall
from saccade.record.content import Message


def paired(messages: Sequence[Message]) -> tuple[Message, ...]:
    """`messages` in which every call has an identifier and exactly one result, after its own message.

    A call without a result is left out. A result without a call loses its `call_id` and stands after the others.
    """
    pairs: list[Message] = []
    at = 0
    while at < len(messages):
        message, first = messages[at], at + 1
        at = first
        while message.calls and at < len(messages) and messages[at].role == "tool":
            at += 1
        pairs += _exchange(message, messages[first:at], f"call_{first}")
    return tuple(message for message in pairs if message.parts or message.calls or message.call_id)


def _exchange(message: Message, results: Sequence[Message], stem: str) -> list[Message]:
    """One message and what answers its calls; identifiers that are missing begin with `stem`."""
    if not message.calls:
        return [message if message.call_id is None else message.model_copy(update={"call_id": None})]
    unanswered = list(message.calls)
    calls: list[ToolCall] = []
    answers: list[Message] = []
    loose: list[Message] = []
    for result in results:
        call = next((call for call in unanswered if call.call_id == result.call_id), None)
        if call is None:
            loose.append(result.model_copy(update={"call_id": None}))
            continue
        unanswered.remove(call)
        identifier = call.call_id or f"{stem}_{len(calls)}"
        calls.append(call.model_copy(update={"call_id": identifier}))
        answers.append(result.model_copy(update={"call_id": identifier}))
    return [message.model_copy(update={"calls": tuple(calls)}), *answers, *loose]
