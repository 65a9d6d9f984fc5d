"""Videos in the plan: visual tokens worked out by hand, and a clip that was really made into tokens and tensors."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.helpers import said
from tests.tokens.videos import FORMS, Videos
from tests.training.support import allocated

from saccade.errors import SettingsError
from saccade.models.families.known import FAMILIES
from saccade.models.local_tokens import FILE
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.record.content import Answer
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory, Turn
from saccade.tokens.build import token_trajectory
from saccade.tokens.pictures import PictureTensors
from saccade.training.memory import _pixel_bytes, minute_of_video, video_note
from saccade.training.memory_passes import make_skeleton, vision_pass
from saccade.training.settings import ModelSettings
from saccade.training.weights import load_trainable


def test_a_minute_of_video_by_hand(tmp_path: Path) -> None:
    """Two frames a second; Qwen2.5-VL bounds each by 768 features, Qwen3-VL's files all of them together."""
    assert video_note(str(tmp_path), FAMILIES["qwen3_vl"], 100).startswith("How many visual tokens a video takes")
    (tmp_path / "preprocessor_config.json").write_text('{"min_pixels": 3136, "max_pixels": 12845056}')
    one = minute_of_video(str(tmp_path), FAMILIES["qwen2_5_vl"])
    assert one is not None
    # 1280x720 shrinks by sqrt(1280 * 720 / (768 * 28^2)) = 1.237 to 36 by 20 features of 28 pixels
    assert (len(one.frames), one.grid, one.step_tokens, one.tokens) == (120, (60, 40, 72), 720, 43_200)
    assert video_note(str(tmp_path), FAMILIES["qwen2_5_vl"], 32_768) == (
        "A minute of 1280x720 video is 120 frames and 43200 visual tokens; an episode of 32768 tokens holds 45 seconds "
        "of it at this rate and size."
    )
    (tmp_path / FILE).write_text(json.dumps({"size": {"shortest_edge": 4096, "longest_edge": 25165824}}))
    three = minute_of_video(str(tmp_path), FAMILIES["qwen3_vl"])
    assert three is not None
    # by sqrt(120 * 1280 * 720 / 25165824) = 2.096 to 19 by 10 features of 32 pixels
    assert (len(three.frames), three.grid, three.tokens) == (120, (60, 20, 38), 11_400)
    with pytest.raises(SettingsError, match="shows videos as such, and internvl reads no videos"):
        video_note(str(tmp_path), FAMILIES["internvl"], 32_768)


@pytest.fixture(scope="module", params=FORMS)
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    save_tiny(folder, request.param)
    return folder


def test_a_clip_holds_as_many_bytes_as_were_planned(tiny: Path) -> None:
    settings, videos = ModelSettings(source=str(tiny)), Videos()
    encoder = load_trainable(settings, torch.device("cpu"), 0).encoder
    prompt = (said("user", videos.put(9, 120, 90), Videos.picture(90, 120), "What?"),)
    turn = Turn(text="red", action=Answer(text="red"))
    asked = Trajectory(id="t#0", task=Task(id="t", question="?"), prompt=prompt, turns=(turn,))
    segment = token_trajectory(asked, encoder).segments[0]
    clips = [picture for picture in segment.pictures if picture.clip is not None]
    assert segment.visual == sum(picture.tokens for picture in segment.pictures) > clips[0].tokens
    made = PictureTensors(encoder, videos)(clips)
    assert _pixel_bytes(make_skeleton(settings, low=False), clips[0].tokens) == made["pixel_values_videos"].nbytes


@pytest.mark.slow
@pytest.mark.parametrize("vision", ["frozen", "full"])
def test_the_tower_takes_of_a_clip_what_was_planned(tiny: Path, vision: str) -> None:
    settings = ModelSettings(source=str(tiny), vision=vision)
    trained = load_trainable(settings, torch.device("cpu"), 0)
    for weight in trained.parameters().values():
        weight.grad = torch.zeros_like(weight)
    model = trained.model.model

    def seen(pixels: torch.Tensor, grid: tuple[int, int, int]) -> tuple[int, int]:
        """Bytes that a clip takes, and pictures as large as its steps."""
        stills = torch.tensor([(1, *grid[1:])] * grid[0])
        return (
            allocated(lambda: looked(model.get_video_features(pixels, torch.tensor([grid])))),
            allocated(lambda: looked(model.get_image_features(pixels, stills))),
        )

    def looked(made: Any) -> None:
        if vision == "full":
            sum(part.sum() for part in made.pooler_output).backward()

    videos = Videos()
    shown = trained.encoder.shown(videos.put(16, 200, 160))
    assert shown.clip is not None
    pixels = PictureTensors(trained.encoder, videos)([shown])["pixel_values_videos"]
    of_video, of_pictures = seen(pixels, shown.clip.grid)
    assert of_video == pytest.approx(of_pictures, rel=0.01)
    # A clip of as many patches a side as the plan measures with.
    planned = vision_pass(make_skeleton(settings, low=False), 8 * 16, settings)
    of_video, _ = seen(torch.zeros((8 * 64, pixels.shape[1])), (8, 8, 8))
    assert planned.most == pytest.approx(of_video, rel=0.15)
