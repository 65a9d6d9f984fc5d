"""The plan of a supervised run's memory."""

import tomllib
from pathlib import Path

import pytest

from saccade.cli.main import main
from saccade.errors import SettingsError
from saccade.models.tiny import save_tiny
from saccade.recipes.find import find_recipe, recipe_names
from saccade.record.settings import load_settings
from saccade.sft.train.plan import plan_memory
from saccade.sft.train.settings import SftSettings

SEVEN = "model.source=Qwen/Qwen2.5-VL-7B-Instruct"


@pytest.mark.slow
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


@pytest.mark.parametrize("name", recipe_names("sft"))
def test_shipped_recipes_say_what_decides_the_memory(name: str) -> None:
    """In the file itself: a default may change, and who reads a recipe need not know it."""
    said = tomllib.loads(find_recipe("sft", name).read_text())
    assert said["data"]["most_tokens"] <= said["batch"]["tokens"], "or the longest row is a pass of its own"
    assert said["model"]["gradient_checkpointing"]
    assert isinstance(said["model"]["shard"], bool)
    assert said["batch"]["trajectories"] > 0


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # peft asks for it
@pytest.mark.parametrize("name", recipe_names("sft"))
def test_shipped_recipes_fit_eight_gpus_of_80_gib(name: str) -> None:
    settings = load_settings(SftSettings, find_recipe("sft", name), [SEVEN])
    plan_memory(settings, 8, "cuda").check(80.0)
    if settings.model.shard:
        with pytest.raises(SettingsError, match="shard"):
            plan_memory(settings, 1, "cuda").check(80.0)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # peft asks for it
def test_adapters_fit_one_gpu_of_32_gib() -> None:
    plan_memory(load_settings(SftSettings, find_recipe("sft", "lora"), [SEVEN]), 1, "cuda").check(32.0)
