"""Which dialect a checkpoint learned, as a file beside its weights.

Every training of Saccade's writes it; a checkpoint of others has none, and its dialect has to be named.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from saccade.record.base import Record, Text

FILE: Final = "saccade.json"


class _Learned(Record):
    dialects: dict[Text, int]
    """Id of a dialect -> how much of the training data was in it."""


def write_learned(folder: Path, dialects: Mapping[str, int]) -> None:
    """Note in the folder of a checkpoint what it learned; nothing where that is not known."""
    if dialects:
        text = _Learned(dialects=dict(dialects)).model_dump_json(indent=1)
        (folder / FILE).write_text(text + "\n", encoding="utf-8")


def learned_dialect(folder: str | Path) -> str:
    """The dialect that the checkpoint in `folder` learned most of; empty if that is not known."""
    try:
        learned = _Learned.model_validate_json((Path(folder) / FILE).read_bytes()).dialects
    except (OSError, ValidationError):
        return ""
    return max(learned, key=lambda name: learned[name], default="")
