"""On a CPU, many small attentions one after the other are slow: pictures and windows of one size go together.

The Qwen towers attend within each picture, or each window of it, in a loop over them. Forty thumbnails were forty calls
for each layer. Same weights, same sums; only their order may differ.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch

_ROTARY = "apply_rotary_pos_emb_vision"


def attend_together(model: Any) -> None:
    """Let the vision tower of `model`, if it is one of the Qwen towers, attend within equal windows at once."""
    tower = getattr(getattr(model, "model", None), "visual", None)
    for block in getattr(tower, "blocks", ()):
        attention = block.attn
        written = sys.modules[type(attention).__module__]
        if hasattr(attention, "qkv") and hasattr(written, _ROTARY):
            # A class of its own, not a function on the object: copies of the model must use their own weights.
            attention.__class__ = type("Together", (_Together, type(attention)), {"written": written})


class _Together:
    written: ModuleType
    """Where the class comes from that this one stands in for."""
    qkv: torch.nn.Linear
    proj: torch.nn.Linear
    num_heads: int
    scaling: float
    config: Any

    def forward(
        self,
        hidden_states: torch.Tensor,
        cu_seqlens: torch.Tensor,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        **kwargs: Any,
    ) -> torch.Tensor:
        """(patches, features) to the same; `cu_seqlens` are the windows' first patches, and the number of all."""
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, self.written.eager_attention_forward
        )
        windows, order = _by_length(cu_seqlens.tolist())
        cos, sin = position_embeddings
        if order is not None:
            hidden_states, cos, sin = (part.index_select(0, order) for part in (hidden_states, cos, sin))
        # 3 x (patches, heads, features of a head)
        query, key, value = self.qkv(hidden_states).unflatten(1, (3, self.num_heads, -1)).unbind(1)
        query, key = getattr(self.written, _ROTARY)(query, key, cos, sin)
        sizes = [length * number for length, number in windows]
        mixed = []
        for (length, _), *parts in zip(windows, *(part.split(sizes) for part in (query, key, value)), strict=True):
            # (windows, heads, patches of a window, features of a head)
            asked = [part.unflatten(0, (-1, length)).transpose(1, 2) for part in parts]
            output, _ = attend(self, *asked, attention_mask=None, scaling=self.scaling, dropout=0.0, is_causal=False)
            mixed.append(output.flatten(2).flatten(0, 1))
        together = mixed[0] if len(mixed) == 1 else torch.cat(mixed)
        return self.proj(together if order is None else together.index_select(0, order.argsort()))


def _by_length(bounds: list[int]) -> tuple[list[tuple[int, int]], torch.Tensor | None]:
    """Lengths of windows and how many have each, and the patches in that order; None if it is theirs already."""
    starts: dict[int, list[int]] = defaultdict(list)
    for start, end in pairwise(bounds):
        if end > start:
            starts[end - start].append(start)
    windows = [(length, len(found)) for length, found in starts.items()]
    if len(windows) == 1:
        return windows, None
    order = [torch.tensor(found)[:, None] + torch.arange(length) for length, found in starts.items()]
    return windows, torch.cat([places.flatten() for places in order])
