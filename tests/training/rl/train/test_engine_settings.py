from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tests.training.rl.train.support import rl_settings

from saccade.core.settings import load_saved, save_settings
from saccade.errors import SettingsError, UnavailableError
from saccade.tokens.sequences import cache_bytes_of
from saccade.training.folder import check_folder
from saccade.training.rl.engine import sync_weights
from saccade.training.rl.engines.settings import EngineSettings
from saccade.training.rl.run import train
from saccade.training.rl.server_engine import cache_of_batch, most_context
from saccade.training.rl.settings import MAY_CHANGE, MAY_DIFFER, MAY_GROW, RlSettings, check_settings, load_rl_settings
from saccade.training.settings import ModelSettings
from saccade.training.weights import load_trainable

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


def test_a_dialect_that_shows_videos_is_not_sampled_by_servers() -> None:
    named = [*NAMED, "dialect=direct:video"]
    check_settings(load_rl_settings("codedance", None, named))
    with pytest.raises(SettingsError, match=r"recipe\.dialect: direct@1:video shows videos .*leave --engine out"):
        check_settings(load_rl_settings("codedance", None, [*named, "engine.source=vllm"]))


async def test_every_process_waits_until_the_engine_has_the_weights() -> None:
    waited: list[str] = []
    processes = SimpleNamespace(barrier=lambda: waited.append("all"), device=SimpleNamespace(type="cpu"))
    learner = SimpleNamespace(processes=processes, snapshot=lambda: None)
    for in_process in (True, False):
        await sync_weights(SimpleNamespace(in_process=in_process), learner)  # type: ignore[arg-type]
    assert waited == ["all"] * 3, "a server takes weights after every process has given back what it held of its GPU"


def test_several_samples_of_a_held_out_task_need_a_temperature() -> None:
    with pytest.raises(SettingsError, match=r"set validation\.temperature"):
        load_rl_settings("codedance", None, [*NAMED, "validation.samples=2"])
    assert load_rl_settings("codedance", None, [*NAMED, "validation.samples=2", "validation.temperature=0.1"])


def test_an_episode_that_the_cache_cannot_hold_is_refused_before_the_first(tiny: Path) -> None:
    """The tiny checkpoint reads 2048 tokens, whose keys and values take 2 · 2 layers · 2 heads · 16 · 4 bytes."""
    trained = load_trainable(ModelSettings(source=str(tiny)), torch.device("cpu"), 0)

    def budget(settings: RlSettings) -> float:
        return cache_of_batch(
            settings, most_context(settings, trained.checkpoint.context_tokens), cache_bytes_of(trained)
        )

    row = 2048 * 512 / 2**30
    fitting = load_rl_settings("codedance", None, [*NAMED, f"generation.cache={2 * row}"])
    assert budget(fitting) == 2048 * 512
    small = load_rl_settings("codedance", None, [*NAMED, f"generation.cache={row}"])
    with pytest.raises(SettingsError, match=r"2048 tokens.*at least 0\.00195.*context_tokens"):
        budget(small)
    shorter = load_rl_settings(
        "codedance", None, [*NAMED, f"generation.cache={row}", "rollout.limits.context_tokens=1000"]
    )
    assert budget(shorter) == 1024 * 512


def test_a_run_whose_servers_cannot_start_leaves_no_run_behind(tiny: Path, tasks: Path, tmp_path: Path) -> None:
    """Who mends the setting would be told else that the folder holds a run with other settings."""
    settings = rl_settings(tiny, tasks, engine={"source": "vllm", "program": "no-such"})
    with pytest.raises(UnavailableError, match=r"engine\.program"):
        train(settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_may_be_resumed_with_other_servers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def resumed(*engine: str) -> None:
        check_folder(
            load_rl_settings("codedance", None, [*NAMED, *engine]), tmp_path, True, MAY_DIFFER, MAY_GROW, MAY_CHANGE
        )

    save_settings(load_rl_settings("codedance", None, [*NAMED, "engine=http://a:1"]), tmp_path / "settings.toml")
    resumed("engine.source=http://a:1")
    assert caplog.messages == []
    resumed("engine.source=http://b:1", "engine.weights=memory")
    (said,) = caplog.messages
    assert 'engine.source: "http://a:1" -> "http://b:1"' in said
    resumed("engine.source=vllm", "engine.gpus=2", "engine.program=/opt/vllm", "engine.ready_seconds=5")
    with pytest.raises(SettingsError, match=r"engine\.options"):
        resumed("engine.source=vllm", 'engine.options=["--dtype", "float16"]')
