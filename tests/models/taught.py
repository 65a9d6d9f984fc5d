"""A tiny checkpoint that always says the same, so that what a server makes of it is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForImageTextToText, AutoTokenizer

from saccade.plugins.worlds.random_checkpoint import save_tiny

CALLS = '<tool_call>\n{"name": "python", "arguments": {"code": "print(1)"}}\n</tool_call>'
SAYS = "<think>Größer 🔍</think>\n<code>\nimage.crop((0, 0, 9, 9))\n</code> and so on"

# Without torchvision, transformers cannot make the processor of this family, for it would hold one for videos too.
_PROCESSOR = """
from transformers.models.qwen2_5_vl.processing_qwen2_5_vl import Qwen2_5_VLProcessor
from transformers.processing_utils import ProcessorMixin


class PictureProcessor(Qwen2_5_VLProcessor):
    def __init__(self, image_processor=None, tokenizer=None, chat_template=None, **kwargs):
        self.image_token, self.video_token = "<|image_pad|>", "<|video_pad|>"
        self.image_token_id = tokenizer.convert_tokens_to_ids(self.image_token)
        self.video_token_id = tokenizer.convert_tokens_to_ids(self.video_token)
        ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)
"""


def save_taught(folder: Path, says: str = SAYS, *, videos: bool = False) -> None:
    """A tiny Qwen2.5-VL in `folder` that answers everything with `says`, and that transformers' own server can load.

    With `videos` by the family's own processor, which needs torchvision; else by one for pictures alone.
    """
    save_tiny(folder)
    model = AutoModelForImageTextToText.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    _teach(model, tokenizer, says)
    model.save_pretrained(folder)
    if videos:
        (folder / "processor_config.json").write_text(json.dumps({"processor_class": "Qwen2_5_VLProcessor"}))
        return
    (folder / "picture_processor.py").write_text(_PROCESSOR)
    auto = {"processor_class": "PictureProcessor", "auto_map": {"AutoProcessor": "picture_processor.PictureProcessor"}}
    (folder / "processor_config.json").write_text(json.dumps(auto))


def _teach(model: Any, tokenizer: Any, says: str) -> None:
    """Until each token of `says` is likelier than all others together, after prompts of several kinds."""
    answer = tokenizer.encode(says + "<|im_end|>")
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
        )
        for text in ("Look.", "What is this?", "", "7 8 9 " * 5)
    ]
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(400):
        worst = 0.0
        for prompt in prompts:
            ids = torch.tensor([prompt + answer])
            logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1]
            loss = torch.nn.functional.cross_entropy(logits, torch.tensor(answer), reduction="none")
            loss.mean().backward()
            worst = max(worst, float(loss.detach().max()))
        optimizer.step()
        optimizer.zero_grad()
        if worst < 0.02:
            return
    raise AssertionError(f"the tiny checkpoint did not learn its sentence: {worst}")
