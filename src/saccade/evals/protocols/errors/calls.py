"""E1, E2, E3 and E5 in calls of typed tools, from the call itself and from what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from saccade.errors import SaccadeError
from saccade.evals.protocols.errors.records import ErrorClass, StepError
from saccade.record.action import ToolCall
from saccade.record.execution import Execution
from saccade.record.status import Status
from saccade.record.turn import Turn
from saccade.rewards.reading import silent
from saccade.tools.problem import Problem, ProblemKind
from saccade.tools.registry import own_name, recorded_tool

_KINDS: Final = frozenset(kind.value for kind in ProblemKind)
_ARGUMENTS: Final = (ProblemKind.SCHEMA, ProblemKind.ARGUMENT_NAME, ProblemKind.ARGUMENT_FORMAT)
"""Kinds that the arguments alone can have."""


def call_errors(number: int, turn: Turn, call: ToolCall) -> Iterator[StepError]:
    """The errors of one call, whether it was run or not."""
    run = turn.execution
    problem = None if run is None or run.problem not in _KINDS else ProblemKind(run.problem)
    mistakes = _mistakes(call) if run is None or problem in _ARGUMENTS else ()
    for kind, message in dict.fromkeys((item.kind, item.message) for item in mistakes):
        yield _step(number, kind, message)
    if run is None:
        return
    if problem is not None and problem not in {item.kind for item in mistakes}:
        yield from _of_execution(number, problem, run)
    if problem is None:
        yield from output_errors(number, turn)


def output_errors(number: int, turn: Turn) -> Iterator[StepError]:
    """E5 in what one call gave back, where no tool named the problem: an abrupt end, nothing, numbers that are none."""
    run = turn.execution
    if run is None:
        return
    if run.status in (Status.TIMEOUT, Status.KILLED, Status.OUT_OF_MEMORY, Status.REFUSED):
        yield StepError(error=ErrorClass.E5, turn=number, rule=run.status.value, detail=_last_line(run.traceback))
    elif silent(turn):
        yield StepError(error=ErrorClass.E5, turn=number, rule="empty", detail="The call gave nothing back.")
    elif run.status is Status.OK and run.value is not None and isinstance(turn.action, ToolCall):
        yield from _unreadable(number, run.value)


def _mistakes(call: ToolCall) -> tuple[Problem, ...]:
    """What is wrong with the arguments, by its own schema; nothing for a tool not known or not available here."""
    try:
        tool = recorded_tool(call.name)
        if tool.needs.missing():
            return ()
        alias = call.name if own_name(call.name) != call.name else None
        return tool.mistakes(dict(call.arguments), alias=alias)
    except SaccadeError:
        return ()


def _of_execution(number: int, problem: ProblemKind, run: Execution) -> Iterator[StepError]:
    if problem.vista is not None and run.status is not Status.LOST:
        yield _step(number, problem, _last_line(run.traceback))


def _step(number: int, kind: ProblemKind, message: str) -> StepError:
    return StepError(error=ErrorClass(kind.vista or "E5"), turn=number, rule=kind.value, detail=message)


def _unreadable(number: int, value: str) -> Iterator[StepError]:
    """A value that opens as JSON must be JSON, and its numbers must be some."""
    text = value.strip()
    if text[:1] not in ("{", "["):
        return
    strange: list[str] = []
    try:
        json.loads(text.partition("\nNew image ")[0], parse_constant=strange.append)
    except (ValueError, RecursionError):
        # A sentence may open with a bracket too; only what closes as it opened was meant as JSON.
        if text.endswith({"{": "}", "[": "]"}[text[0]]):
            yield StepError(error=ErrorClass.E5, turn=number, rule="not_json", detail="The value is no valid JSON.")
    if strange:
        detail = f"The value holds {strange[0]}."
        yield StepError(error=ErrorClass.E5, turn=number, rule="not_a_number", detail=detail)


def _last_line(traceback: str | None) -> str:
    return (traceback or "").strip().rpartition("\n")[2].removeprefix("ToolError: ")
