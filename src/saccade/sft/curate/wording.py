"""Texts made comparable: the same words, whatever their case, punctuation and blanks."""

from __future__ import annotations

import re
import unicodedata

_PLACEHOLDER = re.compile(r"<image(?: \d+)?>|<IMAGE_PLACE_HOLDER_\d+>|<video>")
# A number with its decimals and its sign is one word; of other signs only those of arithmetic mean something.
_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+|[-+*/=<>%^]")


def normal_text(text: str) -> str:
    """The words, numbers and arithmetic signs of `text` in lower case, one blank between them; no placeholders."""
    plain = unicodedata.normalize("NFKC", _PLACEHOLDER.sub(" ", text)).casefold()
    return " ".join(_WORD.findall(plain))
