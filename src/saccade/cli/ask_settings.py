"""Options of commands that ask a model, as the settings that they give."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from saccade.errors import SettingsError

NO_MODEL = (
    "no model is named. Use --model, as in --model openai:gpt-4.1 (key in OPENAI_API_KEY) or --model "
    "vllm:NAME@http://host:8000/v1; `saccade list models` has all."
)
"""What to say where no model is named."""


def named(**options: object) -> dict[str, object]:
    """Return the options that a command was given, as settings; a path as its text."""
    return {
        name: os.fspath(value) if isinstance(value, Path) else value
        for name, value in options.items()
        if value is not None and value != [] and value is not False
    }


def check_model(file: Path | None, given: Mapping[str, object], options: Sequence[str] | None) -> None:
    """Raise `SettingsError` where neither a file nor an option could name a model."""
    if file is None and "model" not in given and not any(item.startswith("model=") for item in options or ()):
        raise SettingsError(NO_MODEL)
