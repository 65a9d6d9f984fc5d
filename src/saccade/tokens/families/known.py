"""The frames by `model_type`."""

from __future__ import annotations

from saccade.errors import TrainingError
from saccade.tokens.families.base import Frame
from saccade.tokens.families.internvl import InternVl
from saccade.tokens.families.qwen2_5_vl import Qwen25Vl
from saccade.tokens.families.qwen3_vl import Qwen3Vl

FRAMES: dict[str, Frame] = {frame.model_type: frame for frame in (Qwen25Vl(), Qwen3Vl(), InternVl())}


def frame_of(model_type: str, checkpoint: str) -> Frame:
    """The frame of that family.

    Raises:
        TrainingError: there is none.
    """
    if model_type not in FRAMES:
        raise TrainingError(
            f"{checkpoint} is of the family {model_type!r}, which cannot be trained here "
            f"(known: {', '.join(FRAMES)}). Take a checkpoint of one of these."
        )
    return FRAMES[model_type]
