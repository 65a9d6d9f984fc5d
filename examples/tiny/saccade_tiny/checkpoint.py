"""The model before it has learned anything: configuration, random weights, tokenizer, image processor in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from saccade_tiny.settings import TinySettings
from saccade_tiny.tokenizer import QWEN_TOKENS

_PATCH, _MERGE = 14, 2


def save_untrained(folder: Path, tokenizer: Any, settings: TinySettings) -> int:
    """Write the checkpoint that training starts from; return the number of its parameters."""
    config = _config(settings, len(tokenizer))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = transformers.AutoModelForImageTextToText.from_config(config)
    model.generation_config.eos_token_id = [QWEN_TOKENS.index("<|im_end|>"), 0]
    model.generation_config.pad_token_id = 0
    vision = settings.vision
    processor = transformers.Qwen2VLImageProcessorPil(
        patch_size=_PATCH,
        merge_size=_MERGE,
        size={"shortest_edge": vision.least_pixels, "longest_edge": vision.most_pixels},
    )
    for part in (model, tokenizer, processor):
        part.save_pretrained(folder)
    return int(sum(parameter.numel() for parameter in model.parameters()))


def _config(settings: TinySettings, vocabulary: int) -> Any:
    shape, vision = settings.text, settings.vision
    text: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_heads,
        "max_position_embeddings": shape.context,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": shape.rope_theta,
            "mrope_section": list(shape.rope_sections),
        },
        "bos_token_id": None,
        "eos_token_id": QWEN_TOKENS.index("<|im_end|>"),
        "pad_token_id": 0,
    }
    tower: dict[str, Any] = {
        "depth": vision.layers,
        "hidden_size": vision.hidden,
        "intermediate_size": vision.intermediate,
        "num_heads": vision.heads,
        "out_hidden_size": shape.hidden,
        "patch_size": _PATCH,
        "spatial_merge_size": _MERGE,
        "temporal_patch_size": 2,
        "window_size": 4 * _MERGE * _PATCH,
        "fullatt_block_indexes": list(range(vision.layers)),  # so few patches need no windows
    }
    return transformers.Qwen2_5_VLConfig(
        text_config=text,
        vision_config=tower,
        tie_word_embeddings=True,
        vision_start_token_id=QWEN_TOKENS.index("<|vision_start|>"),
        vision_end_token_id=QWEN_TOKENS.index("<|vision_end|>"),
        image_token_id=QWEN_TOKENS.index("<|image_pad|>"),
        video_token_id=QWEN_TOKENS.index("<|video_pad|>"),
    )
