"""Checkpoints with random weights, written to a folder as their authors' are: the whole way of loading runs on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "a", "red", "cup", "dog", "cat")


def bert_tokenizer(folder: Path) -> Any:
    from transformers import BertTokenizer

    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return BertTokenizer(str(folder / "vocab.txt"))


def plain_tokenizer(words: tuple[str, ...]) -> Any:
    """A word each; `</s>` ends, `<pad>` fills."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(("<pad>", "</s>", "<s>", "<unk>", *words))}
    inner = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="</s>", bos_token="<s>", unk_token="<unk>"
    )


def grounding_dino(folder: Path) -> Path:
    from transformers import GroundingDinoConfig, GroundingDinoForObjectDetection

    return _grounding(folder, GroundingDinoConfig, GroundingDinoForObjectDetection)


def mm_grounding_dino(folder: Path) -> Path:
    from transformers import MMGroundingDinoConfig, MMGroundingDinoForObjectDetection

    return _grounding(folder, MMGroundingDinoConfig, MMGroundingDinoForObjectDetection)


def _grounding(folder: Path, settings: Any, architecture: Any) -> Path:
    import torch
    from transformers import BertConfig, GroundingDinoProcessor, SwinConfig
    from transformers.models.grounding_dino.image_processing_pil_grounding_dino import GroundingDinoImageProcessorPil

    torch.manual_seed(0)
    tokenizer = bert_tokenizer(folder)
    backbone = SwinConfig(
        image_size=64, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=4,
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    text = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    config = settings(
        backbone_config=backbone, text_config=text, d_model=32, encoder_layers=1, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, num_queries=20,
        num_feature_levels=3, fusion_droppath=0.0, encoder_n_points=2, decoder_n_points=2,
    )  # fmt: skip
    architecture(config).save_pretrained(folder)
    images = GroundingDinoImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 128})
    GroundingDinoProcessor(images, tokenizer).save_pretrained(folder)
    return folder


def sam(folder: Path) -> Path:
    import torch
    from transformers import SamConfig, SamModel

    torch.manual_seed(0)
    config = SamConfig(
        vision_config={
            "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "mlp_dim": 16, "image_size": 64,
            "output_channels": 256, "window_size": 2, "global_attn_indexes": [0],
        },
        prompt_encoder_config={"image_size": 64, "image_embedding_size": 4},
        mask_decoder_config={"num_hidden_layers": 1, "mlp_dim": 16},
    )  # fmt: skip
    SamModel(config).save_pretrained(folder)
    return folder


def sam2(folder: Path) -> Path:
    import torch
    from transformers import Sam2Config, Sam2Model

    torch.manual_seed(0)
    backbone = {
        "model_type": "sam2_hiera_det_model", "hidden_size": 8, "num_attention_heads": 1, "image_size": [64, 64],
        "blocks_per_stage": [1, 1, 2, 1], "embed_dim_per_stage": [8, 16, 32, 64], "window_size_per_stage": [8, 4, 8, 4],
        "num_attention_heads_per_stage": [1, 2, 4, 8], "global_attention_blocks": [3],
        "window_positional_embedding_background_size": [4, 4],
    }  # fmt: skip
    config = Sam2Config(
        vision_config={
            "backbone_config": backbone, "backbone_channel_list": [64, 32, 16, 8],
            "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
        },
        prompt_encoder_config={"image_size": 64, "patch_size": 16},
        mask_decoder_config={"num_hidden_layers": 1, "mlp_dim": 16},
    )  # fmt: skip
    Sam2Model(config).save_pretrained(folder)
    return folder


def deplot(folder: Path) -> Path:
    import torch
    from transformers import Pix2StructConfig, Pix2StructForConditionalGeneration, Pix2StructProcessor
    from transformers.models.pix2struct.image_processing_pil_pix2struct import Pix2StructImageProcessorPil

    torch.manual_seed(0)
    tokenizer = plain_tokenizer(("TITLE", "|", "<0x0A>", "Year", "Sales", "2019", "2020", "7", "9"))
    small = {"num_layers": 1, "num_hidden_layers": 1, "num_heads": 2, "num_attention_heads": 2, "hidden_size": 16,
             "d_ff": 16, "d_kv": 8}  # fmt: skip
    config = Pix2StructConfig(
        text_config={**small, "vocab_size": len(tokenizer), "eos_token_id": 1, "pad_token_id": 0,
                     "decoder_start_token_id": 0},
        vision_config={**small, "patch_embed_hidden_size": 768},
    )  # fmt: skip
    Pix2StructForConditionalGeneration(config).save_pretrained(folder)
    images = Pix2StructImageProcessorPil(max_patches=64, is_vqa=True)
    Pix2StructProcessor(images, tokenizer).save_pretrained(folder)
    return folder


def unichart(folder: Path) -> Path:
    import torch
    from transformers import (
        DonutProcessor,
        DonutSwinConfig,
        MBartConfig,
        VisionEncoderDecoderConfig,
        VisionEncoderDecoderModel,
    )  # fmt: skip
    from transformers.models.donut.image_processing_pil_donut import DonutImageProcessorPil

    torch.manual_seed(0)
    tokenizer = plain_tokenizer(("<extract_data_table>", "<s_answer>", "|", "&", "Year", "Sales", "2019", "7"))
    encoder = DonutSwinConfig(image_size=[64, 64], embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4)
    decoder = MBartConfig(
        vocab_size=len(tokenizer), d_model=16, decoder_layers=1, decoder_attention_heads=2, decoder_ffn_dim=16,
        is_decoder=True, is_encoder_decoder=False, add_cross_attention=True, max_position_embeddings=64,
    )  # fmt: skip
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 2, 0, 1
    VisionEncoderDecoderModel(config).save_pretrained(folder)
    images = DonutImageProcessorPil(size={"height": 64, "width": 64}, do_align_long_axis=False)
    DonutProcessor(images, tokenizer).save_pretrained(folder)
    return folder
