"""What `saccade ask` does where no model is named: the model that comes with Saccade, for questions that it knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from saccade.errors import SettingsError, UnavailableError
from saccade.models.tiny_weights import tiny_weights
from saccade.tasks.known_questions import known_kind

LEARNED: Mapping[str, str] = {
    "counting": "count circles or polygons of one kind",
    "line-crossings": "count the crossings of two coloured lines",
    "nested-squares": "count squares within squares",
    "rows-columns": "count the rows and columns of a table",
    "two-circles": "tell whether two circles touch or overlap",
    "chart": "read values, shares and differences off a drawn chart",
    "table": "reckon with the numbers of a printed table",
    "geometry": "find an angle, a length or an area in a marked drawing",
    "colour": "compare colours by their pixels",
    "word": "read a printed word that is turned, mirrored or in the dark",
    "dot": "find a coloured sign in a picture and name the colour of the dot on it",
}
"""The kinds of questions in which the shipped weights reached their targets (docs/tiny.md), by `known_kind`."""
_OF_CHOICES = frozenset({"dot"})
"""Kinds that the demonstrations asked with possible answers only."""


def tiny_by_default(question: str, choices: Sequence[str], otherwise: str) -> str:
    """Return the name of the tiny model, for a question that it can be asked.

    Args:
        question: the user's.
        choices: possible answers that the user named.
        otherwise: the message that no model is named, and how one is.

    Raises:
        SettingsError: this installation has no weights, the question is of no kind that they learned, or it is one of
            choices and has none; says what they can do, and how to name a model.
    """
    try:
        tiny_weights()
    except UnavailableError:
        raise SettingsError(otherwise) from None
    kind = known_kind(question)
    if kind in _OF_CHOICES and len(choices) < 2:
        raise SettingsError(
            f"{otherwise}\nWithout one, the model that comes with Saccade answers, but it learned this kind of "
            "question with possible answers only: name them, as in --choice red --choice blue --choice white."
        )
    if kind not in LEARNED:
        raise SettingsError(
            f"{otherwise}\nWithout one, the model that comes with Saccade answers, but this question is of none of the "
            f"kinds that it learned: it can {_list()}."
        )
    return "tiny"


def _list() -> str:
    *others, last = LEARNED.values()
    return f"{', '.join(others)} and {last}"
