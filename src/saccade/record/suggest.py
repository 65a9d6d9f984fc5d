"""The nearest known names to a misspelt one, as the end of an error message."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`Did you mean 'x'?` with up to three near names, or the known names where few, or an empty text."""
    names = sorted(set(known))
    near = get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return "Did you mean " + " or ".join(repr(match) for match in near) + "?"
    if names and len(names) <= 16:
        return "Known: " + ", ".join(names) + "."
    return ""
