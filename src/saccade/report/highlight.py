"""Python code and JSON as HTML with classes for colours; everything that is not a class of ours is escaped."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

from saccade.report.plain_text import cut_end, readable

if TYPE_CHECKING:
    from pygments.lexer import Lexer

LONGEST: Final = 60_000
"""Characters of one piece that get colours."""


def highlighted(code: str, language: str = "python") -> Markup:
    """`code` with spans around its tokens. `language` is `python`, `bash` or `json`."""
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
