"""Weights as passes read them: how many numbers of them, and copies for sampling in the precision of the arithmetic.

Imports torch; import this module late.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch


@dataclass(frozen=True, slots=True)
class LanguageNumbers:
    """How many numbers of a language model's matrices its tokens are multiplied by; embeddings are only copied."""

    dense: int
    experts: int
    """Of all experts."""
    chosen: float
    """Share of the experts that one token chooses."""
    head: int

    @classmethod
    def of(cls, model: Any, *, trained: bool = False) -> Self:
        """Count those of a transformers model; `trained`: only weights that are trained."""
        text = model.config.get_text_config()
        chosen = getattr(text, "num_experts_per_tok", None) or getattr(text, "top_k_experts", None) or 0
        copied_rows = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
        dense = experts = 0
        share = 1.0
        for name, weight in model.model.language_model.named_parameters():
            if weight.ndim == 3 and ".experts." in name:  # (experts, out, in)
                experts += weight.numel() if weight.requires_grad or not trained else 0
                share = chosen / len(weight)
            elif weight.ndim > 1 and id(weight) not in copied_rows and (weight.requires_grad or not trained):
                dense += weight.numel()
        head = model.get_output_embeddings().weight
        return cls(dense, experts, share, head.numel() if head.requires_grad or not trained else 0)

    def of_a_token(self) -> float:
        """Return the numbers that one token is multiplied by, without the head's."""
        return self.dense + self.experts * self.chosen

    def read(self, rows: int) -> float:
        """Return the numbers that a pass over one token of each row reads: at most all experts, and the head."""
        return self.dense + self.experts * min(1.0, rows * self.chosen) + self.head


def copied(model: Any) -> list[torch.nn.Linear]:
    """Return the layers whose weights autocast would cast at every pass."""
    return [
        module
        for module in model.modules()
        if isinstance(module, torch.nn.Linear) and module.weight.dtype == torch.float32
    ]


def copied_bytes(model: Any) -> int:
    """Return the bytes of the copies that `in_low_precision` makes."""
    return sum(2 * module.weight.numel() for module in copied(model))


@contextmanager
def in_low_precision(model: Any, *, low: bool) -> Iterator[None]:
    """Give the layers of `model` copies of their weights in bfloat16, where passes are `low`; for sampling alone.

    Autocast would cast the same weights to the same numbers at every pass: of 4 bytes that it reads, 2 that it writes
    and 2 that the product reads, the last are left. Embeddings and norms keep their precision, as with autocast. The
    weights that are trained are not touched, and are back in their places when the block is left.
    """
    layers = copied(model) if low else []
    kept = [module.weight for module in layers]
    try:
        for module, weight in zip(layers, kept, strict=True):
            copy = torch.nn.Parameter(weight.detach().to(torch.bfloat16), requires_grad=False)
            module._parameters["weight"] = copy
        yield
    finally:
        for module, weight in zip(layers, kept, strict=True):
            module._parameters["weight"] = weight
