"""Plain data as TOML text, and one value of a command line read as TOML. The standard library does not write TOML.

Holds what settings need: tables, arrays, texts, booleans and finite numbers. TOML has no null: a None in a table is
left out (so reading gives the default), a None in an array is an error.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from math import isfinite

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(data: Mapping[str, object]) -> str:
    """TOML text of `data`: first its plain values, then a `[table]` for each mapping in it.

    Raises:
        ValueError: a value has no form in TOML.
    """
    return "\n".join(_table(data, ())).lstrip("\n") + "\n"


def toml_value(text: str) -> object:
    """What `text` says as a value of TOML (`3`, `true`, `[1, 2]`, `"text"`); itself where it is none."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if parsed.keys() == {"value"} else text


def _table(data: Mapping[str, object], path: tuple[str, ...]) -> list[str]:
    plain = {key: value for key, value in data.items() if value is not None and not isinstance(value, Mapping)}
    tables = {key: value for key, value in data.items() if isinstance(value, Mapping)}
    lines = []
    if path and (plain or not tables):
        lines += ["", f"[{'.'.join(_key(step) for step in path)}]"]
    lines += [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in tables.items():
        lines += _table(value, (*path, key))
    return lines


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and isfinite(value):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)} = {_value(item)}" for key, item in value.items() if item is not None)
        return "{" + ", ".join(pairs) + "}"
    raise ValueError(f"{value!r} has no form in TOML")


def _text(text: str) -> str:
    # A JSON string is a TOML basic string but for two things: TOML wants DEL escaped and forbids surrogate pairs.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
