"""Formats by name. Other packages add theirs by an entry point of the group `saccade.formats`."""

from __future__ import annotations

from typing import Final

from saccade.record.registry import Registry, has_members
from saccade.sft.formats.base import Format


FORMATS: Final = Registry[Format](
    "formats",
    {
        "pyvision@1": "saccade.sft.formats.pyvision:FORMAT",
        "pyvision-rl@1": "saccade.sft.formats.pyvision_rl:FORMAT",
        "saccade@1": "saccade.sft.formats.run_format:FORMAT",
        "sharegpt@1": "saccade.sft.formats.sharegpt:FORMAT",
        "swift@1": "saccade.sft.formats.swift:FORMAT",
        "thyme@1": "saccade.sft.formats.thyme:CONVERTED",
        "thyme-base64@1": "saccade.sft.formats.thyme:RAW",
        "verl@1": "saccade.sft.formats.verl:FORMAT [data]",
    },
    has_members(name for name in vars(Format) if not name.startswith("_")),
)


def load_format(name: str) -> Format:
    """Load the format that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`).

    Raises:
        RegistryError: nothing has that name (suggests the nearest), or it is no format.
    """
    return FORMATS.load(name)
