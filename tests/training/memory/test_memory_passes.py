"""Passes without data against the real ones: what torch's allocator holds while a tiny checkpoint learns."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.support import allocated

from saccade.errors import SettingsError
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.tokens.batch import Batch
from saccade.training.memory import state_bytes
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


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    save_tiny(folder, "qwen2_5_vl")
    return folder


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


@pytest.mark.parametrize("more", [{}, {"gradient_checkpointing": True}, {"precision": "bfloat16"}], ids=str)
@pytest.mark.slow
def test_a_pass_takes_what_was_planned(tiny: Path, more: dict[str, Any]) -> None:
    """Forward, scores and backward of the real model, above its weights and their gradients."""
    settings = ModelSettings(source=str(tiny), logit_chunk=256, **more)
    skeleton = make_skeleton(settings, low="precision" in more)
    language, logits = language_pass(skeleton, TOKENS), logit_pass(skeleton, TOKENS, 256)
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

    assert planned == pytest.approx(allocated(update), rel=0.15)


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
