"""The one table of families, by `model_type`.

Checkpoints that bring their own code are not loaded: that code would run outside every sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from saccade.errors import ModelRefusedError
from saccade.models.families.base import ModelFamily
from saccade.models.families.internvl import INTERNVL
from saccade.models.families.qwen_vl import QWEN2_5_VL, QWEN3_VL

FAMILIES: Final[Mapping[str, ModelFamily]] = {family.model_type: family for family in (QWEN2_5_VL, QWEN3_VL, INTERNVL)}
"""Qwen2.5-VL, Qwen3-VL, and InternVL3 in its transformers form."""


def family_of(model_type: str, checkpoint: str) -> ModelFamily:
    """The family of that `model_type`.

    Raises:
        ModelRefusedError: it is not one of `FAMILIES`; says what to do instead.
    """
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    if not model_type:
        raise ModelRefusedError(
            f"the config.json of {checkpoint} names no model_type, so its family is not known. "
            "Give another checkpoint: its folder, or its name on the hub."
        )
    if model_type == "internvl_chat":
        advice = "Take the same checkpoint in its transformers form; its name ends in -hf."
    else:
        advice = "Serve it with vLLM or SGLang and name it vllm:NAME@http://HOST:8000/v1."
    raise ModelRefusedError(
        f"{checkpoint} is of the family {model_type!r}, which does not run in process (known: {', '.join(FAMILIES)}). "
        + advice
    )
