"""What a checkpoint's files say of its video processor, read without it: transformers' needs torchvision.

Imports transformers; import this module late.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from saccade.errors import ModelRefusedError
from saccade.models.families.base import ModelFamily
from saccade.models.families.video import VideoRules
from saccade.models.local_files import text_of

FILE: Final = "video_preprocessor_config.json"
_OF_ALL, _OF_IMAGES = "processor_config.json", "preprocessor_config.json"
RULE_FILES: Final = (_OF_ALL, FILE, _OF_IMAGES)
"""Where a checkpoint may say what its video processor does."""
_BICUBIC = 3


def load_video_rules(source: str, where: Mapping[str, str], family: ModelFamily) -> VideoRules | None:
    """Those of the checkpoint in the folder `source`, or of that name on the hub; None for a family without.

    Read as transformers does: `processor_config.json` where it holds them, else the file of the video processor, else
    that of the image processor. What none says is the family's.

    Raises:
        ModelRefusedError: frames would be scaled in another way than here.
    """
    if family.video is None:
        return None
    joint = _read(source, _OF_ALL, where) or {}
    stored = joint.get("video_processor") or _read(source, FILE, where)
    said = stored or _read(source, _OF_IMAGES, where) or {}
    return replace(video_rules(said, family.video.rules, source), stored=stored)


def video_rules(said: Mapping[str, Any], published: VideoRules, source: str) -> VideoRules:
    """`published`, but for what is `said` in a file of `source`. Raises `ModelRefusedError`."""
    if not said.get("do_resize", True) or said.get("resample", _BICUBIC) != _BICUBIC:
        raise ModelRefusedError(
            f"the video processor of {source} scales frames in a way that is not known here (only bicubic is). "
            "Serve it with vLLM and name it vllm:NAME@http://HOST:8000/v1."
        )
    size = said.get("size") or {}
    bounds = {
        "shortest_edge": said.get("min_pixels") or size.get("shortest_edge"),
        "longest_edge": said.get("max_pixels") or size.get("longest_edge"),
    }
    known = {field.name for field in fields(VideoRules)} - {"stored"}
    values = {name: value for name, value in {**said, **bounds}.items() if name in known and value is not None}
    values |= {name: tuple(values[name]) for name in ("image_mean", "image_std") if name in values}
    return replace(published, **values)


def write_video_rules(folder: Path, rules: VideoRules) -> None:
    """The file of the video processor as the checkpoint has it, into the `folder` of another one; none if it has none.

    Then the rules follow from the image processor's file there, as they did before.
    """
    if rules.stored is not None:
        (folder / FILE).write_text(json.dumps(dict(rules.stored), indent=2) + "\n", encoding="utf-8")


def _read(source: str, name: str, where: Mapping[str, str]) -> dict[str, Any] | None:
    text = text_of(source, name, where)
    return None if text is None else dict(json.loads(text))
