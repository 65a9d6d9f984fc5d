"""Text on the terminal as it is: no markup is read in it, and nothing in it can move the cursor.

rich takes `saccade[env]` for the name of a style and leaves it out, so every console of the commands is made here.
Imports rich late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TextColumn

MOST_LINES: Final = 3
"""Of an error."""
_MARKS = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {0x7F: "\u2421"}
_MARKS |= {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}
_MARKS |= {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)}


def visible(text: str) -> str:
    """`text` without anything that a terminal would obey."""
    return text.translate(_MARKS)


def plain_console(**options: Any) -> Console:
    """A console of rich that prints brackets; `options` are rich's."""
    from rich.console import Console

    return Console(markup=False, **options)


def plain_column(text_format: str) -> TextColumn:
    """A column of a progress bar, its brackets printed."""
    from rich.progress import TextColumn

    return TextColumn(text_format, markup=False)


def error_text(message: str) -> str:
    """An error in at most three lines; what would be further lines stands behind the last one."""
    lines = [line.rstrip() for line in message.strip().splitlines() if line.strip()]
    head, rest = lines[: MOST_LINES - 1], lines[MOST_LINES - 1 :]
    return "\n".join([*head, "; ".join([*rest[:1], *(line.strip() for line in rest[1:])])] if rest else head)
