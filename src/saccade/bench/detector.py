"""A detector for measurements where no weights are named: GroundingDINO's architecture, small, with random weights.

It finds nothing. What is measured with it is the way to a tool that loads a checkpoint: preparing pictures and words,
one worker that holds the weights, batches. Imports torch and transformers; import this module late.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from saccade.tools.registry import lacking
from saccade.tools.setup import VARIABLE, tool_setup

DETECTOR = "grounding_dino"
CAPTION = "a red bar. a label. a line."
_WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "a", "red", "bar", "label", "line")


@contextmanager
def detector(folder: Path) -> Iterator[str]:
    """A setup in which the detector has weights; what they are, or empty if it cannot be loaded here.

    Those that the user's setup names are taken; without any, random ones are written to `folder`.
    """
    if tool_setup(DETECTOR).weights:
        yield "" if lacking(DETECTOR) else "the weights of your setup"
        return
    before = os.environ.get(VARIABLE)
    try:
        write_random_detector(folder / "weights")
    except ImportError:
        yield ""
        return
    setup = folder / "setup.toml"
    setup.write_text(f"[{DETECTOR}]\nweights = '{folder / 'weights'}'\n", encoding="utf-8")
    os.environ[VARIABLE] = str(setup)
    try:
        yield "" if lacking(DETECTOR) else "random weights"
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def write_random_detector(folder: Path) -> None:
    """Write a checkpoint as its authors' are, of about a million weights. Raises ImportError without transformers."""
    import torch
    from transformers import (
        BertConfig,
        BertTokenizer,
        GroundingDinoConfig,
        GroundingDinoForObjectDetection,
        GroundingDinoProcessor,
        SwinConfig,
    )  # fmt: skip
    from transformers.models.grounding_dino.image_processing_pil_grounding_dino import GroundingDinoImageProcessorPil

    folder.mkdir(parents=True)
    words = folder / "vocab.txt"
    words.write_text("\n".join(_WORDS) + "\n", encoding="utf-8")
    tokenizer = BertTokenizer(str(words))
    swin = SwinConfig(
        image_size=224, embed_dim=24, depths=[1, 1, 1, 1], num_heads=[1, 2, 4, 8], window_size=7,
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    bert = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
    )
    config = GroundingDinoConfig(
        backbone_config=swin, text_config=bert, d_model=64, encoder_layers=1, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=100,
        num_feature_levels=3, fusion_droppath=0.0, encoder_n_points=2, decoder_n_points=2,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        GroundingDinoForObjectDetection(config).save_pretrained(folder)
    images = GroundingDinoImageProcessorPil(size={"shortest_edge": 224, "longest_edge": 448})
    GroundingDinoProcessor(images, tokenizer).save_pretrained(folder)
