"""What can be wrong with the form of a turn, as a type: the schema errors (E1) of VISTA's taxonomy.

A fault tells what is wrong with tags and JSON. Whether a tool exists, and whether its arguments fit, is not looked at.
`find_tag_faults` only reads; which faults stop a turn is decided by each dialect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


class FaultKind(StrEnum):
    """Every way in which the form of a turn can be wrong."""

    UNCLOSED_TAG = "unclosed_tag"
    UNOPENED_TAG = "unopened_tag"
    NESTED_TAG = "nested_tag"
    CLOSED_BY_OPENING_TAG = "closed_by_opening_tag"
    """A block ends with `<tag>` where `</tag>` is meant."""
    TRUNCATED = "truncated"
    """The token limit came in the middle of an action."""
    NO_ACTION = "no_action"
    CALL_AND_ANSWER = "call_and_answer"
    """A tool call and an answer in one turn."""
    SEVERAL_CALLS = "several_calls"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    NO_TOOL_NAME = "no_tool_name"
    BAD_ARGUMENTS = "bad_arguments"
    """The arguments are no JSON object."""
    OTHER_SHAPE = "other_shape"
    """A call of a shape that is known, but not allowed here."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, and a sentence about it that the model may read."""

    kind: FaultKind
    reason: str
    error: ClassVar[str] = "E1"
    """Its class in VISTA's taxonomy of errors."""


def ends_inside(text: str, tags: Iterable[str]) -> str | None:
    """The tag of a block that `text` ends in, for a text that the token limit cut; None if it ends in none."""
    return next((tag for tag in tags if text.rfind(f"<{tag}>") > text.rfind(f"</{tag}>")), None)


def find_tag_faults(text: str, tags: Iterable[str]) -> tuple[Fault, ...]:
    """The faults in pairing and nesting of `<tag>`...`</tag>` for the named `tags`, in the order of the text."""
    faults: list[Fault] = []
    inside: str | None = None
    for match in re.finditer(rf"<(/?)({'|'.join(map(re.escape, tags))})>", text):
        closing, tag = match[1] == "/", match[2]
        if closing and tag == inside:
            inside = None
        elif closing:
            reason = f"</{tag}> closes a block that is not open."
            faults.append(Fault(FaultKind.UNOPENED_TAG, reason))
        elif inside is None:
            inside = tag
        elif tag == inside:
            reason = f"<{tag}> comes twice; a block that it opened is closed with </{tag}>."
            faults.append(Fault(FaultKind.CLOSED_BY_OPENING_TAG, reason))
            inside = None
        else:
            reason = f"<{tag}> lies inside <{inside}>; close </{inside}> first."
            faults.append(Fault(FaultKind.NESTED_TAG, reason))
    if inside is not None:
        faults.append(Fault(FaultKind.UNCLOSED_TAG, f"<{inside}> is never closed with </{inside}>."))
    return tuple(faults)
