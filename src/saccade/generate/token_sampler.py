"""Drawing the next token: of one answer as its sampling settings say, or of many rollouts at once.

There are two ways, since they promise different things, and since the same seed must keep giving the same tokens.
`TokenSampler` is one answer's: it knows `top_k` and `top_p`, and draws by a generator of torch that is seeded once, so
the draw of a token depends on how many came before. `sample_tokens` is for a batch of rollouts, which are drawn from
the whole distribution: each row brings its own uniform number, so what a row draws does not depend on the rows beside
it, nor on when it joins or leaves the batch. No rule turns the draws of one into those of the other.
Both leave out the same ids, and give log-probabilities under the same distribution.

Draws come from generators of their own, so a seed is not disturbed by what else runs in the process; the checkpoint's
own sampling defaults are not used.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from saccade.errors import ModelRefusedError
from saccade.record.trajectory import Sampling

_COLDEST = torch.finfo(torch.float32).tiny
"""A lower temperature than this is 0 to float32, by which nothing can be divided."""


class TokenSampler:
    """Picks the next token. No temperature, or 0, is greedy; None and 0 turn `top_k` off, None and 1 `top_p`."""

    def __init__(self, sampling: Sampling, forbidden: torch.Tensor) -> None:
        self._greedy = not sampling.temperature
        self._temperature = max(sampling.temperature or 1.0, _COLDEST)
        self._top_k = sampling.top_k or 0
        self._top_p = 1.0 if sampling.top_p is None else sampling.top_p
        self._forbidden = forbidden
        self._random = torch.Generator(device=forbidden.device)
        if sampling.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(sampling.seed % 2**64)

    def __call__(self, logits: torch.Tensor) -> tuple[int, float]:
        """A token and its natural log-probability.

        That is under the softmax of `logits / temperature` (1 if greedy) over the tokens that may be sampled, before
        `top_k` and `top_p` cut it: what a trainer can compute again, and with both off the distribution drawn from.

        Args:
            logits: (vocabulary,), on the device of the checkpoint.

        Raises:
            ModelRefusedError: they are no numbers.
        """
        values = logits.float().masked_fill(self._forbidden, -torch.inf)
        best = values.max()
        if not torch.isfinite(best):
            raise ModelRefusedError(
                "the model's arithmetic overflowed. Load it in bfloat16 or float32 (LocalSettings.dtype)."
            )
        logprobs = torch.log_softmax((values - best) / self._temperature, dim=-1)
        token = int(logprobs.argmax()) if self._greedy else self._drawn(logprobs)
        return token, float(logprobs[token])

    def _drawn(self, logprobs: torch.Tensor) -> int:
        kept = logprobs
        if 0 < self._top_k < len(kept):
            kept = kept.masked_fill(kept < kept.topk(self._top_k).values[-1], -torch.inf)
        if self._top_p < 1.0:
            probs, order = kept.softmax(-1).sort(descending=True, stable=True)
            beyond = order[probs.cumsum(-1) - probs >= self._top_p]  # the token that reaches top_p stays
            beyond = beyond[beyond != order[0]]
            kept = kept.index_fill(0, beyond, -torch.inf)
        return int(torch.multinomial(kept.softmax(-1), 1, generator=self._random))


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
