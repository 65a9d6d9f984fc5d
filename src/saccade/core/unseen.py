"""Spell out letters that a terminal obeys, that change how others are read, or that nobody can see."""

from __future__ import annotations

import itertools
import re
from typing import Final

_RANGES: Final = (
    *(range(0x09), range(0x0B, 0x20), range(0x7F, 0xA0)),  # control characters, but tab and newline
    *(range(0x2028, 0x202F), range(0x2066, 0x2070), range(0x200E, 0x2010), (0x061C,)),  # direction and lines
    *(range(0x200B, 0x200E), range(0x2060, 0x2066), range(0xFFF0, 0xFFFC), (0xAD,), (0xFEFF,)),  # without width
    *((0x034F,), range(0x115F, 0x1161), range(0x17B4, 0x17B6), range(0x180B, 0x1810), (0x2800,)),  # blank letters
    *((0x3164,), (0xFFA0,), range(0x1BCA0, 0x1BCA4), range(0x1D173, 0x1D17B)),
    *(range(0xFE00, 0xFE10), range(0xE0000, 0xE1000)),  # variants and tags
    range(0xD800, 0xE000),  # halves of surrogate pairs
)
_SPELLED: Final = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    for code in itertools.chain(*_RANGES)
}
_UNSEEN: Final = re.compile(f"[{''.join(f'{chr(some[0])}-{chr(some[-1])}' for some in _RANGES)}]")
_IN_TEXT: Final = {code: word for code, word in _SPELLED.items() if code not in (0x200C, 0x200D, 0xFE0E, 0xFE0F)}


def spelled(text: str, *, joined: bool = False) -> str:
    """Return `text` with such letters written as Python's escapes; tabs and newlines stay.

    If `joined`, what joins the letters of Persian or the parts of an emoji stays, too: for text that people read.
    """
    # The table is slow for text that needs nothing, and a function for each match slow for text that is full of them.
    return text.translate(_IN_TEXT if joined else _SPELLED) if _UNSEEN.search(text) else text
