"""The plan of a run's memory against the real one: visual tokens by hand, and what torch's allocator holds."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.models.helpers import said
from tests.tiny import tiny_folder
from tests.tokens.videos import FORMS, Videos
from tests.training.divided import SCENARIOS
from tests.training.support import allocated

from saccade.errors import SettingsError
from saccade.models.families.known import FAMILIES
from saccade.models.local_weights import FILE
from saccade.record.content import Answer
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory, Turn
from saccade.tokens.batch import Batch, token_trajectory
from saccade.tokens.caches import GIB
from saccade.tokens.pictures import PictureTensors
from saccade.training import memory_passes
from saccade.training.memory import (
    Phase,
    TrainingMemory,
    _pixel_bytes,
    minute_of_video,
    state_bytes,
    training_memory,
    video_note,
)
from saccade.training.memory_passes import (
    PeakBytes,
    known_shapes,
    language_pass,
    logit_pass,
    make_skeleton,
    read_config,
    vision_pass,
)
from saccade.training.settings import ModelSettings
from saccade.training.weights import load_trainable

TOKENS = 1500


def test_storages_count_while_they_live() -> None:
    with PeakBytes() as counted:
        one = torch.zeros(1000)
        same = one.view(10, 100)[3]
        assert counted.live == 4000
        other = one + 1
        assert counted.live == 8000
        del other
        assert counted.live == 4000
        one.add_(1)
        del one, same
    assert (counted.live, counted.most) == (0, 8000)


def test_weights_are_those_of_the_checkpoint(tiny: Path) -> None:
    settings = ModelSettings(source=str(tiny), vision="projector", precision="bfloat16")
    real, skeleton = load_trainable(settings, torch.device("cpu"), 0), make_skeleton(settings, low=True)
    ours = {name: (value.shape, value.dtype, value.requires_grad) for name, value in skeleton.model.named_parameters()}
    theirs = {name: (value.shape, value.dtype, value.requires_grad) for name, value in real.model.named_parameters()}
    assert ours == theirs
    state = state_bytes(skeleton, 1, shard=True, muon=False)
    assert state.weights == sum(value.nbytes for value in real.model.parameters())
    learned = sum(value.numel() for value in real.parameters().values())
    assert (state.gradients, state.optimizer, state.gathered_update) == (4 * learned, 8 * learned, 0)


def test_two_layers_and_three_tell_of_many(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = json.loads((tiny / "config.json").read_text())
    text = config.get("text_config", config)
    text["num_hidden_layers"] = 4
    text.pop("layer_types", None)
    (tmp_path / "config.json").write_text(json.dumps(config))
    settings = ModelSettings(source=str(tmp_path), gradient_checkpointing=True)
    found = []
    for few in (3, 4):
        monkeypatch.setattr(memory_passes, "_FEW", few)
        skeleton = make_skeleton(settings, low=False)
        found.append([language_pass(skeleton, 300, recompute=recompute) for recompute in (False, True)])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "more", [{}, {"gradient_checkpointing": True}, {"gradient_checkpointing": 1}, {"precision": "bfloat16"}], ids=str
)
@pytest.mark.slow
def test_a_pass_takes_what_was_planned(tiny: Path, more: dict[str, Any]) -> None:
    """Forward, scores and backward of the real model, above its weights and their gradients."""
    settings = ModelSettings(source=str(tiny), logit_chunk=256, **more)
    skeleton = make_skeleton(settings, low="precision" in more)
    language = training_memory(settings, TOKENS, 1, low="precision" in more).language
    logits = logit_pass(skeleton, TOKENS, 256)
    planned = max(language.most, language.held + logits.most)
    trained = load_trainable(settings, torch.device("cpu"), 0)
    trained.model.train()
    ids = torch.full((1, TOKENS), trained.encoder.pad_id)
    batch = Batch(ids, torch.arange(TOKENS).repeat(3, 1, 1), {}, ((0, 0, TOKENS),))
    learned = torch.ones((1, TOKENS), dtype=torch.bool)
    learned[0, 0] = False
    for weight in trained.parameters().values():
        weight.grad = torch.zeros_like(weight)  # counted elsewhere

    def update() -> None:
        with trained.autocast():
            scores = trained.scorer(batch, learned)
        (scores.logprobs.sum() + scores.entropy.sum()).backward()

    taken, some = allocated(update), type(more.get("gradient_checkpointing")) is int
    # Between all layers and none the plan is a line, which lies above: by a fifth where there are but two layers.
    assert planned == pytest.approx(taken, rel=0.25 if some else 0.15)
    assert not some or planned >= taken


def test_as_few_layers_recompute_as_the_memory_asks_for(tiny: Path) -> None:
    def planned(layers: bool | int | str) -> TrainingMemory:
        settings = ModelSettings.model_validate({"source": str(tiny), "gradient_checkpointing": layers})
        return training_memory(settings, 400, 1, low=False)

    def phase(memory: TrainingMemory) -> Phase:
        return memory.update(True, "tokens")

    def room(memory: TrainingMemory) -> float:
        """GiB at which a GPU just holds it."""
        return (phase(memory).total / 0.9 + 2 * GIB) / 0.95 / GIB + 1e-6

    auto, none, one = (planned(layers) for layers in ("auto", False, 1))
    tried = [replace(auto, language=language) for language in auto.by_layers]
    assert len(tried) == 3, "two layers"
    assert auto.fitted(phase, None) == (auto, 2)
    assert auto.fitted(phase, room(tried[2]) - 1e-3)[1] == 2, "does not fit, which `check` says"
    assert [auto.fitted(phase, room(each)) for each in tried] == [(each, layers) for layers, each in enumerate(tried)]
    assert tried[1].language == one.language
    assert auto.by_layers[0].held == pytest.approx(none.language.held, rel=0.05)
    assert none.fitted(phase, 80.0) == (none, 0), "the plan is asked only for `auto`"


@pytest.mark.parametrize("vision", ["frozen", "full"])
@pytest.mark.slow
def test_a_deeper_tower_and_more_pictures_are_foreseen(tiny: Path, tmp_path: Path, vision: str) -> None:
    config = json.loads((tiny / "config.json").read_text())
    config["vision_config"]["depth"] = 5
    (tmp_path / "config.json").write_text(json.dumps(config))
    settings = ModelSettings(source=str(tmp_path), vision=vision)
    planned = vision_pass(make_skeleton(settings, low=False), 8 * 16, settings)
    import transformers

    model = transformers.AutoModelForImageTextToText.from_config(read_config(str(tmp_path)))
    model.model.visual.requires_grad_(vision == "full")
    pixels, grid = torch.zeros((8 * 64, 1176)), torch.tensor([[1, 8, 8]] * 8)
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)

    def look() -> None:
        features = model.model.get_image_features(pixels, grid).pooler_output
        if vision == "full":
            sum(part.sum() for part in features).backward()

    assert planned.most == pytest.approx(allocated(look), rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("name", known_shapes())
def test_a_known_shape_has_as_many_weights_as_the_checkpoint(name: str) -> None:
    skeleton = make_skeleton(ModelSettings(source=f"Qwen/{name}"), low=True)
    assert sum(weight.numel() for weight in skeleton.model.parameters()) == known_shapes()[name]["weights"]


def test_an_unknown_shape_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"hf download a/b config\.json --local-dir.*Qwen2\.5-VL-7B-Instruct"):
        read_config("a/b")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(SettingsError, match="family 'llama'"):
        read_config(str(tmp_path))


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
def shown(request: pytest.FixtureRequest) -> Path:
    return tiny_folder(request.param)


def test_a_clip_holds_as_many_bytes_as_were_planned(shown: Path) -> None:
    settings, videos = ModelSettings(source=str(shown)), Videos()
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
def test_the_tower_takes_of_a_clip_what_was_planned(shown: Path, vision: str) -> None:
    settings = ModelSettings(source=str(shown), vision=vision)
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
    clip = trained.encoder.shown(videos.put(16, 200, 160))
    assert clip.clip is not None
    pixels = PictureTensors(trained.encoder, videos)([clip])["pixel_values_videos"]
    of_video, of_pictures = seen(pixels, clip.clip.grid)
    assert of_video == pytest.approx(of_pictures, rel=0.01)
    # A clip of as many patches a side as the plan measures with.
    planned = vision_pass(make_skeleton(settings, low=False), 8 * 16, settings)
    of_video, _ = seen(torch.zeros((8 * 64, pixels.shape[1])), (8, 8, 8))
    assert planned.most == pytest.approx(of_video, rel=0.15)


ROOT = Path(__file__).resolve().parents[2]


def play(checkpoint: Path, out: Path, processes: int, *names: str) -> None:
    command = [sys.executable, "-m", "tests.training.divided", str(checkpoint), str(out), str(processes), *names]
    subprocess.run(command, cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def played(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The folders of all scenarios in one process and in two."""
    folders = {}
    for count in (1, 2):
        folders[count] = tmp_path_factory.mktemp(f"by-{count}")
        play(tiny, folders[count], count, *SCENARIOS)
    return folders


def tensors(folder: Path, kind: str, step: int = 2) -> dict[str, torch.Tensor]:
    files = sorted((folder / "checkpoints" / f"step-{step:08d}").glob(f"{kind}*.safetensors"))
    return {name: value for file in files for name, value in load_file(file).items()}


def printed(folder: Path, step: int = 2) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"said-{step}.json").read_text())
    return found


def apart(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], before: dict[str, torch.Tensor]) -> float:
    """How far two results are from each other, as a fraction of how far training went."""
    assert ours.keys() == theirs.keys()
    between = sum(float((ours[name] - theirs[name]).abs().sum()) for name in ours)
    return between / sum(float((theirs[name] - before[name]).abs().sum()) for name in ours if name in before)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SCENARIOS)
def test_two_processes_learn_what_one_does(played: dict[int, Path], tiny: Path, name: str) -> None:
    one, two = played[1] / name, played[2] / name
    loose = name == "bfloat16"  # added up in another order, and gathered weights are rounded before they are used
    assert printed(two)["norms"] == pytest.approx(printed(one)["norms"], rel=2e-2 if loose else 1e-4)
    assert printed(two)["norms"][0] > 0.5, "the gradient was cut"
    first, ours, theirs = load_file(tiny / "model.safetensors"), load_file(two / "model/model.safetensors"), None
    theirs = load_file(one / "model/model.safetensors")
    # Adam makes something of the sign of a gradient that is 0 but for rounding.
    assert apart(ours, theirs, first) < (0.3 if loose else 0.01)
    assert printed(two)["hidden"] == pytest.approx(printed(one)["hidden"], abs=0.1 if loose else 1e-3)
    assert tensors(two, "optimiser").keys() == tensors(one, "optimiser").keys()
    files = list((two / "checkpoints/step-00000002").glob("weights*"))
    assert len(files) == 2, "each process writes some of the tensors"
    assert all(value.shape == tensors(one, "weights")[key].shape for key, value in tensors(two, "weights").items())


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["full", "lora", "muon"])
@pytest.mark.parametrize("count", [1, 2])
def test_the_plan_knows_what_a_process_keeps(played: dict[int, Path], tiny: Path, name: str, count: int) -> None:
    """In bytes; divided, rows of a weight are, so that shares differ by a row."""
    model, method = SCENARIOS[name]
    skeleton = make_skeleton(ModelSettings(source=str(tiny), shard=True, **model), low=False)
    planned = state_bytes(skeleton, count, shard=True, muon=method == "muon")
    measured = printed(played[count] / name)["bytes"]
    for kind in ("weights", "gradients", "optimizer"):
        assert getattr(planned, kind) == pytest.approx(measured[kind], rel=0.0 if count == 1 else 0.03), kind


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_checkpoint_is_read_by_any_number_of_processes(played: dict[int, Path], tiny: Path, tmp_path: Path) -> None:
    """Two steps more from the checkpoint of the other number are those from one's own, and of the same exactly."""

    def goes_on(name: str, start: int, by: int) -> Path:
        shutil.copytree(played[start] / "full", tmp_path / name / "full")
        play(tiny, tmp_path / name, by, "full")
        return tmp_path / name / "full"

    first = tensors(played[1] / "full", "weights")
    for by in (1, 2):
        own, others = (tensors(goes_on(f"{start}-{by}", start, by), "weights", 4) for start in (1, 2))
        assert apart(own, others, first) < 0.02
    again = goes_on("again", 2, 2)
    for kind in ("weights", "optimiser"):
        ours, theirs = (tensors(folder, kind, 4) for folder in (again, tmp_path / "2-2" / "full"))
        assert all(torch.equal(ours[key], value) for key, value in theirs.items())
