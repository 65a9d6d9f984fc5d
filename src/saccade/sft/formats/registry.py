"""Formats by name. Other packages add theirs by an entry point of the group `saccade.formats`."""

from __future__ import annotations

from typing import cast

from saccade.record.registry import Registry
from saccade.sft.formats.base import Format

_HERE = "saccade.sft.formats"

FORMATS = Registry(
    "formats",
    {
        "saccade@1": f"{_HERE}.run_format:FORMAT",
        "sharegpt@1": f"{_HERE}.sharegpt:FORMAT",
        "swift@1": f"{_HERE}.swift:FORMAT",
        "thyme@1": f"{_HERE}.thyme:CONVERTED",
        "thyme-base64@1": f"{_HERE}.thyme:RAW",
        "verl@1": f"{_HERE}.verl:FORMAT",
    },
)


def load_format(wanted: str) -> Format:
    """The format that `wanted` names. Raises `RegistryError` if nothing has that name; suggests the nearest."""
    return cast(Format, FORMATS.load(wanted))
