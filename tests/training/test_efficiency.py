"""Model FLOPs by hand and as torch counts them, and bytes of decoding; how near the limits a device is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.tiny import tiny_folder
from torch.utils.flop_counter import FlopCounterMode

from saccade.media.store import MediaStore
from saccade.tokens.batch import BatchRow, Collator, LanguageNumbers, copied_bytes, in_low_precision
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.segments import PromptPicture
from saccade.training.efficiency import (
    DeviceLimits,
    Meter,
    ModelWork,
    Part,
    PassFlops,
    device_limits,
    seen_pairs,
)
from saccade.training.rl.recipe import Recipe
from saccade.training.rl.step import update_flops
from saccade.training.settings import ModelSettings
from saccade.training.weights import load_trainable

TINY = ModelWork(
    language=Part(1000, 1000),
    head=Part(50, 50),
    attentions=((0, 8), (0, 8)),
    tower=Part(300, 0),
    projector=Part(20, 0),
    patches=4.0,
    tile=0,
    tower_windows=(0,),
    tower_width=6,
)
"""Two layers of a language model with 1,000 numbers in their matrices, and a tower of one layer that is not trained."""


def row(tokens: int, scored: int, *pictures: PromptPicture) -> BatchRow:
    return BatchRow("row", np.arange(tokens), np.arange(tokens) >= tokens - scored, pictures)


def test_a_row_of_text_by_hand() -> None:
    """10 tokens, 3 with logits: 2 x 1,000 x 10 + 2 x 50 x 3, and 4 x 8 for each of 2 x 55 pairs that see each other."""
    forward = 20_000 + 300 + 4 * 8 * 110
    assert TINY.flops([row(10, 3)]) == PassFlops(forward, 2 * forward)
    assert TINY.flops([row(10, 3)] * 2).both == 2 * 3 * forward


def test_what_is_frozen_costs_no_gradient_of_its_own() -> None:
    """Adapters of 100 numbers: backward passes through all, and gives gradients of those alone."""
    lora = replace(TINY, language=Part(1100, 100), head=Part(50, 0), attentions=())
    assert lora.flops([row(10, 3)]) == PassFlops(22_300, 22_000 + 300 + 2_000)


def test_a_picture_by_hand(tmp_path: Path) -> None:
    """5 features of 20 patches, which all see each other: 4 x 6 x 400. The tower is not trained, nor passed through."""
    store = MediaStore(tmp_path)
    picture = PromptPicture(store.put_image(Image.new("RGB", (56, 56))), 5)
    seen = 2 * 300 * 20 + 2 * 20 * 5 + 4 * 6 * 20 * 20
    plain, shown = TINY.flops([row(10, 3)]), TINY.flops([row(10, 3, picture)])
    assert (shown.forward - plain.forward, shown.backward) == (seen, plain.backward)
    windowed = replace(TINY, tower_windows=(8,))
    assert shown.forward - windowed.flops([row(10, 3, picture)]).forward == 4 * 6 * 20 * (20 - 8)
    learned = replace(TINY, projector=Part(20, 20)).flops([row(10, 3, picture)])
    assert learned.backward - plain.backward == 2 * 20 * 5, "of its weights: nothing below it is trained"
    learned = replace(TINY, tower=Part(300, 300), projector=Part(20, 20)).flops([row(10, 3, picture)])
    assert learned.backward - plain.backward == 2 * seen


@pytest.mark.parametrize(
    ("epochs", "kl", "old", "passes"),
    [(1, 0.0, "sampler", 3), (1, 0.0, "recompute", 3), (2, 0.0, "recompute", 7), (2, 0.1, "recompute", 9)],
)
def test_an_update_by_hand(epochs: int, kl: float, old: str, passes: int) -> None:
    """A forward pass of the row above is 23,820, backward twice that. Of two epochs, old log-probabilities need one
    more (7 = 2 x 3 + 1), which of one its own pass gives; and a reference looks in each (9 = 2 x 4 + 1).
    """
    more = {"optimizer": {"epochs": epochs}, "loss": {"kl_weight": kl, "old_logprobs": old}}
    recipe = Recipe.model_validate({"dialect": "direct", "reward": {"preset": "codedance"}, **more})
    assert update_flops(TINY.flops([row(10, 3)]), recipe) == passes * 23_820


@pytest.mark.parametrize(("length", "window", "pairs"), [(4, 0, 10), (4, 9, 10), (4, 2, 7), (1, 0, 1)])
def test_pairs_that_see_each_other(length: int, window: int, pairs: int) -> None:
    assert seen_pairs(length, window) == pairs


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("family", "share"),
    [("qwen2_5_vl", 0.03), ("qwen3_vl", 0.03), ("glm4v", 0.03), ("internvl", 0.03), ("gemma4", 0.04)],
)
def test_flops_are_those_that_torch_counts(family: str, share: float, tmp_path: Path) -> None:
    """Products of the eager pass, in which every token meets every other, also those behind it."""
    settings = ModelSettings(source=str(tiny_folder(family)), vision="full", attention="eager")
    trained = load_trainable(settings, torch.device("cpu"), 0)
    store = MediaStore(tmp_path)
    encoder = trained.encoder
    part = store.put_image(Image.new("RGB", (112, 84), "red"))
    picture = PromptPicture(part, encoder.count(part))
    ids = np.array([5, *[encoder.placeholder_id] * picture.tokens, *[90] * 20])
    learned = np.arange(len(ids)) >= len(ids) - 15
    one = BatchRow("one", ids, learned, (picture,))
    batch = Collator(encoder, PictureTensors(encoder, store), trained.model, packed=False)([one])
    with FlopCounterMode(display=False) as counted:
        scores = trained.scorer(batch, batch.lay_out([learned], False))
        scores.logprobs.sum().backward()
    work = ModelWork.of(trained)
    unseen = sum(width * (len(ids) ** 2 - seen_pairs(len(ids), window)) for window, width in work.attentions)
    again = 2 * work.head.numbers * 15  # logits are computed once more for their gradient
    pixels = next(weight for name, weight in trained.model.named_parameters() if "patch_embed" in name)
    bottom = 2 * pixels.numel() * work.patches * picture.tokens  # no gradient of pixels, which half of a tiny tower is
    expected = work.flops([one]).both + again - bottom + 3 * 4 * unseen
    assert counted.get_total_flops() == pytest.approx(expected, rel=share)


def test_shares_of_limits() -> None:
    meter = Meter(DeviceLimits(1e6, 1e3, "by hand"), TINY)
    assert meter.mfu(5e6, 2.0, 5) == 0.5
    assert meter.bandwidth(100.0, 0.5) == 0.2


def test_a_cpu_has_measured_limits_and_a_known_card_those_of_its_data_sheet(monkeypatch: pytest.MonkeyPatch) -> None:
    here = device_limits(torch.device("cpu"), torch.float32)
    assert here.flops > 1e7
    assert here.bytes > 1e7
    assert "measured" in here.says
    from saccade.training import efficiency

    monkeypatch.setattr(efficiency, "_copy_rate", lambda device, size: 4.3e12)
    monkeypatch.setattr(efficiency, "_product_rate", lambda device, dtype, side: 1e12)
    for name, peak in (("NVIDIA H100 80GB HBM3", 989e12), ("NVIDIA H100 PCIe", 756e12), ("NVIDIA RTX Z", 1e12)):
        device_limits.cache_clear()
        monkeypatch.setattr("torch.cuda.get_device_name", lambda device, name=name: name)
        assert device_limits(torch.device("cuda"), torch.bfloat16).flops == peak
    device_limits.cache_clear()


def test_what_a_decoding_pass_reads() -> None:
    """Every matrix of the language model but its embeddings, and the head; of experts as many as can be chosen."""
    trained = load_trainable(ModelSettings(source=str(tiny_folder())), torch.device("cpu"), 0)
    text = trained.model.config.get_text_config()
    size, inner = text.hidden_size, text.intermediate_size
    head = size // text.num_attention_heads
    attention = 2 * size * size + 2 * size * head * text.num_key_value_heads
    by_hand = text.num_hidden_layers * (attention + 3 * size * inner) + text.vocab_size * size
    assert LanguageNumbers.of(trained.model).read(1) == LanguageNumbers.of(trained.model).read(9) == by_hand
    sparse = LanguageNumbers(dense=10, experts=80, chosen=0.25, head=5)
    assert (sparse.of_a_token(), sparse.read(1), sparse.read(2), sparse.read(9)) == (30, 35, 55, 95)


def test_copies_for_sampling_give_the_same_numbers_and_leave_the_weights() -> None:
    settings = ModelSettings(source=str(tiny_folder()), precision="bfloat16")
    trained = load_trainable(settings, torch.device("cpu"), 0)
    before = dict(trained.model.named_parameters())
    ids, at = torch.arange(20, 60)[None], torch.arange(40).repeat(3, 1, 1)

    def logits() -> torch.Tensor:
        with torch.inference_mode(), trained.autocast():
            hidden = trained.model.model(input_ids=ids, position_ids=at, use_cache=False).last_hidden_state
            made: torch.Tensor = trained.model.get_output_embeddings()(hidden)
        return made

    plain = logits()
    size = copied_bytes(trained.model)
    with in_low_precision(trained.model, low=True):
        assert copied_bytes(trained.model) == 0, "nothing is left that a pass would cast"
        assert torch.equal(logits(), plain)
    after = dict(trained.model.named_parameters())
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in after)
    text = LanguageNumbers.of(trained.model)
    assert size == 2 * (text.dense + text.head), "the tower is frozen, and in bfloat16 already"
    with in_low_precision(trained.model, low=False):
        assert copied_bytes(trained.model) == size
