"""The same call again and again, with the same outcome: how often it came, and the line that tells the model so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from saccade.dialects.base import Observation
from saccade.record.content import Code, TextPart, ToolCall
from saccade.record.execution import Execution, Status
from saccade.record.trajectory import Turn

REPEAT_NOTICE: Final = 3
"""From so many in a row on the model is told."""
_PASSING = re.compile(r"\b0x[0-9a-fA-F]{6,}|<cell \d+>")
"""What differs between calls that are the same: addresses of objects, and the number of the cell."""
_CLOSING = re.compile(r"(?:\s*(?:</\w+>|```))?\s*\Z")


def repeats(turns: Sequence[Turn]) -> int:
    """Return how many calls in a row, the last one among them, are the same and came to the same.

    Turns without one apart.
    """
    made = [_outcome(turn.action, turn.execution) for turn in turns if turn.execution is not None]
    return next((at for at, outcome in enumerate(reversed(made)) if outcome != made[-1]), len(made))


def _outcome(action: object, execution: Execution) -> tuple[object, ...]:
    """Return what a call asked for and what came back.

    But not on standard error, where bars and warnings have times.
    """
    asked = action.code.strip() if isinstance(action, Code) else action
    if isinstance(action, ToolCall):
        asked = action.name, dict(action.arguments)
    texts = (execution.stdout, execution.value or "", execution.traceback or "")
    pictures = [picture.image.sha256 for picture in execution.pictures]
    return asked, execution.status, [_PASSING.sub("", text) for text in texts], pictures


def repeat_words(execution: Execution, count: int) -> str:
    """Return what the model is told of the last of `count` calls that are the same."""
    came = "gives the same result" if execution.status is Status.OK else "fails in the same way"
    return f"This is the same call {count} times in a row, and it {came}. Do something else, or answer."


def told(observation: Observation, line: str) -> Observation:
    """Return the observation with a line more at its end, inside the tag that closes it."""
    *before, last = observation.message.parts or (TextPart(text=""),)
    if not isinstance(last, TextPart):
        before, last = [*before, last], TextPart(text="")
    closing = _CLOSING.search(last.text)
    at = closing.start() if closing else len(last.text)
    text, ending = last.text[:at], last.text[at:]
    start = "\n" if text or before else ""
    parts = (*before, TextPart(text=f"{text}{start}{line}" + (ending if ending.startswith("\n") else f"\n{ending}")))
    return replace(observation, message=observation.message.model_copy(update={"parts": parts}))
