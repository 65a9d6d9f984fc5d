"""The settings file of a server: one TOML table for each part of it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from saccade.errors import SettingsError

if TYPE_CHECKING:
    from pydantic import BaseModel

M = TypeVar("M", bound="BaseModel")


def read_tables(file: Path | None) -> dict[str, object]:
    """The tables of a TOML file; none without a file. Raises `SettingsError` if it cannot be read."""
    if file is None:
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"the settings file cannot be read: {error}") from error


def check_tables(file: Path | None, tables: Mapping[str, object], *known: str) -> None:
    """Raises `SettingsError` if there are others than the tables `known`, or one is no table."""
    unknown = tables.keys() - set(known)
    if unknown or not all(isinstance(table, dict) for table in tables.values()):
        listed = " and ".join(f"[{name}]" for name in known)
        raise SettingsError(f"{file} may hold the tables {listed} only, not {sorted(unknown) or 'plain values'}.")


def of_table(kind: type[M], table: object, given: Mapping[str, object] | None = None) -> M:
    """A table as settings, with what is given (and not None) on the command line on top.

    Raises:
        SettingsError: it names something that does not exist, or a value is wrong.
    """
    from pydantic import ValidationError

    named = {name: value for name, value in (given or {}).items() if value is not None}
    own = dict(table) if isinstance(table, dict) else {}
    try:
        return kind.model_validate({**own, **named})
    except ValidationError as error:
        raise SettingsError(f"the settings cannot be used: {error}") from error
