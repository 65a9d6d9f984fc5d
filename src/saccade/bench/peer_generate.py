"""The peer that everybody has: `generate` of transformers, at every turn on the whole context."""

from __future__ import annotations

import time
from typing import Any

import torch

from saccade.bench.rollout_work import RolloutScale, before
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.segments import TokenTrajectory
from saccade.training.weights import Trainable


@torch.inference_mode()  # type: ignore[untyped-decorator]
def generate_turns(
    tokens: list[TokenTrajectory], scale: RolloutScale, trained: Trainable, pictures: PictureTensors
) -> tuple[int, float]:
    """The turns of the same episodes, all rows of a turn together; tokens sampled, and seconds."""
    encoder, checkpoint = trained.encoder, trained.checkpoint
    forbidden = torch.nonzero(checkpoint.forbidden)[:, 0].tolist()
    began, count = time.perf_counter(), 0
    for turn in range(scale.turns):
        rows = [before(item, turn) for item in tokens]
        longest = max(len(row.ids()) for row in rows)
        ids = torch.full((len(rows), longest), encoder.pad_id)
        mask = torch.zeros_like(ids)
        for number, row in enumerate(rows):
            row_ids = torch.from_numpy(row.ids())
            ids[number, longest - len(row_ids) :] = row_ids
            mask[number, longest - len(row_ids) :] = 1
        shown = pictures([picture for row in rows for picture in row.pictures])
        given: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, **shown}
        given["mm_token_type_ids"] = (ids == encoder.placeholder_id).int()
        with trained.autocast():
            out = checkpoint.model.generate(
                **{name: value.to(checkpoint.device) for name, value in given.items()},
                max_new_tokens=scale.tokens,
                do_sample=True,
                top_k=0,
                suppress_tokens=forbidden,
                pad_token_id=encoder.pad_id,
            )
        count += int((out[:, longest:] != encoder.pad_id).sum())
    return count, time.perf_counter() - began
