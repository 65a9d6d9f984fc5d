"""The framing that both sides of the remote sandbox speak: a JSON header followed by raw blobs.

    magic (4 bytes) | header length (4 bytes, big endian) | header, JSON in UTF-8 | blob | blob | ...

The header is `{"fields": {...}, "blobs": [length, ...]}`. Nothing may follow the last blob. Whatever is wrong becomes a
`ProtocolError`. Text keeps lone surrogates (models do write them), which strict UTF-8 would refuse.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence

from saccade.errors import ProtocolError

MAGIC = b"SAC1"
PROTOCOL = 2
"""Version of the HTTP interface; a client refuses a server of another one."""
WORKING = 202
"""Status code of an answer that only says that the work continues: the same request comes again."""
MAX_BLOBS = 8192
MEDIA_TYPE = "application/x-saccade-frame"
_PREFIX = len(MAGIC) + 4
_HEX = re.compile(r"[0-9a-f]+\Z")

WireFields = Mapping[str, object]


def pack(fields: WireFields, blobs: Sequence[bytes] = ()) -> bytes:
    """Return one frame of JSON values and blobs. Raises `ProtocolError` for other values, or too many blobs."""
    if len(blobs) > MAX_BLOBS:
        raise ProtocolError(f"{len(blobs)} blobs in one message, at most {MAX_BLOBS} can be sent; send fewer files.")
    header = {"fields": dict(fields), "blobs": [len(blob) for blob in blobs]}
    try:
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"a message holds a value that JSON cannot carry: {error}.") from error
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) >= 1 << 32:
        raise ProtocolError(f"a message header of {len(raw)} bytes is over the limit of 4 GiB.")
    return b"".join((MAGIC, len(raw).to_bytes(4, "big"), raw, *blobs))


def unpack(data: bytes) -> tuple[WireFields, tuple[bytes, ...]]:
    """Return the fields and the blobs of one frame; raises `ProtocolError` unless every byte is accounted for."""
    if len(data) < _PREFIX or data[: len(MAGIC)] != MAGIC:
        raise ProtocolError("the message does not start as a Saccade frame; is the other side a Saccade server?")
    end = _PREFIX + int.from_bytes(data[len(MAGIC) : _PREFIX], "big")
    if end > len(data):
        raise ProtocolError(f"the message ends inside its header: {end} bytes announced, {len(data)} received.")
    header = parse_json(data[_PREFIX:end])
    if not isinstance(header, dict) or header.keys() != {"fields", "blobs"} or not isinstance(header["fields"], dict):
        raise ProtocolError("the message header is not an object of `fields` and `blobs`.")
    return header["fields"], _split(data, end, header["blobs"])


def parse_json(raw: bytes) -> object:
    """Return JSON that may hold lone surrogates; raises `ProtocolError` for anything that is not JSON."""
    try:
        value: object = json.loads(raw.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the message is not JSON: {error}.") from error
    return value


def _split(data: bytes, start: int, lengths: object) -> tuple[bytes, ...]:
    if not isinstance(lengths, list) or len(lengths) > MAX_BLOBS:
        raise ProtocolError(f"the message does not list its blobs, or lists more than {MAX_BLOBS}.")
    blobs = []
    for length in lengths:
        if type(length) is not int or length < 0 or length > len(data) - start:
            raise ProtocolError("a blob has an impossible length.")
        blobs.append(data[start : start + length])
        start += length
    if start != len(data):
        raise ProtocolError(f"{len(data) - start} bytes follow the last blob.")
    return tuple(blobs)


def keys(fields: object, allowed: frozenset[str]) -> WireFields:
    """Return `fields` as an object that holds exactly the `allowed` names."""
    if not isinstance(fields, dict):
        raise ProtocolError("an object was expected.")
    if fields.keys() != allowed:
        wrong = sorted(str(name) for name in fields.keys() ^ allowed)
        raise ProtocolError(f"unknown or missing fields: {', '.join(wrong)}.")
    return fields


def text(fields: WireFields, name: str) -> str:
    """Return the field as a string."""
    value = fields.get(name)
    if not isinstance(value, str):
        raise ProtocolError(f"`{name}` must be a string.")
    return value


def optional_text(fields: WireFields, name: str) -> str | None:
    """Return a string or null."""
    return None if fields.get(name) is None else text(fields, name)


def flag(fields: WireFields, name: str) -> bool:
    """Return the field as a boolean."""
    value = fields.get(name)
    if not isinstance(value, bool):
        raise ProtocolError(f"`{name}` must be true or false.")
    return value


def integer(fields: WireFields, name: str, *, low: int = 0, high: int = 1 << 62) -> int:
    """Return a whole number from `low` to `high`."""
    value = fields.get(name)
    if type(value) is not int or not low <= value <= high:
        raise ProtocolError(f"`{name}` must be a whole number from {low} to {high}.")
    return value


def number(fields: WireFields, name: str) -> float:
    """Return a finite number that is not negative."""
    value = fields.get(name)
    if type(value) not in (int, float) or not isinstance(value, int | float):
        raise ProtocolError(f"`{name}` must be a number.")
    if not 0 <= value <= sys.float_info.max:
        raise ProtocolError(f"`{name}` must be finite and not negative.")
    return float(value)


def optional_number(fields: WireFields, name: str) -> float | None:
    """Return a finite number that is not negative, or null."""
    return None if fields.get(name) is None else number(fields, name)


def items(fields: WireFields, name: str, *, most: int = MAX_BLOBS) -> list[object]:
    """Return a list of at most `most` values."""
    value = fields.get(name)
    if not isinstance(value, list) or len(value) > most:
        raise ProtocolError(f"`{name}` must be a list of at most {most} values.")
    return value


def texts(fields: WireFields, name: str, *, most: int = MAX_BLOBS) -> tuple[str, ...]:
    """Return a list of at most `most` strings."""
    values = items(fields, name, most=most)
    if not all(isinstance(value, str) for value in values):
        raise ProtocolError(f"`{name}` must hold strings only.")
    return tuple(str(value) for value in values)


def is_hex(value: object, digits: int) -> bool:
    """Return whether `value` is a string of exactly that many lower-case hexadecimal digits."""
    return isinstance(value, str) and len(value) == digits and _HEX.match(value) is not None
