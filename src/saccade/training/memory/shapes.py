"""The configuration of a checkpoint without its weights: of a folder, or of a checkpoint whose shape is known here."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from saccade.errors import SettingsError
from saccade.models.families.known import FAMILIES

_SHAPES = Path(__file__).with_name("shapes.toml")


def known_shapes() -> dict[str, dict[str, Any]]:
    """The shapes that are bundled, by the last part of the checkpoint's name."""
    return tomllib.loads(_SHAPES.read_text(encoding="utf-8"))


def read_config(source: str) -> Any:
    """The transformers configuration of the checkpoint `source`; nothing else of it is read.

    Raises:
        SettingsError: there is none, its shape is not known, or its family is not; says how to get it.
    """
    from transformers import AutoConfig

    if (Path(source) / "config.json").is_file():
        try:
            config = AutoConfig.from_pretrained(source, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise SettingsError(f"{source}/config.json cannot be read: {error}") from error
    else:
        shape = known_shapes().get(source.rstrip("/").rpartition("/")[2])
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
