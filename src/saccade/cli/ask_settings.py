"""The settings of `saccade ask`, resolved from a file, `--set` and its own options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from saccade.episode.asking import AskSettings
from saccade.errors import SettingsError
from saccade.record.settings import load_settings

NO_MODEL = (
    "no model is named. Use --model, as in --model openai:gpt-4.1 (key in OPENAI_API_KEY) or --model "
    "vllm:NAME@http://host:8000/v1; `saccade list models` has all."
)
"""What to say where no model is named."""


def resolve(file: Path | None, options: Sequence[str], **named: object) -> AskSettings:
    """The settings of a file, with `options` (`name=value`) over it and what is `named` and not None over both.

    Raises:
        SettingsError: names every mistake.
    """
    named_overrides = [f"{name}={value}" for name, value in named.items() if value is not None]
    overrides = [*options, *named_overrides]
    if file is None and not any(item.startswith("model=") for item in overrides):
        raise SettingsError(NO_MODEL)
    return load_settings(AskSettings, file, overrides)
