"""Drawing the next token of one answer as its sampling settings say.

Its draws come from a generator of their own, so a seed is not disturbed by what else runs in the process; the
checkpoint's own sampling defaults are not used. Rollouts, which are drawn from the whole distribution, are sampled many
rows at once by `sample_tokens`.
"""

from __future__ import annotations

import torch

from saccade.errors import ModelRefusedError
from saccade.record.trajectory import Sampling


class TokenSampler:
    """Picks the next token. No temperature, or 0, is greedy; None and 0 turn `top_k` off, None and 1 `top_p`."""

    def __init__(self, sampling: Sampling, forbidden: torch.Tensor) -> None:
        self._greedy = not sampling.temperature
        self._temperature = sampling.temperature or 1.0
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
