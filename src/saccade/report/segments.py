"""Cuts a model's text into thought, code, call and answer.

The action of the record decides what ran or answered; the text is only searched for its place. Tags and
fences of the wire are left out here; the page shows the exact text too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never

from markupsafe import Markup, escape
from pydantic import JsonValue

from saccade.record.content import Action, Answer, Code, ParseError, ToolCall
from saccade.record.trajectory import Turn
from saccade.report.words import cut_end, readable

if TYPE_CHECKING:
    from pygments.lexer import Lexer


Kind = Literal["thought", "code", "quoted", "call", "answer"]

_TAGS = re.compile(r"</?(?:think|code|answer|tool_call)>")
_FENCE = re.compile(r"[ \t]*```[ \t]*(?P<language>[\w+-]*)[ \t]*\r?")
_CLOSING = re.compile(r"[ \t]*\n?[ \t]*```[ \t]*(?=\n|\Z)")
_SHORT = 110
"""Characters of arguments that stand on one line."""


@dataclass(frozen=True, slots=True)
class TextSegment:
    """A piece of what the model wrote."""

    kind: Kind
    """`code` and `call` are what was asked for; `quoted` is code that was not run."""
    text: str
    title: str = ""
    """Name of the tool, for a call."""


def segments(turn: Turn) -> tuple[TextSegment, ...]:
    """Cut a turn into pieces: the text after its last hosted call, in reading order, none of them empty."""
    after = turn.text[turn.hosted[-1].at :] if turn.hosted else turn.text
    return tuple(
        segment
        for segment in _segments(after, turn.action)
        if segment.text.strip() or segment.kind in ("call", "answer")
    )


def prose(text: str) -> tuple[TextSegment, ...]:
    """Cut a text that holds no action into pieces, none of them empty."""
    return tuple(segment for segment in _prose(text) if segment.text.strip())


def _segments(written: str, action: Action) -> Iterator[TextSegment]:
    match action:
        case Code(code=code):
            yield from _around(written, code)
        case ToolCall(name=name, arguments=arguments):
            yield from _prose(_without(written, "<tool_call>", "</tool_call>"))
            yield TextSegment("call", _arguments(arguments), name)
        case Answer(text=text):
            before = _without(written, "<answer>", "</answer>")
            if before.strip() != text.strip():
                yield from _prose(before)
            yield TextSegment("answer", text)
        case ParseError():
            yield from _prose(written)
        case _:
            assert_never(action)


def _around(text: str, code: str) -> Iterator[TextSegment]:
    """Yield the code at its last place in the text, and the thoughts before and after it."""
    # The search from the left is linear in every case, the one from the right is not.
    behind = text[::-1].find(code[::-1]) if code else -1
    if behind < 0:  # the dialect read it from JSON, or changed its indent
        yield from _prose(_without(_without(text, "<tool_call>", "</tool_call>"), "```", "```"))
        yield TextSegment("code", code)
        return
    start = len(text) - behind - len(code)
    before = _TAGS.sub("", text[:start]).rstrip()
    head, _, last = before.rpartition("\n")
    yield from _prose(head if _FENCE.fullmatch(last) else before)
    yield TextSegment("code", code)
    after = _TAGS.sub("", text[start + len(code) :])
    closing = _CLOSING.match(after)
    yield from _prose(after[closing.end() :] if closing else after)


def _without(text: str, opening: str, closing: str) -> str:
    """Return `text` without what stands between the marks; a block that is not closed runs to the end."""
    kept = []
    start = 0
    while (at := text.find(opening, start)) >= 0:
        kept.append(text[start:at])
        end = text.find(closing, at + len(opening))
        if end < 0:
            return "".join(kept)
        start = end + len(closing)
    return "".join([*kept, text[start:]])


def _prose(text: str) -> Iterator[TextSegment]:
    """Thoughts, and the code that they quote between fences."""
    lines: list[str] = []
    inside = False
    for line in _TAGS.sub("", text).split("\n"):
        mark = _FENCE.fullmatch(line)
        if mark is None or (inside and mark["language"]):
            lines.append(line)
            continue
        yield _piece(lines, inside)
        lines, inside = [], not inside
    yield _piece(lines, inside)


def _piece(lines: list[str], quoted: bool) -> TextSegment:
    text = "\n".join(lines)
    return TextSegment("quoted", text) if quoted else TextSegment("thought", text.strip())


def _arguments(arguments: Mapping[str, JsonValue]) -> str:
    """Write JSON, on one line where it is short."""
    line = json.dumps(dict(arguments), ensure_ascii=False)
    return line if len(line) <= _SHORT else json.dumps(dict(arguments), ensure_ascii=False, indent=2)


# Python code and JSON as HTML with classes for colours; everything that is not a class of ours is escaped.

LONGEST: Final = 60_000
"""Characters of one piece that get colours."""


def highlighted(code: str, language: str = "python") -> Markup:
    """Return `code` with spans around its tokens. `language` is `python`, `bash` or `json`."""
    from pygments import highlight

    text = readable(cut_end(code)).strip("\n")
    if len(text) > LONGEST:
        return escape(text)
    return Markup(highlight(text, _lexer(language), _formatter()).rstrip("\n"))  # Pygments escapes


@cache
def _lexer(language: str) -> Lexer:
    from pygments.lexers.data import JsonLexer
    from pygments.lexers.python import PythonLexer
    from pygments.lexers.shell import BashLexer

    kinds: dict[str, type[Lexer]] = {"json": JsonLexer, "bash": BashLexer}
    return kinds.get(language, PythonLexer)(stripnl=False)


@cache
def _formatter() -> Any:
    from pygments.formatters.html import HtmlFormatter

    return HtmlFormatter(nowrap=True)


def indented(value: JsonValue) -> str:
    """Write JSON, or a text that may hold JSON, with indents."""
    try:
        data = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return str(value)  # the events of a stream, or a page of some proxy
    return json.dumps(data, ensure_ascii=False, indent=2)
