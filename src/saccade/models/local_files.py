"""Single files of a checkpoint, in a folder or on the hub. Imports transformers; import this module late."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from transformers.utils import cached_file


def text_of(source: str, name: str, where: Mapping[str, str]) -> str | None:
    """The text of the file `name` of a checkpoint, a folder or one of the hub; None if there is no such file."""
    path = cached_file(
        source,
        name,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
        _raise_exceptions_for_gated_repo=False,
        **where,
    )
    return None if path is None else Path(path).read_text(encoding="utf-8")
