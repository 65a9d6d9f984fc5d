"""Markup around an answer: markdown, quotes, formula signs and text commands of LaTeX, a full stop at the end.

Only what surrounds or spaces an answer is taken away; the rest of a formula is left for `latex`.
"""

from __future__ import annotations

import re
from typing import Final

_TEXT_COMMAND = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|operatorname)\s?\{([^{}\\]*)\}")
_BOLD = re.compile(r"(?<![\w*])\*\*(?=[^\s*])([^*]{1,200})(?<=\S)\*\*(?![\w*])")  # never the power `9**9**9`
_TIE = re.compile(r"(?<!\\)\\ ")
_INNER_SIGNS = re.compile(r"(?<!\\)\\[()\[\]]")
_FENCE = re.compile(r"(?P<tick>`{1,3}|\'\'\')(?:[a-z]{0,12}\n)?(?P<inside>[^`]*)(?P=tick)")
_LOOSE = re.compile(r"(?<![0-9A-Za-z])\s+|\s+(?![0-9A-Za-z])")
_PAIRS: Final = (
    ("***", "***"),
    ("**", "**"),
    ("__", "__"),
    ("*", "*"),
    ("$$", "$$"),
    ("$", "$"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ('"', '"'),
    ("'", "'"),
)
_SPACING: Final = (
    ("{,}", ","),
    ("\\!", ""),
    ("\\,", " "),
    ("\\;", " "),
    ("\\:", " "),
    ("\\quad", " "),
    ("\\%", "%"),
    ("\\$", "$"),
    ("^{\\circ}", "°"),
    ("^\\circ", "°"),
    ("\\circ", "°"),
    ("\\degree", "°"),
    ("\\left", ""),
    ("\\right", ""),
    ("\\dfrac", "\\frac"),
    ("\\tfrac", "\\frac"),
)


def unwrapped(text: str) -> str:
    """`text` without the markup around it."""
    for old, new in _SPACING:
        text = text.replace(old, new)
    text = _TIE.sub(" ", text)
    text = _BOLD.sub(r"\1", _TEXT_COMMAND.sub(_plain_text, text)).strip()
    text = _fenced(_INNER_SIGNS.sub("", text)).strip()
    while (bare := _without_pair(_without_stop(text)).strip()) != text:
        text = bare
    return text


def _plain_text(match: re.Match[str]) -> str:
    """The inside of a text command; its tie signs are spaces, and it never grows onto a command before it."""
    apart = match.start() > 0 and match.string[match.start() - 1].isalpha()
    return (" " if apart else "") + match[1].replace("~", " ")


def _fenced(text: str) -> str:
    """The inside of a text that is fenced as code."""
    fence = _FENCE.fullmatch(text)
    return fence["inside"] if fence else text


def tight(text: str) -> str:
    """`text` without the spaces that mean nothing in a formula; those between two digits or letters stay."""
    return _LOOSE.sub("", text.strip())


def _without_stop(text: str) -> str:
    """Without the full stop that ends a sentence; that of `P.M.` or `…` stays."""
    head = text.rstrip("*_ ")
    if head.endswith(".") and not head.endswith("..") and not re.search(r"(?:^|[\s.])[A-Za-z]\.[A-Za-z]\.$", head):
        return head[:-1] + text[len(head) :]
    return text


def _without_pair(text: str) -> str:
    for opening, closing in _PAIRS:
        inner = text[len(opening) : len(text) - len(closing)]
        wrapped = len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing)
        if wrapped and opening not in inner and closing not in inner:
            return inner
    return text.removeprefix("**").removesuffix("**") if text.count("**") == 1 else text
