"""Repair `code_fence`: Markdown fences left around the code."""

from __future__ import annotations

import re

from .base import Log, RepairPass, compiles

_OPENING = re.compile(r"\s*(```+|~~~+)\s*[\w.+-]*\s*")
_CLOSING = re.compile(r"\s*(```+|~~~+)\s*")


def strip_fences(code: str, log: Log) -> str:
    """Empty the first and the last line if they are fences and the code does not compile as it is."""
    lines = code.split("\n")
    filled = [index for index, line in enumerate(lines) if line.strip()]
    if not filled or compiles(code):
        return code
    has_fence = False
    if _OPENING.fullmatch(lines[filled[0]]):
        lines[filled[0]] = ""
        has_fence = True
    if _CLOSING.fullmatch(lines[filled[-1]]):
        lines[filled[-1]] = ""
        has_fence = True
    if has_fence:
        log("Markdown fences around the code were removed")
    return "\n".join(lines)


PASS = RepairPass(
    "code_fence",
    "Removes Markdown fences around code that does not compile with them.",
    text=strip_fences,
)
