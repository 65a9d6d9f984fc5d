"""Logits of some families are bounded by a soft cap: c tanh(x / c). Imports torch; import this module late."""

from __future__ import annotations

from typing import Any

import torch


def logit_cap(config: Any) -> float | None:
    """c of a transformers configuration, None where logits are not bounded."""
    cap = getattr(config.get_text_config(), "final_logit_softcapping", None)
    return None if cap is None else float(cap)


def capped(logits: torch.Tensor, cap: float | None) -> torch.Tensor:
    """`logits` within the cap, of the same shape; as they are without one."""
    return logits if cap is None else torch.tanh(logits / cap) * cap
