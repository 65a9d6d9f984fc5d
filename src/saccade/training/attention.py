"""Attention over packed rows: trajectories end to end in one row, each of which sees only itself.

On a GPU in bfloat16 torch's flash attention takes all of them in one call; elsewhere they are attended to one after the
other. Neither makes a mask of all pairs of tokens. The windows of a vision tower are computed in the same way.
"""

from __future__ import annotations

import inspect
import logging
from functools import cache
from typing import Any

import torch
from torch import Tensor

_log = logging.getLogger(__name__)

PACKED = "saccade_flash"
"""Its name for transformers, which gives the windows of a picture in one call to what has `flash` in its name."""


def use_packed(config: Any) -> None:
    """Let the model of this configuration attend so, in every part."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(PACKED, attend)
    AttentionMaskInterface.register(PACKED, sdpa_mask)
    config._attn_implementation = PACKED  # `set_attn_implementation` looks for names with `flash` on the hub


def boundaries(lengths: list[int]) -> Tensor:
    """Return what stands for the mask of a packed row: int32 (1, 1, 1, trajectories + 1), on the CPU.

    transformers passes a tensor of four axes to each layer as it is, and integers tell it from a mask.
    """
    return torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32).view(1, 1, 1, -1)


def attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    cu_seq_lens_q: Tensor | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """Attend as transformers' functions do; plain `sdpa` where there are no boundaries.

    Args:
        module: the layer.
        query: (1, heads, tokens, size); `key` and `value` may have fewer heads.
        key: as `query`.
        value: as `query`.
        attention_mask: of `boundaries` (causal), a mask, or None.
        dropout: of the weights; above 0 there is no flash attention here.
        scaling: of the products.
        is_causal: where `attention_mask` is None; None for what the layer says.
        cu_seq_lens_q: boundaries of windows, which the vision tower gives; each sees all of itself.
        more: arguments of other functions.

    Returns:
        (1, tokens, heads, size), and None.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if attention_mask is not None and attention_mask.dtype == torch.int32:
        ends, attention_mask, is_causal = attention_mask.flatten(), None, True
    elif cu_seq_lens_q is not None:
        ends, is_causal = cu_seq_lens_q, False
    else:
        masked = sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, is_causal, **more)
        return masked[0], None
    why = _unfit(query, dropout)
    if not why:
        longest = ends.diff().max() if more.get("max_length_q") is None else more["max_length_q"]
        ends = ends.to(query.device, torch.int32, non_blocking=True)
        return _flash(query, key, value, ends, int(longest), scaling, is_causal), None
    _say(query.device.type, why)
    sizes = ends.diff().tolist()
    each = zip(*(tensor.split(sizes, dim=2) for tensor in (query, key, value)), strict=True)
    found = [sdpa_attention_forward(module, q, k, v, None, dropout, scaling, is_causal, **more)[0] for q, k, v in each]
    return torch.cat(found, dim=1), None


def _flash(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, longest: int, scaling: float | None, causal: bool
) -> Tensor:
    kernel: Any = _kernel()
    dtype, options = _arithmetic(query), {}
    if query.shape[1] != key.shape[1]:
        if "enable_gqa" in inspect.signature(kernel).parameters:
            options["enable_gqa"] = True
        else:
            key, value = (tensor.repeat_interleave(query.shape[1] // key.shape[1], dim=1) for tensor in (key, value))
    query, key, value = (tensor[0].transpose(0, 1).to(dtype) for tensor in (query, key, value))
    window = (-1, 0) if causal else (-1, -1)
    found: Tensor = kernel(
        query, key, value, ends, ends, longest, longest, scale=scaling, window_size=window, **options
    )
    return found[None]


def _arithmetic(tensor: Tensor) -> torch.dtype:
    """Return the precision of products: torch's flash attention is not among what autocast casts."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else tensor.dtype


def _unfit(query: Tensor, dropout: float) -> str:
    """Say why flash attention cannot be had; empty where it can."""
    if query.device.type != "cuda":
        return "flash attention needs a GPU"
    if _arithmetic(query) not in (torch.bfloat16, torch.float16):
        return "flash attention needs model.precision=bfloat16"
    if _kernel() is None:
        return f"torch {torch.__version__} has no attention over sequences of several lengths; 2.11 has"
    if torch.cuda.get_device_capability(query.device) < (8, 0):
        return "flash attention needs a GPU of compute capability 8.0"
    if query.shape[-1] % 8 or query.shape[-1] > 256:
        return f"flash attention takes no heads of size {query.shape[-1]}"
    return "flash attention takes no dropout" if dropout else ""


@cache
def _kernel() -> Any:
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    known = inspect.signature(varlen_attn).parameters
    return varlen_attn if {"scale", "window_size"} <= known.keys() else None


@cache
def _say(device: str, why: str) -> None:
    level = logging.INFO if device == "cpu" else logging.WARNING
    _log.log(level, "Packed trajectories are attended to one after the other: %s.", why)
