"""Whole prompts and tensors beside the families' own processors, where torchvision is installed; `make parity` does.

Qwen3-VL's chat template writes marks around the token of a video. The processor that came with the model replaced them
together with the token, as vLLM does and as is done here; transformers 5 leaves them around all steps. So the text is
given to its processor without them.
"""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.models.helpers import ask
from tests.tiny import tiny_folder
from tests.tokens.torchvision_here import torchvision_imports
from tests.tokens.videos import FORMS, Videos, record

if not torchvision_imports():
    pytest.skip("`make parity` installs torchvision", allow_module_level=True)

from saccade.models.local_text import LocalSettings
from saccade.models.local_weights import Checkpoint, load_checkpoint
from saccade.record.content import ImagePart, VideoPart
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.prompt import build_prompt

pytestmark = pytest.mark.slow

PROCESSORS: dict[str, Any] = {"qwen2_5_vl": transformers.Qwen2_5_VLProcessor, "qwen3_vl": transformers.Qwen3VLProcessor}


@pytest.fixture(scope="module", params=FORMS)
def both(request: pytest.FixtureRequest) -> tuple[Checkpoint, Any]:
    """A checkpoint, and its own processor."""
    folder = tiny_folder(request.param)
    one = load_checkpoint(str(folder), LocalSettings(device="cpu"))
    said = json.loads((folder / "video_preprocessor_config.json").read_text())
    videos = getattr(transformers, said.pop("video_processor_type"))(**said, cap_pixels_per_frame=False)
    made = PROCESSORS[request.param](one.image_processor, one.tokenizer, videos, chat_template=one.chat_template)
    return one, made


def still(media: Videos) -> tuple[ImagePart, Image.Image]:
    """A picture of noise in `media`."""
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 120, 3), np.uint8))
    target = io.BytesIO()
    image.save(target, "PNG")
    name = hashlib.sha256(target.getvalue()).hexdigest()
    media.stored[name] = target.getvalue()
    return ImagePart(sha256=name, width=120, height=90), image


@settings(max_examples=30, deadline=None)
@given(
    count=st.integers(2, 9),
    size=st.tuples(st.integers(30, 260), st.integers(30, 260)),
    chosen=st.none() | st.lists(st.integers(0, 1), min_size=2, max_size=6).map(sorted),
    fps=st.sampled_from([1, 4, 10, 20]),
    beside=st.sampled_from(["nothing", "a picture before", "a picture behind"]),
)
def test_prompt_and_tensors_are_the_processors(
    both: tuple[Checkpoint, Any], count: int, size: tuple[int, int], chosen: list[int] | None, fps: int, beside: str
) -> None:
    one, processor = both
    videos = Videos()
    stored = videos.put(count, *size, milliseconds=1000 // fps)
    indices = None if chosen is None else tuple(chosen)
    part = record(count, *size, stored.fps, indices, sha256=stored.sha256)
    picture, image = still(videos)
    asked: dict[str, tuple[ImagePart | VideoPart, ...]] = {
        "nothing": (part,),
        "a picture before": (picture, part),
        "a picture behind": (part, picture),
    }
    prompt = build_prompt(ask(*asked[beside], " What?"), one)
    clip = next(shown.clip for shown in prompt.pictures if shown.clip is not None)
    shown = list(dict.fromkeys(clip.frames)) if indices is None else list(indices)
    chat = [
        {"role": "system", "content": "Look."},
        {
            "role": "user",
            "content": [*({"type": part.kind} for part in asked[beside]), {"type": "text", "text": " What?"}],
        },
    ]
    text = processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    if one.family.model_type == "qwen3_vl":
        text = text.replace("<|vision_start|><|video_pad|><|vision_end|>", "<|video_pad|>")
    frames = np.stack([np.asarray(videos.frames[stored.sha256][at]) for at in shown])
    about = {"total_num_frames": count, "fps": stored.fps, "frames_indices": shown, "duration": count / stored.fps}
    made = processor(
        text=[text],
        images=None if beside == "nothing" else [image],
        videos=[torch.from_numpy(frames).permute(0, 3, 1, 2)],
        video_metadata=[about],
        do_sample_frames=False,
        return_tensors="pt",
    )
    assert list(prompt.ids) == made["input_ids"][0].tolist()
    tensors = PictureTensors(one, videos)(prompt.pictures)
    assert torch.equal(tensors["video_grid_thw"], made["video_grid_thw"])
    if beside != "nothing":
        assert torch.equal(tensors["image_grid_thw"], made["image_grid_thw"])
        assert torch.equal(tensors["pixel_values"], made["pixel_values"])
    # Pillow's bicubic and torchvision's round bytes differently: a step of one in 255 is 0.015 after normalising.
    torch.testing.assert_close(tensors["pixel_values_videos"], made["pixel_values_videos"], rtol=0, atol=0.05)
    if one.family.model_type == "qwen2_5_vl":
        assert clip.interval == pytest.approx(made["second_per_grid_ts"][0])
    if indices is None and one.family.model_type == "qwen3_vl":
        metadata = transformers.video_utils.VideoMetadata(count, fps=stored.fps)
        assert processor.video_processor.sample_frames(metadata).tolist() == shown
