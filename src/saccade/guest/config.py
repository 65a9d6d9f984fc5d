"""The settings of one guest session, as the host sends them. Data only; the host has checked the values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class GuestConfig:
    """What the code that runs a cell must know; sizes in bytes, areas in pixels."""

    output_bytes: int = MIB
    """Most bytes kept of stdout, and again of stderr."""
    pictures: int = 16
    """Most pictures of one call."""
    picture_pixels: int = 12_800_000
    """Most pixels of one picture; a larger one is scaled down."""
    total_pixels: int = 64_000_000
    """Most pixels of all pictures of one call together."""
    file_bytes: int = 64 * MIB
    """Largest file of the workspace."""
    workspace_bytes: int = 128 * MIB
    """Most bytes of all files of the workspace together."""
    workspace_files: int = 2048
    """Most files and folders in the workspace."""
    repairs: tuple[str, ...] = ()
    """Names of the repair passes that are on, see `guest.repairs`."""
    path_aliases: dict[str, str] = field(default_factory=dict)
    """Path or prefix that the program may write -> the path that is meant."""
    preload: tuple[str, ...] = ()
    """Names that are bound from the start, see `guest.preload`."""
    last_expression: bool = True
    """Whether the value of a last expression is reported."""
    workspace: str = "/workspace"
    """Absolute path of the workspace as the program sees it; may be a symlink."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GuestConfig:
        """Return the settings in a decoded JSON object.

        Missing ones get their default, unknown ones raise ValueError.
        """
        unknown = sorted(set(data) - {item.name for item in fields(cls)})
        if unknown:
            raise ValueError(f"unknown guest settings {unknown}")
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        return cls(**values)
