"""Families beyond ChatML through the commands: trained by SFT and by RL, exported, and asked again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from PIL import Image
from tests.cli.test_train import command
from tests.models.helpers import Media, ask
from tests.training.sft.train.support import settings, write_run

from saccade.cli.main import main
from saccade.core.settings import save_settings
from saccade.models.base import Completion, Request
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.tokens.local_model import LocalModel

pytestmark = [
    pytest.mark.slow,
    # transformers falls back to code of its own where a kernel for linear attention is missing.
    pytest.mark.filterwarnings("ignore:.*is falling back"),
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),  # peft asks for it
]


async def asked(model: LocalModel, request: Request, media: Media) -> Completion:
    try:
        return await model.complete(request, media)
    finally:
        await model.close()


@pytest.mark.parametrize("family", ["qwen3_5", "glm46v", "gemma4"])
@pytest.mark.parametrize("language", ["full", "lora"])
def test_a_checkpoint_is_trained_and_runs(family: str, language: str, tmp_path: Path) -> None:
    save_tiny(tmp_path / "tiny", family)
    write_run(tmp_path / "run", 3)
    recipe = tmp_path / "recipe.toml"
    save_settings(settings(Path("nowhere"), validation={"fraction": 0.3, "every": 1}), recipe)
    options = ["--data", str(tmp_path / "run"), "--model", str(tmp_path / "tiny"), "--out", str(tmp_path / "sft")]
    more = ["--set", "steps=2", "--set", f"model.language={language}"]
    assert main(["sft", str(recipe), *options, *more]) == 0
    lines = [json.loads(line) for line in (tmp_path / "sft" / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert len(losses) >= 2
    assert losses[-1] < losses[0]
    given = ("--model", str(tmp_path / "sft" / "model"), "--tasks", "pixel-colour")
    more = ("--set", f"model.language={language}", "--set", "model.picture_pixels=0")
    assert main(command(tmp_path / "rl", *given, *more)) == 0
    model = LocalModel(str(tmp_path / "rl" / "model"))
    media = Media()
    red = media.put(Image.new("RGB", (112, 56), "red"))
    done = asyncio.run(asked(model, ask("What is it? ", red), media))
    assert done.token_ids
    assert done.usage.prompt_tokens > 10
