"""What each token sees in a pass that reads behind what is cached, in the form that each kind of model takes."""

from __future__ import annotations

from typing import Any

import torch

from saccade.models.families.base import ModelFamily


def layer_masks(
    full: torch.Tensor, starts: torch.Tensor, visual: torch.Tensor | None, family: ModelFamily, config: Any
) -> Any:
    """The argument `attention_mask` of a pass.

    Args:
        full: (rows, 1, queries, places), 0 where a query sees a place, the lowest number where not: plain causal.
        starts: int64 (rows,): the place of each row's first query.
        visual: bool (rows, queries): tokens of pictures; None where there are none.
        family: how its layers see.
        config: the checkpoint's.
    """
    if family.attention == "recurrent":
        return {"full_attention": full, "linear_attention": None}
    if family.attention == "full":
        return full
    text = config.get_text_config()
    places = torch.arange(full.shape[-1], device=full.device)
    at = starts[:, None] + torch.arange(full.shape[-2], device=full.device)
    seen = places <= at[..., None]
    if visual is not None and text.use_bidirectional_attention == "vision":
        seen |= _same_picture(visual, at, len(places))
    seen &= places > at[..., None] - text.sliding_window
    hidden = torch.finfo(full.dtype).min
    return {"full_attention": full, "sliding_attention": torch.zeros_like(full).masked_fill_(~seen[:, None], hidden)}


def _same_picture(visual: torch.Tensor, at: torch.Tensor, places: int) -> torch.Tensor:
    """bool (rows, queries, places): both within one run of visual tokens."""
    begins = visual & ~torch.nn.functional.pad(visual, (1, 0))[:, :-1]
    number = torch.where(visual, begins.cumsum(-1), 0)
    of_places = torch.zeros((len(visual), places + visual.shape[1]), dtype=number.dtype, device=number.device)
    of_places.scatter_(1, at, number)  # padding behind the longest row falls off the end
    return visual[..., None] & (number[..., None] == of_places[:, None, :places])
