from __future__ import annotations

from pathlib import Path

import pytest

from saccade.errors import SettingsError
from saccade.record.settings import load_saved, save_settings
from saccade.rl.engines.settings import EngineSettings
from saccade.rl.train.settings import RlSettings, check_settings, load_rl_settings

RECIPE = """
dialect = "direct"
[reward]
preset = "pyvision-rl@1:paper"
[engine]
source = "vllm"
gpus = 2
[profile.laptop.engine]
gpus = 0
"""
NAMED = ("model.source=x", "tasks.source=touching-circles")


def test_a_recipe_says_who_samples_and_the_run_keeps_it(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    settings = load_rl_settings(recipe, None, NAMED)
    assert settings.engine == EngineSettings(source="vllm", gpus=2)
    assert settings.recipe.engine is None
    assert load_rl_settings(recipe, "laptop", NAMED).engine.gpus == 0
    assert load_rl_settings(recipe, None, [*NAMED, "engine.gpus=4"]).engine.gpus == 4
    save_settings(settings, tmp_path / "settings.toml")
    assert load_saved(RlSettings, tmp_path / "settings.toml") == settings
    with pytest.raises(SettingsError, match=r"engine\.gpus is for servers that the run starts"):
        check_settings(load_rl_settings(recipe, None, [*NAMED, "engine.source=http://a:1"]))


def test_settings_of_a_run_of_before_are_read(tmp_path: Path) -> None:
    saved = tmp_path / "settings.toml"
    plain = load_rl_settings("codedance", "tiny", [*NAMED, "engine=http://a:1"])
    save_settings(plain, saved)
    text = saved.read_text()
    before = text.partition("[engine]")[0]
    rest = text.partition("[engine]")[2].partition("\n[")
    saved.write_text('engine = "http://a:1"\n' + before + "[" + rest[2])
    assert load_saved(RlSettings, saved).engine == EngineSettings(source="http://a:1")
