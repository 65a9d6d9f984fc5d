"""Drawing the next token of many rows at once, each with randomness of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def sample_tokens(
    logits: torch.Tensor, forbidden: torch.Tensor, temperatures: Sequence[float], uniforms: Sequence[float]
) -> tuple[list[int], list[float]]:
    """A token for each row, and its natural log-probability.

    That is under the softmax of logits / temperature over what may be sampled; a temperature of 0 is greedy, and then
    counts as 1. The token is where the sum of probabilities passes the uniform number: what a row draws depends on its
    own number and logits alone. An id that is forbidden has no probability and is never drawn.

    Args:
        logits: (rows, vocabulary).
        forbidden: bool (vocabulary,).
        temperatures: (rows,).
        uniforms: (rows,), from 0 to below 1.

    Raises:
        FloatingPointError: the logits are no numbers.
    """
    device = logits.device
    heat = torch.tensor([value or 1.0 for value in temperatures], device=device)[:, None]
    logprobs = torch.log_softmax(logits.float().masked_fill(forbidden, -torch.inf) / heat, dim=-1)
    sums = logprobs.double().exp().cumsum(-1)
    if bool(sums[:, -1].isnan().any()):  # one number that is none makes its whole row so
        raise FloatingPointError("the model's arithmetic overflowed; take float32, or a lower learning rate")
    # Rounding must not reach the sum itself: behind it lie ids without probability.
    thresholds = torch.tensor(uniforms, dtype=torch.float64, device=device) * sums[:, -1]
    thresholds = torch.minimum(thresholds, torch.nextafter(sums[:, -1], torch.zeros_like(thresholds)))
    drawn = torch.searchsorted(sums, thresholds[:, None], right=True)[:, 0]
    greedy = torch.tensor([not value for value in temperatures], device=device)
    tokens = torch.where(greedy, logprobs.argmax(-1), drawn)
    chosen = logprobs.gather(-1, tokens[:, None])[:, 0]
    return tokens.tolist(), chosen.tolist()
