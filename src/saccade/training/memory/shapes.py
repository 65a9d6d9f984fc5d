"""The configuration of a checkpoint without its weights: of a folder, or of a checkpoint whose shape is known here."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from saccade.errors import SettingsError
from saccade.models.families.known import FAMILIES
from saccade.models.local_settings import check_folder

_SHAPES = Path(__file__).with_name("shapes.toml")


def known_shapes() -> dict[str, dict[str, Any]]:
    """The shapes that are bundled, by the last part of the checkpoint's name."""
    return tomllib.loads(_SHAPES.read_text(encoding="utf-8"))


def family_of_checkpoint(source: str) -> str | None:
    """The family of the checkpoint `source`, read without transformers; None where its configuration is not here.

    Raises:
        ModelRefusedError: it can only be a folder, and there is none, or no checkpoint in it.
        SettingsError: its configuration cannot be read.
    """
    check_folder(source)
    file = Path(source) / "config.json"
    if not file.is_file():
        shape = _shape(source)
        return None if shape is None else str(shape["model_type"])
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["model_type"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise SettingsError(f"{file} says no family (model_type): {type(error).__name__}: {error}") from error


def read_config(source: str) -> Any:
    """The transformers configuration of the checkpoint `source`; nothing else of it is read.

    Raises:
        ModelRefusedError: it can only be a folder, and there is none, or no checkpoint in it.
        SettingsError: there is none, its shape is not known, or its family is not; says how to get it.
    """
    from transformers import AutoConfig

    if (Path(source) / "config.json").is_file():
        try:
            config = AutoConfig.from_pretrained(source, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise SettingsError(f"{source}/config.json cannot be read: {error}") from error
    else:
        check_folder(source)
        shape = _shape(source)
        if shape is None:
            raise SettingsError(
                f"the shape of {source} is not known, so no memory can be planned. Get its configuration alone (hf "
                f"download {source} config.json --local-dir FOLDER) and name that folder with --model; known by name: "
                f"{', '.join(known_shapes())}."
            )
        config = AutoConfig.for_model(**{name: value for name, value in shape.items() if name != "weights"})
    if config.model_type not in FAMILIES:
        raise SettingsError(f"{source} is of the family {config.model_type!r}; known: {', '.join(FAMILIES)}.")
    return config


def _shape(source: str) -> dict[str, Any] | None:
    return known_shapes().get(source.rstrip("/").rpartition("/")[2])
