"""Lists as a program would write them: JSON arrays and Python lists of texts and numbers. Nothing is evaluated."""

from __future__ import annotations

import json
import re

MOST_ITEMS = 200
_ITEM = re.compile(
    r"\s*(?:'(?P<single>(?:[^'\\\n]|\\.)*)'|\"(?P<double>(?:[^\"\\\n]|\\.)*)\"|(?P<number>-?[0-9]{1,60}(?:\.[0-9]{1,60})?))\s*(?:,|\Z)"
)
_ESCAPED = re.compile(r"\\(['\"\\])")


def literal_list(text: str) -> tuple[str | int | float, ...] | None:
    """The items of a JSON array or of a Python list or tuple; None if `text` is neither, or holds other things."""
    text = text.strip()
    array = _json_array(text)
    if array is not None:
        return array
    if text[:1] + text[-1:] not in ("[]", "()"):
        return None
    found: list[str | int | float] = []
    inside, position = text[1:-1].rstrip().removesuffix(","), 0
    while position < len(inside):
        item = _ITEM.match(inside, position)
        if item is None or len(found) == MOST_ITEMS:
            return None
        said = next(group for group in (item["single"], item["double"], item["number"]) if group is not None)
        found.append(_ESCAPED.sub(r"\1", said) if item["number"] is None else _number(said))
        position = item.end()
    quoted = any(isinstance(item, str) for item in found)
    return tuple(found) if found and (quoted or text[0] == "[") else None


def _json_array(text: str) -> tuple[str | int | float, ...] | None:
    if not text.startswith("["):
        return None
    try:
        array = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(array, list) or not 0 < len(array) <= MOST_ITEMS:
        return None
    plain = all(isinstance(item, str | int | float) and not isinstance(item, bool) for item in array)
    return tuple(array) if plain else None


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)
