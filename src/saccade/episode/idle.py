"""Turns without an action: how many there are at the end of an episode, and what may help.

A model that does not follow its dialect writes prose, is told so, and writes prose again. Nothing here decides when
that is enough: `EpisodeLimits.idle_turns` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from saccade.record.action import ParseError
from saccade.record.turn import Turn

IDLE_NOTICE: Final = 3
"""So many in a row say that the model does not follow its dialect."""
CUT: Final = "Each of these was cut off at its limit of tokens: allow more with sampling.max_tokens."
_OTHERS: Final = {"native": "native (for an API with function calls)", "direct": "direct"}


def idle_turns(turns: Sequence[Turn]) -> int:
    """How many turns in a row, the last one among them, hold neither an action nor an answer."""
    acting = [number for number, turn in enumerate(turns) if not isinstance(turn.action, ParseError)]
    return len(turns) - 1 - acting[-1] if acting else len(turns)


def idle_detail(dialect: str, idle: int, limit: int | None = None) -> str:
    """What `idle` turns in a row say of a model that is spoken to in the dialect of that id, and what to try.

    Args:
        dialect: its id.
        idle: turns without an action.
        limit: the limit of such turns, where it was reached.
    """
    others = [words for name, words in _OTHERS.items() if name != dialect.partition("@")[0]]
    reached = "" if limit is None else f" (limits.idle_turns = {limit})"
    return (
        f"the model wrote {idle} turns in a row without an action{reached}: it does not follow the dialect {dialect}. "
        f"Try --dialect {' or '.join(others)}."
    )
