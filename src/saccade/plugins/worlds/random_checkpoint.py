"""Tiny checkpoints with random weights, of each family that runs in process: for tests of your own pipeline.

    save_tiny(Path("tiny"), "qwen2_5_vl")
    model = LocalModel("tiny")

Real classes of transformers, a real byte-level tokenizer, a real image processor; about a million parameters. It writes
noise: nothing was learned. Imports torch and transformers; import this module late.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from saccade.core.registry import did_you_mean
from saccade.errors import RegistryError
from saccade.models.families.known import FAMILIES

# Chat templates of families that are not written in plain ChatML: short, and equal to the published ones for plain
# conversations.

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
    "<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>",
    "<|begin_of_image|>", "<|end_of_image|>", "<|image|>", "<|begin_of_video|>", "<|end_of_video|>", "<|video|>",
)  # fmt: skip
GEMMA4_SPECIAL: Final = (
    "<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|image>", "<|image|>",
    "<image|>", "<|audio>", "<|audio|>", "<audio|>", "<|video|>",
)  # fmt: skip
THOUGHT_MARKS: Final = ("<think>", "</think>", "<tool_response>", "</tool_response>")
"""Tokens of a vocabulary that are no special ones."""
GLM_FAMILIES: Final = ("glm4v", "glm4v_moe", "glm46v")
_BLANK = "\u2581"


def thinking_tokens() -> list[AddedToken]:
    """Return the marks as tokens to be added to a vocabulary."""
    return [AddedToken(mark, special=False, normalized=False) for mark in THOUGHT_MARKS]


def gemma_tokenizer(sentences: tuple[str, ...], context: int) -> Any:
    """Return texts with single bytes next to them, as Gemma's: a few hundred tokens."""
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
            "image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>", "audio_token": "<|audio|>",
            "boa_token": "<|audio>", "eoa_token": "<audio|>",
        },
    )  # fmt: skip
    tokenizer.chat_template = GEMMA4_TEMPLATE
    return tokenizer


def qwen3_5_config(text: dict[str, Any], vision: dict[str, Any], ids: dict[str, int], *, experts: bool) -> Any:
    """Return two layers of linear attention and one of full attention, of these shared settings."""
    text = text | {
        "num_hidden_layers": 3,
        "layer_types": ["linear_attention", "linear_attention", "full_attention"],
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 1, 1], "mrope_interleaved": True,
            "partial_rotary_factor": 0.5,
        },
    }  # fmt: skip
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
    """Make the configuration from these shared settings."""
    at = GLM_SPECIAL.index
    vision = vision | {"patch_size": 14, "image_size": 56}
    rope = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.5}
    text = text | {"rope_parameters": rope, "head_dim": text["hidden_size"] // text["num_attention_heads"]}
    if family == "glm4v_moe":
        text |= {
            "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 1,
            "n_group": 1, "topk_group": 1,
        }  # fmt: skip
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
    """Make a configuration with sliding windows, full attention, shared keys and values, and embeddings of layers."""
    at = GEMMA4_SPECIAL.index
    size, vocabulary = text["hidden_size"], text["vocab_size"]
    kinds = ["sliding_attention", "full_attention"] * 2
    text = text | {
        "model_type": "gemma4_text", "num_hidden_layers": len(kinds), "layer_types": kinds, "num_kv_shared_layers": 2,
        "sliding_window": 24, "head_dim": 16, "global_head_dim": 32, "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": vocabulary, "final_logit_softcapping": 30.0,
        "use_bidirectional_attention": "vision", "bos_token_id": at("<bos>"), "eos_token_id": at("<eos>"),
        "pad_token_id": at("<pad>"), "tie_word_embeddings": True,
    }  # fmt: skip
    vision = {
        "model_type": "gemma4_vision", "hidden_size": size, "intermediate_size": 2 * size, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16, "patch_size": 16, "pooling_kernel_size": 3,
        "position_embedding_size": 256, "default_output_length": 70,
    }  # fmt: skip
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


SPECIAL_TOKENS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>", "<img>", "</img>", "<IMG_CONTEXT>",
)  # fmt: skip
"""Ids 0, 1, 2, ... in this order."""

_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}"
    "{% else %}{% for part in message.content %}"
    "{% if part.type == 'text' %}{{ part.text }}{% elif part.type == 'video' %}VIDEO{% else %}PICTURE{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_QWEN = _TEMPLATE.replace("PICTURE", "<|vision_start|><|image_pad|><|vision_end|>").replace(
    "VIDEO", "<|vision_start|><|video_pad|><|vision_end|>"
)
_TEMPLATES = {
    "qwen2_5_vl": _QWEN,
    "qwen3_vl": _QWEN,
    "qwen3_vl_moe": _QWEN,
    "internvl": _TEMPLATE.replace("PICTURE", "<IMG_CONTEXT>\n").replace("VIDEO", "<video>\n"),
    "qwen3_5": QWEN3_5_TEMPLATE,
    "qwen3_5_moe": QWEN3_5_TEMPLATE,
    **dict.fromkeys(GLM_FAMILIES, GLM_TEMPLATE),
    "gemma4": GEMMA4_TEMPLATE,
}
_SENTENCES = (
    "Look at the picture and say what is written on the sign.",
    "<think>The text is small, so I crop the left part and enlarge it.</think>",
    "<code>\ncrop = image.crop((10, 20, 200, 120)).resize((380, 200))\nplt.imshow(crop)\nplt.show()\n</code>",
    "<answer>The red square is left of the blue circle: 3 of 12.</answer>",
    "for x in range(0, width, 14): print(x, y, pixels[x, y])",
)
_HIDDEN, _HEADS, _LAYERS = 64, 4, 2
_CONTEXT = 2048
_SIDE = 56
"""Pixels of a tile of InternVL; at 14 pixels a patch, and four patches a token, four tokens."""


def save_tiny(folder: Path, family: str = "qwen2_5_vl", *, seed: int = 0) -> None:
    """Write a tiny checkpoint of `family` (a `model_type`) to `folder`, which is made.

    Raises `RegistryError`: there is no such family.
    """
    if family not in _TEMPLATES:
        raise RegistryError(f"there is no tiny checkpoint of {family!r}. {did_you_mean(family, _TEMPLATES)}".rstrip())
    tokenizer = tiny_tokenizer(family)
    config = _config(family, len(tokenizer))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers.AutoModelForImageTextToText.from_config(config)
    ends = [tokenizer.convert_tokens_to_ids(token) for token in FAMILIES[family].ends]
    model.generation_config.eos_token_id = sorted({*ends, tokenizer.eos_token_id, tokenizer.pad_token_id})
    model.generation_config.pad_token_id = 0
    for part in (model, tokenizer, _image_processor(family)):
        part.save_pretrained(folder)
    if FAMILIES[family].video is not None:
        Path(folder, "video_preprocessor_config.json").write_text(json.dumps(_video_processor(family), indent=2))


def tiny_tokenizer(family: str = "qwen2_5_vl") -> Any:
    """Train a BPE of a few hundred tokens with the family's special tokens and template; byte-level but for Gemma."""
    if family == "gemma4":
        return gemma_tokenizer(_SENTENCES, _CONTEXT)
    glm = family in GLM_FAMILIES
    special = GLM_SPECIAL if glm else SPECIAL_TOKENS
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(_SENTENCES, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|endoftext|>" if glm else "<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=_CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    if FAMILIES[family].framed:
        tokenizer.add_tokens(thinking_tokens())
    tokenizer.chat_template = _TEMPLATES[family]
    return tokenizer


def _video_processor(family: str) -> dict[str, Any]:
    """Return its file: frames of at most 8 by 8 features, those of Qwen3-VL and Qwen3.5 of that many pixels in all."""
    patch = 14 if family == "qwen2_5_vl" else 16
    most = (16 * patch) ** 2 if family == "qwen2_5_vl" else 8 * (16 * patch) ** 2
    return {
        "video_processor_type": "Qwen2VLVideoProcessor" if family == "qwen2_5_vl" else "Qwen3VLVideoProcessor",
        "patch_size": patch,
        "merge_size": 2,
        "temporal_patch_size": 2,
        "size": {"shortest_edge": (2 * patch) ** 2, "longest_edge": most},
    }


def _image_processor(family: str) -> Any:
    if family == "internvl":
        side = {"height": _SIDE, "width": _SIDE}
        return transformers.GotOcr2ImageProcessorPil(size=side, crop_to_patches=True, min_patches=1, max_patches=4)
    if family == "gemma4":
        return transformers.Gemma4ImageProcessorPil(max_soft_tokens=70)
    glm = family in GLM_FAMILIES
    patch = 14 if glm or family == "qwen2_5_vl" else 16
    made = {"glm46v": transformers.Glm46VImageProcessorPil}.get(family, transformers.Glm4vImageProcessorPil)
    frames = 2 if glm else 1  # GLM counts the two frames that a patch spans
    size = {"shortest_edge": frames * (2 * patch) ** 2, "longest_edge": frames * (16 * patch) ** 2}
    made = made if glm else transformers.Qwen2VLImageProcessorPil
    return made(patch_size=patch, merge_size=2, size=size)


def _config(family: str, vocabulary: int) -> Any:
    text: dict[str, Any] = {
        "vocab_size": vocabulary + 5,  # rows that no token has, as real checkpoints have them
        "hidden_size": _HIDDEN,
        "intermediate_size": 2 * _HIDDEN,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _HEADS // 2,
        "max_position_embeddings": _CONTEXT,
        "initializer_range": 0.1,  # large enough that what was read shows in what is written
        "bos_token_id": None,
        "eos_token_id": SPECIAL_TOKENS.index("<|im_end|>"),
        "pad_token_id": 0,
    }
    if family == "internvl":
        return _internvl(text)
    if family == "gemma4":
        return gemma_config(text)
    ids = {
        "vision_start_token_id": SPECIAL_TOKENS.index("<|vision_start|>"),
        "vision_end_token_id": SPECIAL_TOKENS.index("<|vision_end|>"),
        "image_token_id": SPECIAL_TOKENS.index("<|image_pad|>"),
        "video_token_id": SPECIAL_TOKENS.index("<|video_pad|>"),
    }
    vision: dict[str, Any] = {"depth": 2, "hidden_size": _HIDDEN, "intermediate_size": 2 * _HIDDEN}
    vision |= {"num_heads": _HEADS, "out_hidden_size": _HIDDEN, "spatial_merge_size": 2, "temporal_patch_size": 2}
    rope: dict[str, Any] = {
        "rope_type": "default",
        "rope_theta": 10_000.0,
        "mrope_section": [2, 3, 3],
    }  # sums to half a head
    if family in GLM_FAMILIES:
        return glm_config(family, text | {"eos_token_id": 0}, vision)
    if family.startswith("qwen3_5"):
        vision |= {"patch_size": 16, "num_position_embeddings": 64}
        text |= {"head_dim": _HIDDEN // _HEADS}
        return qwen3_5_config(text, vision, ids, experts=family.endswith("moe"))
    if family == "qwen2_5_vl":
        vision |= {"patch_size": 14, "window_size": 56, "fullatt_block_indexes": [1]}
        made = transformers.Qwen2_5_VLConfig
    else:
        vision |= {"patch_size": 16, "num_position_embeddings": 64, "deepstack_visual_indexes": [0]}
        rope["mrope_interleaved"] = True
        text["head_dim"] = _HIDDEN // _HEADS
        made = transformers.Qwen3VLConfig
    if family == "qwen3_vl_moe":
        text |= {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": _HIDDEN, "mlp_only_layers": []}
        made = transformers.Qwen3VLMoeConfig
    return made(text_config=text | {"rope_parameters": rope}, vision_config=vision, tie_word_embeddings=True, **ids)


def _internvl(text: dict[str, Any]) -> Any:
    vision: dict[str, Any] = {"hidden_size": _HIDDEN, "intermediate_size": 2 * _HIDDEN, "num_hidden_layers": 2}
    vision |= {"num_attention_heads": _HEADS, "image_size": _SIDE, "patch_size": 14}
    return transformers.InternVLConfig(
        text_config=text | {"model_type": "qwen2"},
        vision_config=vision,
        image_token_id=SPECIAL_TOKENS.index("<IMG_CONTEXT>"),
        image_seq_length=4,
        tie_word_embeddings=True,
    )
