"""Examples of whole turns in a dialect, for the samples of an action space. Only their form matters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from saccade.dialects.base import Dialect
from saccade.record.action import Action, Answer, Code, ToolCall

_THOUGHT: Final = "Let me look again."
_CODES: Final = (
    "print(sum(range(10)))",
    "import numpy as np\nprint(np.arange(6).reshape(2, 3))",
    "print(sorted(name for name in globals() if not name.startswith('_')))",
    "raise ValueError('nothing to see')",
)
_ANSWERS: Final = ("yes", "4")


def example_turns(dialect: Dialect) -> tuple[str, ...]:
    """Texts of whole turns as the dialect writes them: code, calls and answers, as far as it knows these."""
    return tuple(_written(dialect))


def _written(dialect: Dialect) -> Iterator[str]:
    for action in _actions(dialect):
        try:
            yield dialect.write(action, _THOUGHT)
        except ValueError:
            continue  # the dialect has no such action


def _actions(dialect: Dialect) -> Iterator[Action]:
    yield from (Code(code=code) for code in _CODES)
    yield from (ToolCall(name=tool.name, arguments={}) for tool in dialect.tools)
    yield from (Answer(text=text) for text in _ANSWERS)
