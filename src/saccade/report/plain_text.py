"""Text that a model, a program or a stranger wrote, made safe to look at: nothing in it acts, hides or reorders.

Colours of terminals are dropped; other control characters, and characters that turn the direction of text around or
have no shape, are written out as `⟨U+202E⟩`. This is about what a reader sees; escaping for HTML is the work of the
template.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

LONGEST: Final = 200_000
"""Characters of one text that a page shows."""

_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links
    r"|\x1b[ -/]*[0-Z\\^-~]"
)
_JOINERS = "\u200c\u200d"
"""Needed to write some scripts and emoji; they move nothing."""


def readable(text: str) -> str:
    """No terminal sequences, hidden characters written out, a lone carriage return as `␍` and a new line."""
    plain = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "␍\n")
    return "".join(map(_shown, plain)) if _needs_care(plain) else plain


def cut_end(text: str, longest: int = LONGEST) -> str:
    """`text`, or its first `longest` characters and a line that says how many are missing."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}\n… {len(text) - longest:,} more characters are in the record"


def one_line(text: str, longest: int) -> str:
    """`text` on one line of at most `longest` characters, an ellipsis at its end if it was cut."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def _needs_care(text: str) -> bool:
    return not (text.isascii() and text.replace("\n", "").replace("\t", "").isprintable())


def _shown(character: str) -> str:
    if character in "\n\t" or character in _JOINERS:
        return character
    # Cc: control. Cf: format, the bidirectional overrides among them. Zl, Zp: line breaks that few expect.
    if unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs"):
        return f"⟨U+{ord(character):04X}⟩"
    return character
