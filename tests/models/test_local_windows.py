"""Attending in equal windows at once gives what one after the other gives, forwards and backwards."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from saccade.models.local_weights import attend_together
from saccade.plugins.worlds.random_checkpoint import save_tiny

GRIDS = {
    "one picture": [(1, 6, 4)],
    "equal pictures": [(1, 4, 4), (1, 4, 4), (1, 4, 4)],
    "sizes in turn": [(1, 4, 4), (1, 8, 6), (1, 4, 4), (1, 8, 6), (1, 2, 10)],
    "a video": [(3, 4, 6), (1, 4, 4)],
}


@pytest.fixture(scope="module", params=["qwen2_5_vl", "qwen3_vl"])
def tower(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp(request.param)
    save_tiny(folder, request.param)
    return transformers.AutoModelForImageTextToText.from_pretrained(folder)


def seen(model: Any, grid: list[tuple[int, int, int]]) -> tuple[Any, dict[str, Any]]:
    """Features of the tower for noise, and their gradient in its weights."""
    visual = model.model.visual
    patches = sum(frames * high * wide for frames, high, wide in grid)
    size = visual.patch_embed.proj.weight[0].numel()
    noise = torch.randn(patches, size, generator=torch.Generator().manual_seed(1))
    model.zero_grad()
    features = visual(noise, grid_thw=torch.tensor(grid)).pooler_output
    together = torch.cat(list(features)) if isinstance(features, tuple | list) else features
    (together * torch.arange(together.shape[-1])).sum().backward()
    return together.detach(), {name: p.grad.clone() for name, p in visual.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS.keys())
def test_features_and_gradients_are_the_same(tower: Any, grid: list[tuple[int, int, int]]) -> None:
    changed = copy.deepcopy(tower)
    attend_together(changed)
    assert type(changed.model.visual.blocks[0].attn) is not type(tower.model.visual.blocks[0].attn)
    plain, together = seen(tower, grid), seen(changed, grid)
    torch.testing.assert_close(together[0], plain[0], rtol=1e-4, atol=1e-5)
    assert together[1].keys() == plain[1].keys()
    for name, gradient in plain[1].items():
        torch.testing.assert_close(together[1][name], gradient, rtol=1e-3, atol=1e-3, msg=name)


def test_another_kind_of_model_is_left_alone(tmp_path: Path) -> None:
    save_tiny(tmp_path, "internvl")
    model = transformers.AutoModelForImageTextToText.from_pretrained(tmp_path)
    before = {name: type(module) for name, module in model.named_modules()}
    attend_together(model)
    assert {name: type(module) for name, module in model.named_modules()} == before
