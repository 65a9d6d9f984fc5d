"""Define the base of every record: frozen, no unknown fields, numbers finite, text that JSON can hold.

A record that can be built can be saved: everything that JSON could not give back exactly (NaN, infinity, a lone
surrogate) is refused when the record is built. Frozen means that fields cannot be set again; a mapping inside a record
is read-only by agreement only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, JsonValue, StringConstraints

SCHEMA_VERSION: Final = 1
"""Version of the stored form. It grows with every change that an older reader could not read: a new field too, for
every field is written and an unknown one is refused."""

SchemaVersion = Literal[1]
"""The field by which a record says its version."""


class Record(BaseModel):
    """Base of everything that is stored."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def clean_text(text: str) -> str:
    """Return `text` with every lone surrogate (which UTF-8 cannot hold) replaced by U+FFFD; all else as it is."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _storable_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"holds a lone surrogate at position {error.start}, which JSON cannot give back; pass it through clean_text"
        ) from None
    return text


def _storable_json(value: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    _check_texts(dict(value))
    return value


def _check_texts(value: JsonValue) -> None:
    if isinstance(value, str):
        _storable_text(value)
    elif isinstance(value, list):
        for item in value:
            _check_texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            _storable_text(key)
            _check_texts(item)


Text = Annotated[str, AfterValidator(_storable_text)]
"""Any text without lone surrogates."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_storable_text)]
"""A short text that is not empty."""

JsonObject = Annotated[Mapping[str, JsonValue], AfterValidator(_storable_json)]
"""A JSON object; texts without lone surrogates, and in a `Record` numbers are finite."""

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""Lower-case hexadecimal sha256 of the encoded bytes."""
