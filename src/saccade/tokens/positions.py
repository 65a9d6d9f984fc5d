"""Positions of tokens on the axes of time, height and width, as the model itself reckons them, video by video.

What stands behind a video begins behind its last moment, as when Qwen2.5-VL was released, and as vLLM has it.
`get_rope_index` of transformers 5 begins it behind the rows and columns alone: the same, but where a video lasts longer
than it is wide; there one position would stand for two tokens. Imports torch; import this module late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from saccade.tokens.segments import PromptPicture


class GridReader:
    """The grids of a forward pass, read picture by picture and video by video."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """`tensors` are those that `PictureTensors` gave for all sequences of the pass."""
        self._images = iter(tensors.get("image_grid_thw", ()))
        self._videos = iter(tensors.get("video_grid_thw", ()))

    def next(self, pictures: Sequence[PromptPicture]) -> dict[str, Any]:
        """What `get_rope_index` takes for the next `pictures`."""
        clips = [picture.clip for picture in pictures if picture.clip is not None]
        images = [next(self._images) for _ in range(len(pictures) - len(clips))]
        videos = [next(self._videos) for _ in clips]
        return {
            "image_grid_thw": torch.stack(images) if images else None,
            "video_grid_thw": torch.stack(videos) if videos else None,
            "second_per_grid_ts": [clip.interval for clip in clips] or None,
        }


def rope_positions(
    model: Any,
    ids: torch.Tensor,
    placeholders: Iterable[int],
    pictures: Sequence[PromptPicture],
    grids: GridReader,
) -> torch.Tensor:
    """int64 (3, tokens), from 0.

    Args:
        model: the inner transformers model, which has `get_rope_index`.
        ids: int64 (tokens,).
        placeholders: ids that stand for features.
        pictures: pictures and videos, in the order of their placeholders in `ids`.
        grids: at the first of these pictures and videos.
    """
    places = torch.isin(ids, torch.tensor(sorted(placeholders))).nonzero()[:, 0]
    counts = torch.tensor([picture.tokens for picture in pictures])
    kinds = torch.zeros(len(ids), dtype=torch.int32)
    kinds[places] = (
        torch.tensor([1 if picture.clip is None else 2 for picture in pictures]).int().repeat_interleave(counts)
    )
    ends = (places[counts.cumsum(0) - 1] + 1).tolist()
    parts: list[torch.Tensor] = []
    own: list[PromptPicture] = []
    start = follows = 0
    for picture, end in zip((*pictures, None), (*ends, len(ids)), strict=True):
        own += [] if picture is None else [picture]
        if start < end and (picture is None or picture.clip is not None):
            here = slice(start, end)
            rope, _ = model.get_rope_index(ids[None, here], mm_token_type_ids=kinds[None, here], **grids.next(own))
            parts.append(follows + rope[:, 0])
            start, follows, own = end, int(parts[-1].max()) + 1, []
    return torch.cat(parts, dim=1)
