"""E1 in what was written: tags, JSON, a call and an answer in one turn, a turn without any action.

A dialect that lists the faults of its turns (`faults`) is asked; of other dialects a turn is at fault if it holds no
action, and the rule names the tag that is wrong where one is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from saccade.dialects.faults import Fault, FaultKind, find_tag_faults
from saccade.dialects.registry import recorded_dialect
from saccade.dialects.text import blocks, outside_thoughts
from saccade.errors import SaccadeError
from saccade.evals.protocols.errors.records import ErrorClass, StepError
from saccade.record.action import Code, ParseError, ToolCall
from saccade.record.turn import FinishReason, Turn

_TAGS: Final = ("code", "tool_call", "answer")


def form_errors(number: int, turn: Turn, dialect: str) -> Iterator[StepError]:
    """The errors in the form of one turn; each rule once."""
    finish = turn.finish_reason or FinishReason.STOP
    if finish is FinishReason.FILTERED:
        return  # the provider withheld the text: that is no error of the model
    errors = _listed(turn, finish, dialect)
    faults = _faults(turn, finish) if errors is None else errors
    for kind, reason in {fault.kind: fault.reason for fault in reversed(faults)}.items():
        yield StepError(error=ErrorClass.E1, turn=number, rule=kind.value, detail=reason)


def _listed(turn: Turn, finish: FinishReason, dialect: str) -> tuple[Fault, ...] | None:
    try:
        return recorded_dialect(dialect).faults(turn.text, finish)
    except SaccadeError:
        return None


def _faults(turn: Turn, finish: FinishReason) -> tuple[Fault, ...]:
    if isinstance(turn.action, Code | ToolCall):
        both = any(block.closed for block in blocks(outside_thoughts(turn.text), "answer"))
        reason = "A turn either calls something or answers, and this one does both."
        return (Fault(FaultKind.CALL_AND_ANSWER, reason),) if both else ()
    if not isinstance(turn.action, ParseError):
        return ()
    if finish is FinishReason.LENGTH:
        return (Fault(FaultKind.TRUNCATED, turn.action.reason),)
    # One tag at a time: code may lie inside a thought.
    tags = tuple(fault for tag in _TAGS for fault in find_tag_faults(turn.text, (tag,)))
    return tags or (Fault(FaultKind.NO_ACTION, turn.action.reason),)
