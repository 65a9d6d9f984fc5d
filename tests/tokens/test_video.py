"""Native video: ids, tensors and positions of drawn clips beside those of the families' own classes.

What needs no torchvision of these is compared here; `test_video_processors.py` has the whole processors.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.models.helpers import ask, said
from tests.tiny import tiny_folder
from tests.tokens.videos import FORMS, Videos, record
from transformers.video_utils import VideoMetadata

from saccade.errors import ModelRefusedError, TrainingError
from saccade.models.families.known import FAMILIES
from saccade.models.local_text import LocalSettings
from saccade.models.local_weights import FILE, Checkpoint, load_checkpoint, load_video_rules
from saccade.record.content import Answer, ImagePart, VideoPart
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory, Turn
from saccade.tokens.batch import Collator, token_row, token_trajectory
from saccade.tokens.encoder import Encoder
from saccade.tokens.pictures import PictureTensors, video_tensors
from saccade.tokens.prompt import build_prompt
from saccade.tokens.segments import PromptPicture, image_parts

VIDEOS = Videos()
PROCESSORS: dict[str, Any] = {
    "qwen2_5_vl": transformers.Qwen2_5_VLProcessor,
    "qwen3_vl": transformers.Qwen3VLProcessor,
    "qwen3_5": transformers.Qwen3VLProcessor,
}


@pytest.fixture(scope="module", params=[*FORMS, pytest.param("qwen3_5", marks=pytest.mark.slow)])
def checkpoint(request: pytest.FixtureRequest) -> Checkpoint:
    return load_checkpoint(str(tiny_folder(request.param)), LocalSettings(device="cpu"))


def encoder_of(one: Checkpoint) -> Encoder:
    return Encoder.of(one)


def own_text(one: Checkpoint, part: VideoPart, grid: tuple[int, int, int], shown: tuple[int, ...]) -> str:
    """What the family's processor writes in the place of a video of that grid."""
    assert one.video is not None
    names = SimpleNamespace(
        video_processor=SimpleNamespace(merge_size=2, temporal_patch_size=one.video.temporal_patch_size),
        video_token="<|video_pad|>",
        vision_start_token="<|vision_start|>",
        vision_end_token="<|vision_end|>",
    )
    processor = PROCESSORS[one.family.model_type]
    names._calculate_timestamps = lambda *given: processor._calculate_timestamps(names, *given)
    metadata = VideoMetadata(part.frames, fps=part.fps, frames_indices=list(shown))
    inputs = {"video_grid_thw": torch.tensor([grid]), "video_metadata": [metadata]}
    text: str = processor.replace_video_token(names, inputs, 0)
    return f"<|vision_start|>{text}<|vision_end|>" if one.family.model_type == "qwen2_5_vl" else text


def trajectory(*asked: str | VideoPart | ImagePart) -> Trajectory:
    turn = Turn(text="It is red.", action=Answer(text="red"))
    prompt = (said("user", *asked),)
    return Trajectory(id="t#0", task=Task(id="t", question="?"), prompt=prompt, turns=(turn,))


@st.composite
def clips(draw: st.DrawFn) -> VideoPart:
    """Records of videos, with frames chosen or not."""
    frames = draw(st.integers(2, 60))
    chosen = draw(st.none() | st.lists(st.integers(0, frames - 1), min_size=2, max_size=9).map(sorted))
    width, height = draw(st.tuples(st.integers(16, 500), st.integers(16, 500)))
    fps = draw(st.sampled_from([1.0, 10.0, 23.976, 29.97]))
    return record(frames, width, height, fps, None if chosen is None else tuple(chosen))


@given(part=clips(), before=st.sampled_from(["", "Look: ", "a\n", "(("]), after=st.sampled_from(["", " What?", ")"]))
def test_ids_are_those_that_the_processor_writes(
    checkpoint: Checkpoint, part: VideoPart, before: str, after: str
) -> None:
    family = checkpoint.family
    clip = family.clip(part, checkpoint.video)
    shown = clip.frames if part.sample is None else part.sample.indices
    text = f"<|im_start|>user\n{before}{own_text(checkpoint, part, clip.grid, shown)}{after}<|im_end|>\n"
    encoder = encoder_of(checkpoint)
    complete = f"{text}<|im_start|>assistant\n{encoder.frame.opening}"
    expected = checkpoint.tokenizer.encode(complete, add_special_tokens=False)
    asked = tuple(filter(None, (before, part, after)))
    segment = token_trajectory(trajectory(*asked), encoder).segments[0]
    prompt = build_prompt(replace(ask(), messages=(said("user", *asked),)), checkpoint)
    assert list(segment.ids) == list(prompt.ids) == expected
    assert (
        segment.visual == prompt.visual == expected.count(checkpoint.tokenizer.convert_tokens_to_ids("<|video_pad|>"))
    )
    assert segment.pictures == prompt.pictures == (PromptPicture(part, clip.tokens, clip),)


def grid_of(one: Checkpoint, part: ImagePart | VideoPart) -> tuple[int, int, int]:
    """Of a picture, by the image processor's own sizes."""
    width, height = one.family.prepared(Image.new("RGB", (part.width, part.height)), one.image_processor).size
    return 1, height // one.image_processor.patch_size, width // one.image_processor.patch_size


def pictures() -> st.SearchStrategy[ImagePart]:
    return st.builds(Videos.picture, st.integers(30, 300), st.integers(30, 300))


@given(asked=st.lists(clips() | pictures() | st.sampled_from([" Is ", "in\n", "?"]), min_size=2, max_size=5))
def test_ids_of_pictures_beside_videos(checkpoint: Checkpoint, asked: list[str | VideoPart | ImagePart]) -> None:
    """Each in its place: what the family's processors write for pictures and for videos."""
    text = ""
    for part in asked:
        if isinstance(part, VideoPart):
            clip = checkpoint.family.clip(part, checkpoint.video)
            text += own_text(checkpoint, part, clip.grid, clip.frames if part.sample is None else part.sample.indices)
        elif isinstance(part, ImagePart):
            patches = checkpoint.image_processor.get_number_of_image_patches(part.height, part.width, {})
            text += f"<|vision_start|>{'<|image_pad|>' * (patches // 4)}<|vision_end|>"
        else:
            text += part
    if checkpoint.family.trims == "messages":
        text = text.strip()
    encoder = encoder_of(checkpoint)
    complete = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n{encoder.frame.opening}"
    expected = checkpoint.tokenizer.encode(complete, add_special_tokens=False)
    segment = token_trajectory(trajectory(*asked), encoder).segments[0]
    prompt = build_prompt(replace(ask(), messages=(said("user", *asked),)), checkpoint)
    assert list(segment.ids) == list(prompt.ids) == expected
    assert [picture.part for picture in prompt.pictures] == [part for part in asked if not isinstance(part, str)]
    assert segment.pictures == prompt.pictures


@given(part=clips())
@example(part=record(45, 16, 407, 1.0, None))
def test_frames_are_chosen_and_sized_by_the_rules(checkpoint: Checkpoint, part: VideoPart) -> None:
    rules = checkpoint.video
    clip = checkpoint.family.clip(part, rules)
    assert rules is not None
    assert all(0 <= one <= other < part.frames for one, other in pairwise(clip.frames))
    assert len(clip.frames) == clip.grid[0] * 2
    assert clip.grid[1] % 2 == clip.grid[2] % 2 == 0
    pixels = clip.grid[1] * clip.grid[2] * rules.patch_size**2
    if checkpoint.family.model_type == "qwen2_5_vl":
        assert pixels <= rules.longest_edge
    else:
        # A side that is narrower than a patch of the model is widened to one, after the area was bounded.
        widened = max(1.0, rules.factor / min(part.width, part.height))
        most = rules.longest_edge * 1.5 * widened
        assert pixels * len(clip.frames) <= max(most, len(clip.frames) * rules.factor**2)
    if part.sample is None:
        assert clip.frames[0] == 0
        assert len(set(clip.frames)) >= min(part.frames, 4) - part.frames % 2


def test_frames_cost_half_of_what_pictures_cost(checkpoint: Checkpoint) -> None:
    """Of videos that neither rule scales: two frames are one step."""
    side = 4 * (checkpoint.video.factor if checkpoint.video is not None else 0)
    part = record(40, side, side, 10.0, tuple(range(0, 16, 2)))
    encoder = encoder_of(checkpoint)
    picture = encoder.count(Videos.picture(side, side))
    assert encoder.shown(part).tokens == 8 * picture // 2


def test_tensors_of_a_step_are_halves_of_what_pictures_give(checkpoint: Checkpoint) -> None:
    """The image processor doubles a picture into a step; a step of two frames has one half of each."""
    side = 4 * checkpoint.config.vision_config.patch_size
    part = VIDEOS.put(3, side, side + side // 2)
    chosen = record(3, side, side + side // 2, part.fps, (0, 1, 2), sha256=part.sha256)
    clip = checkpoint.family.clip(chosen, checkpoint.video)
    assert clip.size(0, 0) == (side, side + side // 2)
    rules = replace(clip.rules, image_mean=(0.5, 0.4, 0.3), image_std=(0.2, 0.3, 0.4))
    frames = [VIDEOS.frames[part.sha256][at] for at in (0, 1, 2, 2)]
    made = video_tensors([(replace(clip, rules=rules), frames)])
    own = checkpoint.image_processor(
        frames, return_tensors="pt", do_resize=False, image_mean=rules.image_mean, image_std=rules.image_std
    )["pixel_values"].unflatten(1, (3, 2, -1))
    pictures = own.unflatten(0, (4, -1))
    steps = [torch.stack([pictures[at][:, :, 0], pictures[at + 1][:, :, 0]], dim=2).flatten(1) for at in (0, 2)]
    torch.testing.assert_close(made["pixel_values_videos"], torch.cat(steps), rtol=0, atol=1e-5)
    assert made["video_grid_thw"].tolist() == [[2, (side + side // 2) // (side // 4), 4]]
    read = PictureTensors(checkpoint, VIDEOS)([PromptPicture(chosen, clip.tokens, clip)])
    torch.testing.assert_close(read, video_tensors([(clip, frames)]))


@settings(max_examples=25, deadline=None)
@given(
    items=st.lists(clips() | pictures() | st.sampled_from(["What is", " this?"]), min_size=1, max_size=5),
    packed=st.booleans(),
)
def test_positions_are_those_of_the_model(
    checkpoint: Checkpoint, items: list[str | VideoPart | ImagePart], packed: bool
) -> None:
    """Piece by piece: what stands behind a video begins behind its last moment."""
    encoder = encoder_of(checkpoint)
    row = token_row(token_trajectory(trajectory(*items), encoder))
    shown = [picture.clip for picture in row.pictures if picture.clip is not None]
    stills = [picture.part for picture in row.pictures if picture.clip is None]
    grids = {"video_grid_thw": torch.tensor([clip.grid for clip in shown])} if shown else {}
    grids |= {"image_grid_thw": torch.tensor([grid_of(checkpoint, part) for part in stills])} if stills else {}
    packed = packed and checkpoint.family.attention == "full"
    collate = Collator(encoder, lambda pictures: dict(grids), checkpoint.model, packed=packed)  # type: ignore[arg-type]
    positions = collate([row]).positions[-3:, 0]
    ids = torch.from_numpy(row.ids)[None]
    model, config = checkpoint.model.model, checkpoint.config
    kinds = 2 * (ids == config.video_token_id).int() + (ids == config.image_token_id).int()
    seconds = [clip.interval for clip in shown] or None
    own, _ = model.get_rope_index(
        ids,
        mm_token_type_ids=kinds,
        image_grid_thw=grids.get("image_grid_thw"),
        video_grid_thw=grids.get("video_grid_thw"),
        second_per_grid_ts=seconds,
    )
    own = own[:, 0]
    at = 0
    for clip in shown if checkpoint.family.model_type == "qwen2_5_vl" else ():
        # transformers goes on behind the sides, whatever the time; see `positions.py`
        at += int((ids[0, at:] == checkpoint.config.video_token_id).nonzero()[0, 0]) + clip.tokens
        own[:, at:] += max(0, int(own[0, at - 1]) - int(own[1:, at - 1].max()))
    assert positions.tolist() == own.tolist()


@pytest.mark.parametrize("family", [name for name, one in FAMILIES.items() if one.video is None])
def test_families_without_say_why(family: str) -> None:
    with pytest.raises(ValueError, match=f"{family} reads no videos in this process: It ") as caught:
        FAMILIES[family].clip(record(4, 64, 64, 2.0), None)
    assert FAMILIES[family].no_video in str(caught.value)


def test_a_video_of_one_frame_is_no_clip_of_qwen3() -> None:
    with pytest.raises(ValueError, match="1 frame, and 2 are merged"):
        FAMILIES["qwen3_vl"].clip(record(1, 64, 64, 2.0), None)
    assert FAMILIES["qwen2_5_vl"].clip(record(1, 64, 64, 2.0), None).frames == (0, 0)


def test_a_video_that_no_processor_takes_is_refused_with_the_way_out(checkpoint: Checkpoint) -> None:
    thin = record(8, 5000, 10, 2.0)
    with pytest.raises(TrainingError, match=r"cannot be shown a video of 5000x10.*frames\.fps=1"):
        encoder_of(checkpoint).shown(thin)
    with pytest.raises(ModelRefusedError, match=r"cannot be shown a video.*frames\.fps=1"):
        build_prompt(ask(thin), checkpoint)


def test_servers_are_given_no_frames(checkpoint: Checkpoint) -> None:
    shown = encoder_of(checkpoint).shown(record(8, 64, 64, 2.0))
    with pytest.raises(ModelRefusedError, match="server:x cannot be given the frames of a video"):
        image_parts([shown], "server:x")


def test_rules_are_read_as_transformers_reads_them(tmp_path: Path) -> None:
    family = FAMILIES["qwen2_5_vl"]
    assert family.video is not None
    (tmp_path / "preprocessor_config.json").write_text('{"min_pixels": 3136, "max_pixels": 50176, "patch_size": 14}')
    of_images = load_video_rules(str(tmp_path), {}, family)
    assert of_images == replace(family.video.rules, shortest_edge=3136, longest_edge=50176)
    (tmp_path / FILE).write_text('{"size": {"shortest_edge": 784, "longest_edge": 1568}, "image_mean": [0, 0.5, 1]}')
    of_videos = load_video_rules(str(tmp_path), {}, family)
    assert of_videos == replace(family.video.rules, shortest_edge=784, longest_edge=1568, image_mean=(0, 0.5, 1))
    (tmp_path / "processor_config.json").write_text('{"video_processor": {"fps": 1, "cap_pixels_per_frame": true}}')
    joint = load_video_rules(str(tmp_path), {}, family)
    assert joint == replace(family.video.rules, fps=1, cap_pixels_per_frame=True)
    (tmp_path / "processor_config.json").write_text('{"video_processor": {"resample": 0}}')
    with pytest.raises(ModelRefusedError, match="only bicubic"):
        load_video_rules(str(tmp_path), {}, family)
    assert load_video_rules(str(tmp_path), {}, FAMILIES["internvl"]) is None
