"""Replies of a model, read by the form that was asked for.

A reply that is not of its form is no result: it raises `ReplyError`, whose text the model is told when it is asked once
more. What stands in a code fence counts alone.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic import Field

from saccade.tools.arguments import ToolModel
from saccade.tools.weighted.chart_tables import ChartTable
from saccade.vlm_tools.prompts import AnswerForm

_FENCE: Final = re.compile(r"```[\w-]*\n(.*?)```", re.DOTALL)
_RULE: Final = re.compile(r":?-{2,}:?")
_STATEMENT: Final = re.compile(r"[A-Z][A-Za-z]+\(.+\)")
_ANSWER: Final = re.compile(r"(?:^|\n)\W{0,3}(?:final )?answer\W{0,3}:(.+)$", re.IGNORECASE)


class ReplyError(ValueError):
    """A reply that is not of the form asked for; its text says what is missing, for the model."""


class ReadReply(ToolModel):
    """A reply taken apart; only the part of its form is filled."""

    table: ChartTable | None = None
    statements: tuple[str, ...] = Field(default=())
    answer: str = ""


def read_reply(text: str, form: AnswerForm) -> ReadReply:
    """What a reply says.

    Raises:
        ReplyError: it is not of that form, or empty.
    """
    inner = _FENCE.search(text)
    body = (inner[1] if inner else text).strip()
    if not body:
        raise ReplyError("the reply is empty")
    if form == "table":
        return ReadReply(table=_table(body))
    if form == "statements":
        return ReadReply(statements=_statements(body))
    return ReadReply(answer=_answer(text)) if form == "answer" else ReadReply()


def _table(body: str) -> ChartTable:
    rows = [
        tuple(cell.strip() for cell in line.strip().strip("|").split("|")) for line in body.splitlines() if "|" in line
    ]
    kept = [row for row in rows if not all(_RULE.fullmatch(cell) for cell in row)]
    if len(kept) < 2:
        raise ReplyError("there is no Markdown table with a header and a row")
    if uneven := next((row for row in kept if len(row) != len(kept[0])), None):
        raise ReplyError(f"the row {' | '.join(uneven)!r} has {len(uneven)} cells, the header has {len(kept[0])}")
    return ChartTable(title="", header=kept[0], rows=tuple(kept[1:]))


def _statements(body: str) -> tuple[str, ...]:
    lines = [line.strip().lstrip("-*0123456789. ").rstrip(".;,") for line in body.splitlines()]
    kept = [line for line in lines if line]
    for line in kept:
        if not _STATEMENT.fullmatch(line) or line.count("(") != line.count(")"):
            raise ReplyError(f"{line[:80]!r} is no statement like Equal(LengthOfLine(AB),5)")
    return tuple(kept)


def _answer(text: str) -> str:
    match = _ANSWER.search(text.strip())
    answer = match[1].strip(" *_$`.") if match else ""
    if not answer:
        raise ReplyError("there is no last line `Answer: ...`")
    return answer
