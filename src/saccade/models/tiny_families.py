"""Tokenizers, processors and configurations of tiny checkpoints of families that are not written in plain ChatML.

Real classes of transformers throughout; chat templates of our own that say what the published ones say about plain
conversations. Imports torch and transformers; import this module late.
"""

from __future__ import annotations

import json
from typing import Any, Final

import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

_CONTENT: Final = (
    "{% set said %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{% if p.type == 'text' %}{{ p.text TRIM }}{% else %}PICTURE{% endif %}{% endfor %}{% endif %}{% endset %}"
)
_QWEN_PICTURE: Final = "<|vision_start|><|image_pad|><|vision_end|>"
_GLM_PICTURE: Final = "<|begin_of_image|><|image|><|end_of_image|>"
QWEN3_5_TEMPLATE: Final = (
    "{% for m in messages %}"
    + _CONTENT.replace("TRIM", "").replace("PICTURE", _QWEN_PICTURE)
    + "{% if m.role == 'tool' %}<|im_start|>user\n<tool_response>\n{{ said | trim }}\n</tool_response><|im_end|>\n"
    "{% else %}<|im_start|>{{ m.role }}\n{{ said | trim }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
GLM_TEMPLATE: Final = (
    "[gMASK]<sop>{% for m in messages %}"
    + _CONTENT.replace("TRIM", "").replace("PICTURE", _GLM_PICTURE)
    + "{% if m.role == 'tool' %}<|observation|>\n<tool_response>\n{{ said }}\n</tool_response>"
    "{% if m.content is string %}{{ '\n' }}{% endif %}"
    "{% elif m.role == 'assistant' %}<|assistant|>\n<think></think>\n{{ said | trim }}"
    "{% else %}<|{{ m.role }}|>\n{{ said }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{{ '' }}{% endif %}"
)
GEMMA4_TEMPLATE: Final = (
    "{{ bos_token }}{% for m in messages %}"
    + _CONTENT.replace("TRIM", "| trim").replace("PICTURE", "<|image|>")
    + "<|turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ said | trim if m.content is string else said }}"
    "<turn|>\n{% endfor %}{% if add_generation_prompt %}<|turn>model\n<|channel>thought\n<channel|>{% endif %}"
)
GLM_SPECIAL: Final = (
    "<|endoftext|>",
    "[gMASK]",
    "<sop>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|observation|>",
    "<|begin_of_image|>",
    "<|end_of_image|>",
    "<|image|>",
    "<|begin_of_video|>",
    "<|end_of_video|>",
    "<|video|>",
)
GEMMA4_SPECIAL: Final = (
    "<pad>",
    "<eos>",
    "<bos>",
    "<unk>",
    "<|turn>",
    "<turn|>",
    "<|channel>",
    "<channel|>",
    "<|image>",
    "<|image|>",
    "<image|>",
    "<|audio>",
    "<|audio|>",
    "<audio|>",
    "<|video|>",
)
THOUGHT_MARKS: Final = ("<think>", "</think>", "<tool_response>", "</tool_response>")
"""Tokens of a vocabulary that are no special ones."""
GLM_FAMILIES: Final = ("glm4v", "glm4v_moe", "glm46v")
_BLANK = "\u2581"


def thinking_tokens() -> list[AddedToken]:
    """The marks as tokens to be added to a vocabulary."""
    return [AddedToken(mark, special=False, normalized=False) for mark in THOUGHT_MARKS]


def gemma_tokenizer(sentences: tuple[str, ...], context: int) -> Any:
    """Texts with single bytes beside them, as Gemma's: a few hundred tokens."""
    backend = Tokenizer(models.BPE())
    backend.normalizer = normalizers.Replace(" ", _BLANK)
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=list(GEMMA4_SPECIAL), show_progress=False)
    backend.train_from_iterator(sentences, trainer)
    learned = json.loads(backend.to_str())["model"]
    vocabulary = dict(learned["vocab"])
    for byte in range(256):
        vocabulary[f"<0x{byte:02X}>"] = len(vocabulary)
    merges = [tuple(merge) for merge in learned["merges"]]
    model = models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    backend = Tokenizer(model)
    backend.normalizer = normalizers.Replace(" ", _BLANK)
    backend.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    backend.decoder = decoders.Sequence(
        [decoders.Replace(_BLANK, " "), decoders.ByteFallback(), decoders.Fuse()]  # as Gemma's tokenizer.json
    )
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in GEMMA4_SPECIAL])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        unk_token="<unk>",
        model_max_length=context,
        clean_up_tokenization_spaces=False,
        extra_special_tokens={
            "image_token": "<|image|>",
            "boi_token": "<|image>",
            "eoi_token": "<image|>",
            "audio_token": "<|audio|>",
            "boa_token": "<|audio>",
            "eoa_token": "<audio|>",
        },
    )
    tokenizer.chat_template = GEMMA4_TEMPLATE
    return tokenizer


def qwen3_5_config(text: dict[str, Any], vision: dict[str, Any], ids: dict[str, int], *, experts: bool) -> Any:
    """Two layers of linear attention and one of full attention, of these shared settings."""
    text = text | {
        "num_hidden_layers": 3,
        "layer_types": ["linear_attention", "linear_attention", "full_attention"],
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [2, 1, 1],
            "mrope_interleaved": True,
            "partial_rotary_factor": 0.5,
        },
    }
    made = transformers.Qwen3_5Config
    if experts:
        made = transformers.Qwen3_5MoeConfig
        text |= {
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
        }
    return made(text_config=text, vision_config=vision, tie_word_embeddings=True, **ids)


def glm_config(family: str, text: dict[str, Any], vision: dict[str, Any]) -> Any:
    """Of these shared settings."""
    at = GLM_SPECIAL.index
    vision = vision | {"patch_size": 14, "image_size": 56}
    rope = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.5}
    text = text | {"rope_parameters": rope, "head_dim": text["hidden_size"] // text["num_attention_heads"]}
    if family == "glm4v_moe":
        text |= {
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "first_k_dense_replace": 1,
            "n_group": 1,
            "topk_group": 1,
        }
    made = {
        "glm4v": transformers.Glm4vConfig,
        "glm4v_moe": transformers.Glm4vMoeConfig,
        "glm46v": transformers.Glm46VConfig,
    }[family]
    return made(
        text_config=text | ({"model_type": "glm4v_text"} if family == "glm46v" else {}),
        vision_config=vision | ({"model_type": "glm4v_vision"} if family == "glm46v" else {}),
        image_token_id=at("<|image|>"),
        video_token_id=at("<|video|>"),
        image_start_token_id=at("<|begin_of_image|>"),
        image_end_token_id=at("<|end_of_image|>"),
        video_start_token_id=at("<|begin_of_video|>"),
        video_end_token_id=at("<|end_of_video|>"),
        tie_word_embeddings=False,
    )


def gemma_config(text: dict[str, Any]) -> Any:
    """Two windows, one layer that sees all, and two that read the keys and values of others; embeddings of layers."""
    at = GEMMA4_SPECIAL.index
    size, vocabulary = text["hidden_size"], text["vocab_size"]
    kinds = ["sliding_attention", "full_attention"] * 2
    text = text | {
        "model_type": "gemma4_text",
        "num_hidden_layers": len(kinds),
        "layer_types": kinds,
        "num_kv_shared_layers": 2,
        "sliding_window": 24,
        "head_dim": 16,
        "global_head_dim": 32,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": vocabulary,
        "final_logit_softcapping": 30.0,
        "use_bidirectional_attention": "vision",
        "bos_token_id": at("<bos>"),
        "eos_token_id": at("<eos>"),
        "pad_token_id": at("<pad>"),
        "tie_word_embeddings": True,
    }
    vision = {
        "model_type": "gemma4_vision",
        "hidden_size": size,
        "intermediate_size": 2 * size,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 16,
        "patch_size": 16,
        "pooling_kernel_size": 3,
        "position_embedding_size": 256,
        "default_output_length": 70,
    }
    return transformers.Gemma4Config(
        text_config=text,
        vision_config=vision,
        audio_config=None,
        image_token_id=at("<|image|>"),
        video_token_id=at("<|video|>"),
        audio_token_id=at("<|audio|>"),
        boi_token_id=at("<|image>"),
        eoi_token_id=at("<image|>"),
        tie_word_embeddings=True,
    )
