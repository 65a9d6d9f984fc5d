"""A turn as a backend would give it: the dialect's canonical text, or a function call where the API has those."""

from __future__ import annotations

from saccade.dialects.base import Dialect, FunctionDialect
from saccade.dialects.thyme import ThymeDialect
from saccade.models.base import Completion
from saccade.record.action import Action, Code, ToolCall
from saccade.record.turn import FinishReason


def completion(dialect: Dialect, action: Action, thought: str, *, first: bool, model: str) -> Completion:
    """The turn that thinks `thought` and does `action`; `first` tells whether it is the episode's first.

    Raises:
        ValueError: the dialect cannot say this.
    """
    if isinstance(dialect, FunctionDialect) and isinstance(action, Code | ToolCall):
        call = ToolCall(name="python", arguments={"code": action.code}) if isinstance(action, Code) else action
        return Completion(thought, FinishReason.TOOL_CALL, (call,), model=model)
    # There alone, a later turn continues a message that is open already.
    text = (
        dialect.write(action, thought, first=first)
        if isinstance(dialect, ThymeDialect)
        else dialect.write(action, thought)
    )
    ended = any(text.endswith(mark) for mark in dialect.stop)
    return Completion(text, FinishReason.STOP_STRING if ended else FinishReason.STOP, model=model)
