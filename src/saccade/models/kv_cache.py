"""What keys and values of a token take, as a model's configuration says. No weights and no torch here."""

from __future__ import annotations

from typing import Any

GIB = 2**30


def cache_bytes_per_token(config: Any, bytes_per_number: int) -> int:
    """Bytes of the keys and values of one token in all layers of a transformers configuration's language model.

    Layers that keep a state, or read the keys and values of another layer, have none of their own.
    """
    text = config.get_text_config()
    return int(2 * bytes_per_number * sum(_numbers(text, layer) for layer in _layers(text)))


def state_bytes(config: Any, bytes_per_number: int) -> int:
    """Bytes of what layers of linear attention keep of one sequence, however long it is; states are in float32."""
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None) or []
    layers = sum(kind == "linear_attention" for kind in kinds)
    if not layers:
        return 0
    keys = text.linear_num_key_heads * text.linear_key_head_dim
    values = text.linear_num_value_heads * text.linear_value_head_dim
    window = (2 * keys + values) * text.linear_conv_kernel_dim * bytes_per_number
    return int(layers * (window + 4 * values * text.linear_key_head_dim))


def _layers(text: Any) -> list[int]:
    kinds = getattr(text, "layer_types", None) or ["full_attention"] * text.num_hidden_layers
    sharing = getattr(text, "kv_sharing_modes", None) or [None] * len(kinds)
    return [
        layer
        for layer, (kind, mode) in enumerate(zip(kinds, sharing, strict=True))
        if kind != "linear_attention" and mode != "reuse"
    ]


def _numbers(text: Any, layer: int) -> int:
    """Of a key."""
    own = text.per_layer_config[layer] if hasattr(text, "global_head_dim") or _varies(text) else text
    size = getattr(own, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return int(own.num_key_value_heads * size)


def _varies(text: Any) -> bool:
    return "kv_sharing_modes" in dir(type(text))
