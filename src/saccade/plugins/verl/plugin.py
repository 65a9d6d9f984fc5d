"""Register Saccade's advantages and loss in each process of verl (entry point `verl.plugins`), and mend two faults.

verl 0.9.1 loads entry points while it is being imported itself, so only its core is imported here.
"""

from __future__ import annotations

import os
import sys
from functools import wraps
from typing import Any

import torch
from verl.trainer.ppo.core_algos import get_policy_loss_fn, register_adv_est, register_policy_loss
from verl.utils import tensordict_utils

from saccade.errors import TrainingError
from saccade.plugins.verl.mapping import PART

# Two faults of verl 0.9.1 that end a run of a model with pictures, mended without changing a file of it.
#
# All that touches names of verl that are not meant for others is here; both were read in version 0.9.1.
#
# * **Rows of one length** (`verl/utils/tensordict_utils.py`). A row's positions are (4, tokens) under M-RoPE. verl
#   joins rows along tokens and notes so (`_ragged_idx`); `maybe_fix_3d_position_ids` notes it again where the note was
#   lost. Rows of one length, as those that fill a step up are, arrive joined along the first axis instead, because
#   nothing in their shapes tells the axes apart; with that note they cannot be taken apart any more.
# * **Forward passes without a picture** (`verl/models/transformers/qwen2_vl.py`, Qwen2.5-VL). verl shows the tower an
#   empty picture, and takes its output for a tensor, which it is not from transformers 5 on.

_QWEN = "verl.models.transformers.qwen2_vl"


def install() -> None:
    """Change modules of verl that are imported later."""
    tensordict_utils.maybe_fix_3d_position_ids = prepared_batch


def prepared_batch(data: Any) -> None:
    """Act in place of `maybe_fix_3d_position_ids`, which verl calls before each forward pass."""
    positions_along_tokens(data)
    module: Any = sys.modules.get(_QWEN)
    if module is not None and not hasattr(module._get_input_embeds, "__wrapped__"):
        module._get_input_embeds = _without_pictures(module)


def positions_along_tokens(data: Any) -> None:
    """Let the positions of `data`, where there are 3D ones, be joined along tokens."""
    positions = data["position_ids"] if "position_ids" in data.keys() else None  # noqa: SIM118  # a TensorDict
    if not isinstance(positions, torch.Tensor) or not positions.is_nested or positions.dim() != 3:
        return
    values, offsets = positions.values(), positions.offsets()
    if int(offsets[-1]) == values.shape[-1]:
        positions._ragged_idx = 2
        return
    rows = values.reshape(len(offsets) - 1, -1, values.shape[-1])
    data["position_ids"] = tensordict_utils.nested_tensor_from_tensor_list(list(rows), ragged_idx=2)


def _without_pictures(module: Any) -> Any:
    embeds = module._get_input_embeds

    @wraps(embeds)
    def get_input_embeds(
        model: Any,
        input_ids: Any,
        attention_mask: Any = None,
        pixel_values: Any = None,
        pixel_values_videos: Any = None,
        *grids: Any,
    ) -> Any:
        if pixel_values is None and pixel_values_videos is None:
            model = _TensorTower(model, module.unpack_visual_output)
        return embeds(model, input_ids, attention_mask, pixel_values, pixel_values_videos, *grids)

    return get_input_embeds


class _TensorTower:
    """A model whose tower gives features only."""

    def __init__(self, model: Any, unpack: Any) -> None:
        self._model = model
        self._unpack = unpack

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def visual(self, *given: Any, **named: Any) -> Any:
        return self._unpack(self._model.visual(*given, **named))[0]


MOST_DIFFERENCE = "SACCADE_VERL_MAX_LOGPROB_DIFF"
"""Variable with the largest difference of a log-probability between sampling and training, in nats; unset: any."""

install()


@register_adv_est(PART)  # type: ignore[untyped-decorator]
def advantages(token_level_rewards: torch.Tensor, response_mask: torch.Tensor, **more: Any) -> tuple[Any, Any]:
    """Return those that the recipe's rule gave, (rollouts, tokens), which the sampler wrote in place of rewards."""
    given = token_level_rewards * response_mask
    return given, given


@register_policy_loss(PART)  # type: ignore[untyped-decorator]
def loss(
    old_log_prob: torch.Tensor,
    log_prob: torch.Tensor,
    advantages: torch.Tensor,
    response_mask: torch.Tensor,
    **more: Any,
) -> tuple[torch.Tensor, dict[str, Any]]:
    """Return verl's own clipped loss; tensors are (rollouts, tokens).

    Raises `TrainingError`: a log-probability differs too much from that of the sampling.
    """
    with torch.no_grad():
        gap = float(((log_prob - old_log_prob).abs() * response_mask).max())
    if (most := os.environ.get(MOST_DIFFERENCE)) and gap > float(most):
        raise TrainingError(
            f"a token's log-probability differs by {gap:.2g} between sampling and training, and at most "
            f"{float(most):.2g} is allowed (max_logprob_diff): the policy that learns would not be the one that "
            "sampled. Nothing was updated."
        )
    value, metrics = get_policy_loss_fn("vanilla")(
        old_log_prob=old_log_prob, log_prob=log_prob, advantages=advantages, response_mask=response_mask, **more
    )
    return value, {**metrics, "actor/logprob_gap": gap}
