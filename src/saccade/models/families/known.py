"""The one table of families, by `model_type`.

Checkpoints that bring their own code are not loaded: that code would run outside every sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from saccade.errors import ModelRefusedError
from saccade.models.families.base import ModelFamily
from saccade.models.families.gemma4 import GEMMA4
from saccade.models.families.glm_v import GLM4V, GLM4V_MOE, GLM46V
from saccade.models.families.internvl import INTERNVL
from saccade.models.families.qwen_vl import QWEN2_5_VL, QWEN3_5, QWEN3_5_MOE, QWEN3_VL, QWEN3_VL_MOE

FAMILIES: Final[Mapping[str, ModelFamily]] = {
    family.model_type: family
    for family in (
        QWEN2_5_VL,
        QWEN3_VL,
        QWEN3_VL_MOE,
        QWEN3_5,
        QWEN3_5_MOE,
        INTERNVL,
        GLM4V,
        GLM4V_MOE,
        GLM46V,
        GEMMA4,
    )
}
"""Those that run and train in this process."""
NOT_YET: Final[Mapping[str, str]] = {
    "gemma4_unified": "Its pictures go into the language model without a tower, and its processor needs torchvision.",
}
"""Families of pictures and text that transformers has and this package does not run -> why."""


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
        + " ".join(filter(None, (NOT_YET.get(model_type), advice)))
    )
