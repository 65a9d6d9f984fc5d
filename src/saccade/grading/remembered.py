"""Remember what was read of a text: one answer is read by many rules, and a gold answer with every answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

Read = TypeVar("Read")

_LONGEST: Final = 2_000
"""Characters of a text beyond which only the last few are remembered."""
_MOST: Final = 2_048
_MOST_LONG: Final = 4
"""Texts of each function."""


def remembered(function: Callable[[str], Read]) -> Callable[[str], Read]:
    """Decorate a function of one text, which depends on nothing else and returns what nobody changes."""
    short, long = (lru_cache(maxsize=most)(function) for most in (_MOST, _MOST_LONG))

    @wraps(function)
    def read(text: str) -> Read:
        return (short if len(text) <= _LONGEST else long)(text)

    return read
