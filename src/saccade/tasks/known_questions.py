"""Which kind of question a wording asks, among the kinds that the generated worlds have.

By the wording alone, so a question may be of a known kind and its picture of none. A question that might be of several
kinds, or asks for more than its kind has, is of none: better to say so than to guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from saccade.tasks.solvers.questions import solver_for

_KINDS: Mapping[str, re.Pattern[str]] = {
    "sign": re.compile(r"\bletter\b.*\bsign\b|\bsign\b.*\bletter\b"),
    "dot": re.compile(r"\bdot\b.*\bsign\b|\bsign\b.*\bdot\b"),
    "chart": re.compile(
        r"\bvalues? (of|for|above|largest|smallest)\b|\b(largest|smallest) value\b|\b[xy] value\b|\bcategor(y|ies)\b|"
        r"\bpercentage of the whole\b|\bshares?\b.*\b(largest|smallest|larger)\b|\bpoints\b.*\bin the chart\b"
    ),
    "table": re.compile(
        r"\btogether in the table\b|\baccording to the table, how many more\b|\b(mean|range|median) of the numbers\b|"
        r"\brate of change\b|\brows of the table have at least\b|\bhas the (most|fewest)\b|\bfraction of all\b|"
        r"\bof the table is picked at random\b|\bcost together, in dollars\b"
    ),
    "geometry": re.compile(r"\bmarked x\b|\bis x\b|\bfind x\b|\b(area|perimeter) of the\b|\bwhat is its area\b"),
    "word": re.compile(r"\bwords?\b.*\b(dark|turned|mirrored|written)\b|\b(dark|turned|mirrored)\b.*\bword\b"),
    "colour": re.compile(r"\bcolour covers\b|\bframed (patch|patches|squares?)\b|\bpercentage of the picture\b"),
}


def known_kind(question: str) -> str | None:
    """The kind of a question: a family of `tasks.solvers`, or one of `_KINDS`; None for all others."""
    solver = solver_for(question)
    if solver is not None:
        return solver.family
    words = " ".join(question.lower().replace("color", "colour").split())
    kinds = [kind for kind, pattern in _KINDS.items() if pattern.search(words)]
    return kinds[0] if len(kinds) == 1 else None
