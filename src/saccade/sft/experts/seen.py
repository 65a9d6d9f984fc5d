"""What came back after a turn, read from the messages as the model sees them: the inverse of a dialect's `observe`.

Nothing here looks behind the messages: an expert that reads a result reads what a policy would read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from saccade.dialects.base import Dialect
from saccade.record.content import ImagePart, Message
from saccade.record.execution import Execution, ExecutionPicture
from saccade.record.status import Status

_MARK = "what.was.printed"
_DUMMY = ExecutionPicture(image=ImagePart(sha256="0" * 64, width=1, height=1), source="figure")
_ERROR = re.compile(
    r"(?:\b(?:[A-Z]\w*(?:Error|Exception)|Error|Execution timeout|Timed Out)\b|(?<=execution failed: )).*"
)
_HEADED = re.compile(r"Execution Error \((?P<kind>\w+)\) -+\s+(?P<message>.*)")


@dataclass(frozen=True, slots=True)
class Seen:
    """What came back from one call."""

    text: str
    """What was printed, without the dialect's wrapper; the whole text where the wrapper is that of a failure."""
    pictures: int
    error: str | None
    """The line that names what went wrong; None if nothing did."""

    @property
    def last(self) -> str:
        """The last line that is not blank; empty if there is none."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1] if lines else ""


def observed(dialect: Dialect, messages: Sequence[Message]) -> Message:
    """The newest observation among `messages`; a last request for the answer may stand behind it."""
    return messages[-2] if len(messages) > 1 and messages[-1] == dialect.ask_for_answer() else messages[-1]


def read(dialect: Dialect, text: str, new: int, before: int) -> Seen:
    """The newest observation in `text`, which brought `new` pictures after `before` others."""
    execution = Execution(status=Status.OK, stdout=_MARK + "\n", pictures=(_DUMMY,) * new)
    frame = dialect.observe(execution, before).message.text
    opening, printed, closing = frame.replace(_MARK + "\n", _MARK).partition(_MARK)
    inside = text
    # An observation may continue the message before it, so the newest one is the last.
    matched = opening in text
    if matched and printed:
        inside = text[text.rfind(opening) + len(opening) :] if opening else text
        inside = inside.removesuffix(closing)
    error = _error_in(inside)
    if error is not None:
        return Seen(inside.strip(), new, error)
    silent = not printed and new > 0
    if silent or matched or new > 0 or not inside.strip():
        return Seen("" if silent else inside.strip(), new, None)
    return Seen(inside.strip(), new, None if _says_nothing(dialect, text, before) else inside.strip()[:120])


def _error_in(text: str) -> str | None:
    headed = _HEADED.search(text)
    if headed is not None:
        return f"{headed['kind']}: {headed['message'].strip()}"
    match = _ERROR.search(text)
    return None if match is None else match[0].strip()


def _says_nothing(dialect: Dialect, text: str, before: int) -> bool:
    """Whether this is how the dialect shows a call that ended well and neither printed nor showed anything."""
    return text.endswith(dialect.observe(Execution(status=Status.OK), before).message.text)
