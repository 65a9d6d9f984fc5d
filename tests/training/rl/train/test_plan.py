"""The plan of a run's memory: what fits, what is refused and with which advice, and the recipes that are shipped."""

import tomllib
from pathlib import Path

import pytest

from saccade.cli.main import main
from saccade.core.recipes import find_recipe, recipe_names
from saccade.errors import SettingsError
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.tokens.caches import GIB
from saccade.training.memory import MemoryPlan, Phase, PlanItem, usable
from saccade.training.rl.run import plan_memory
from saccade.training.rl.settings import load_rl_settings

SEVEN = "model.source=Qwen/Qwen2.5-VL-7B-Instruct"


def test_what_fits_is_accepted_and_what_does_not_is_refused_with_the_setting() -> None:
    items = (PlanItem("activations", 20 * GIB, "lower tokens"), PlanItem("weights", 5 * GIB, "divide them"))
    plan = MemoryPlan("a run", (Phase("sampling", items[1:]), Phase("update", items)))
    assert usable(80.0) == 74 * GIB
    plan.check(30.0)
    with pytest.raises(SettingsError, match=r"update takes 25\.0 GiB .* 20\.8 of its 24 .*activations.*lower tokens"):
        plan.check(24.0)
    assert "together                                         25.00" in plan.text(24.0)


@pytest.mark.slow
def test_a_plan_from_the_command_line(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["rl", "codedance", "--profile", "tiny", "--model", str(tiny), "--plan"]
    assert main([*given, "--gpu-memory", "80"]) == 0
    said = capsys.readouterr().out
    assert "keys and values                                  16.00" in said
    assert said.rstrip().endswith("It fits.")
    assert main([*given, "--gpu-memory", "17"]) == 2
    printed = capsys.readouterr()
    assert "lower generation.cache" in printed.err
    assert "together" in printed.out, "the table is shown where it does not fit too"
    assert main([*given[:-3], "--model", "a/b", "--plan", "--gpu-memory", "80"]) == 2
    assert "hf download a/b config.json" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.slow
def test_the_reference_and_servers_are_counted(tiny: Path) -> None:
    given = ["loss.kl_weight=0.1", f"model.source={tiny}"]
    local = plan_memory(load_rl_settings("codedance", "tiny", given), 1, "cpu")
    assert [phase.name for phase in local.phases] == ["update", "sampling"]
    items = {item.what: item.bytes for item in local.phases[0].items}
    assert items["reference policy"] == items["weights"] > 0
    served = plan_memory(load_rl_settings("codedance", "tiny", [*given, "engine.source=http://a:1"]), 1, "cpu")
    assert [phase.name for phase in served.phases] == ["update"]
    assert served.notes == local.notes == ()
    own = plan_memory(load_rl_settings("codedance", "tiny", [*given, "engine.source=vllm", "engine.gpus=2"]), 1, "cpu")
    assert own.notes == ("2 more GPUs serve; vLLM takes of them what it is told to (engine.options).",)
    apart = [*given, "engine.source=vllm", "engine.memory=40"]
    shared = plan_memory(load_rl_settings("codedance", "tiny", [*apart, "engine.shared=true"]), 1, "cpu")
    assert [phase.name for phase in shared.phases] == ["update", "sampling"]
    updating, sampling = ({item.what: item.bytes for item in phase.items} for phase in shared.phases)
    assert sampling["server"] == 40 * GIB
    assert sampling["weights"] == updating["weights"] == sampling["reference policy"]
    assert updating["sleeping server"] > 0
    with pytest.raises(SettingsError, match=r"sampling takes 40.* lower engine\.memory"):
        shared.check(40.0)


@pytest.mark.slow
def test_a_dialect_that_shows_videos_says_what_an_episode_holds(tiny: Path, tmp_path: Path) -> None:
    given = ["dialect=direct:video", "rollout.limits.context_tokens=1024"]
    plan = plan_memory(load_rl_settings("codedance", "tiny", [*given, f"model.source={tiny}"]), 1, "cpu")
    (note,) = plan.notes
    assert note.startswith("A minute of 1280x720 video is 120 frames")
    assert note in plan.text(80.0)
    updating, sampling = ({item.what: item.bytes for item in phase.items} for phase in plan.phases)
    assert sampling["pictures and videos"] == updating["pictures and videos"] > 0
    save_tiny(tmp_path / "tiles", "internvl")
    with pytest.raises(SettingsError, match="internvl reads no videos"):
        plan_memory(load_rl_settings("codedance", "tiny", [*given, f"model.source={tmp_path / 'tiles'}"]), 1, "cpu")


@pytest.mark.slow
def test_a_family_whose_positions_have_one_axis_is_planned_too(tmp_path: Path) -> None:
    save_tiny(tmp_path / "tiles", "internvl")
    plan = plan_memory(load_rl_settings("codedance", "tiny", [f"model.source={tmp_path / 'tiles'}"]), 1, "cpu")
    assert {item.what: item.bytes > 0 for item in plan.phases[1].items}["reading prompts"]


@pytest.mark.parametrize("name", recipe_names("rl"))
def test_shipped_recipes_say_what_decides_the_memory(name: str) -> None:
    """In the file itself: a default may change, and who reads a recipe need not know it."""
    said = tomllib.loads(find_recipe("rl", name).read_text())
    assert 0 < said["rollout"]["limits"]["context_tokens"] <= said["machine"]["max_tokens_per_batch"]
    assert said["machine"]["model"] == {"shard": True, "gradient_checkpointing": True}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_shipped_recipes_fit_eight_gpus_of_80_gib() -> None:
    for name in recipe_names("rl"):
        settings = load_rl_settings(name, None, [SEVEN])
        plan_memory(settings, 8, "cuda").check(80.0)
        assert settings.model.shard
        assert settings.recipe.rollout.limits is not None
        assert settings.recipe.rollout.limits.context_tokens
    with pytest.raises(SettingsError, match="shard"):
        plan_memory(load_rl_settings("codedance", None, [SEVEN]), 1, "cuda").check(80.0)
