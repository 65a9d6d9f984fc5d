"""Looking at held-out rows: their loss, and what the model writes greedily where a turn begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from saccade.generate.prompt import placed
from saccade.generate.scheduler import Scheduler, write_alone
from saccade.models.base import MediaReader, Request
from saccade.record.trajectory import Sampling
from saccade.sft.train.loss import token_loss
from saccade.tokens.batch import BatchRow, Collator, forward_passes
from saccade.training.parallel import Processes
from saccade.training.weights import Trainable


def held_out_loss(
    trained: Trainable, rows: Sequence[BatchRow], collate: Collator, most_tokens: int, processes: Processes
) -> dict[str, float]:
    """Mean loss and accuracy over the learned tokens of `rows`."""
    sums = [0.0, 0.0, 0.0]
    groups = forward_passes([len(row) for row in rows], most_tokens, packed=False)
    with evaluating(trained), torch.no_grad(), trained.autocast():
        for group in processes.share(groups):
            chosen = [rows[index] for index in group]
            batch = collate(chosen)
            mask = batch.lay_out([row.trained for row in chosen], False)
            loss = token_loss(trained.scorer, batch, mask)
            sums = [sums[0] + float(loss.total), sums[1] + loss.right, sums[2] + loss.tokens]
    total, right, tokens = processes.all_sum(sums)
    return {"validation_loss": total / tokens, "validation_accuracy": right / tokens}


def greedy_samples(
    trained: Trainable, rows: Sequence[BatchRow], media: MediaReader, most_tokens: int
) -> Iterator[dict[str, str]]:
    """For each row, what the model writes where its first learned turn begins, beside what was written there."""
    decode = trained.encoder.decode
    request = Request((), sampling=Sampling(max_tokens=most_tokens))
    with evaluating(trained):
        scheduler = Scheduler(trained, most_sequences=1)
        for row in rows:
            start = int(row.trained.argmax())
            stop = start + int(np.argmin(np.append(row.trained[start:], False)))
            # What is learned begins outside every picture.
            prompt = placed(row.ids[:start].tolist(), row.pictures, trained.encoder.placeholders)
            made = write_alone(scheduler, request, prompt, media)
            yield {"id": row.id, "wrote": decode(made.ids), "expected": decode(row.ids[start:stop].tolist())}


@contextmanager
def evaluating(trained: Trainable) -> Iterator[None]:
    """Without dropout and gradient checkpointing."""
    trained.model.eval()
    try:
        yield
    finally:
        trained.model.train()
