"""What keys and values of a token take, as a model's configuration says. No weights and no torch here."""

from __future__ import annotations

from typing import Any

GIB = 2**30


def cache_bytes_per_token(config: Any, bytes_per_number: int) -> int:
    """Bytes of the keys and values of one token in all layers of a transformers configuration's language model."""
    text = config.get_text_config()
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return int(2 * text.num_hidden_layers * text.num_key_value_heads * size * bytes_per_number)
