"""What a model's text was understood to ask for. Exactly one action per turn; a text that says nothing is one too."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from saccade.record.base import JsonObject, Name, Record, Text


class Code(Record):
    """Run this Python code in the session."""

    kind: Literal["code"] = "code"
    code: Text
    """The code as the dialect cut it out, before any repair."""


class ToolCall(Record):
    """Call a typed tool with these arguments."""

    kind: Literal["tool_call"] = "tool_call"
    name: Name
    arguments: JsonObject
    call_id: Text | None = None
    """The identifier that a function-calling API gave to the call."""
    sealed: Text | None = None
    """What that API wants back with the call and nobody else can read: a signature, or reasoning that is encrypted."""


class Answer(Record):
    """End the episode with this answer."""

    kind: Literal["answer"] = "answer"
    text: Text


class ParseError(Record):
    """The text holds no action that the dialect knows. Not an exception: the model may read `reason`."""

    kind: Literal["parse_error"] = "parse_error"
    reason: Text


Action = Annotated[Code | ToolCall | Answer | ParseError, Field(discriminator="kind")]
"""What a turn asks for: code to run, a tool call, an answer, or nothing that the dialect knows."""
