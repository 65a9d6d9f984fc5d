"""The plan of a supervised run's memory."""

from pathlib import Path

import pytest

from saccade.cli.main import main
from saccade.models.tiny import save_tiny
from saccade.recipes.find import find_recipe, recipe_names
from saccade.record.settings import load_settings
from saccade.sft.train.plan import plan_memory
from saccade.sft.train.settings import SftSettings


def test_a_plan_needs_no_data_and_no_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tiny(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    given = ["sft", "plain", "--model", str(tmp_path), "--plan"]
    assert main([*given, "--gpu-memory", "8"]) == 0
    said = capsys.readouterr().out
    assert "activations" in said
    assert "It fits." in said
    assert main([*given, "--gpu-memory", "2.2", "--set", "batch.tokens=400000"]) == 2
    assert "batch.tokens" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # peft asks for it
def test_shipped_recipes_fit_eight_gpus_of_80_gib() -> None:
    for name in recipe_names("sft"):
        overrides = ["model.source=Qwen/Qwen2.5-VL-7B-Instruct"]
        plan_memory(load_settings(SftSettings, find_recipe("sft", name), overrides), 8, "cuda").check(80.0)
