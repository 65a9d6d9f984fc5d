"""verl's configuration from every setting of ours; verl itself is not needed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.verl.support import names, verl_settings

from saccade.cli.main import main
from saccade.core.recipes import find_recipe
from saccade.errors import SettingsError
from saccade.plugins.verl.mapping import OURS, REFUSED, check_on_verl, notes, verl_lines, verl_of
from saccade.training.rl.recipe import load_recipe
from saccade.training.rl.settings import RlSettings, load_rl_settings

OUT = Path("/runs/a")
RECIPES = ("pyvision-image", "pyvision-video", "codedance", "vista-r1", "codev")


def config(settings: RlSettings) -> dict[str, Any]:
    return {line.key: line.value for line in verl_lines(settings, OUT)}


def test_every_setting_is_mapped_kept_or_refused() -> None:
    settings = verl_settings({"loss": {"kl_weight": 0.1}})
    mapped = {name.strip() for line in verl_lines(settings, OUT) for name in line.source.split(",")}
    known = (*mapped, *OURS, *REFUSED)

    def covered(name: str) -> bool:
        return any(name == one or name.startswith(f"{one}.") for one in known)

    assert [name for name in names(settings) if not covered(name)] == []


def test_no_setting_is_both_kept_and_refused() -> None:
    assert not set(OURS) & set(REFUSED)
    everything = set(names(verl_settings()))
    for name in (*OURS, *REFUSED):
        assert any(one == name or one.startswith(f"{name}.") for one in everything), name


@pytest.mark.parametrize(
    ("name", "recipe", "more"),
    [
        ("usual", {}, {}),
        (
            "numbers",
            {
                "loss": {
                    "clip_low": 0.1,
                    "clip_high": 0.3,
                    "dual_clip": 4.0,
                    "kl_weight": 0.02,
                    "aggregate": "sequence-mean",
                },
                "optimizer": {"learning_rate": 2e-6, "updates": 2, "epochs": 3, "clip": 0.5, "betas": [0.8, 0.9]},
                "rounds": {"tasks": 6, "groups": 4, "rounds": 2},
                "selection": {"rule": "oversample-filter-rank", "groups": 4},
                "seed": 7,
            },
            {
                "validation": {"every": 5, "samples": 3, "temperature": 0.4},
                "keep": {"every": 4, "checkpoints": 1, "tensorboard": False, "tracker": "wandb", "project": "mine"},
                "trainer": {"nodes": 2, "gpus": 4, "tensor_parallel": 2, "workers": 3},
            },
        ),
        (
            "other",
            {
                "loss": {"kl_weight": 0.1, "aggregate": "sequence-sum", "scale": 99.0, "entropy_weight": 0.01},
                "optimizer": {"updates": 2, "warmup_steps": 5, "weight_decay": 0.1, "clip": 0.0},
                "rollout": {"group_size": 4, "limits": {"context_tokens": 1500}},
            },
            {
                "trainer": {"device": "cpu", "gpus": 2},
                "validation": {"every": 0, "temperature": 0.5},
                "model": {"vision": "frozen", "attention": "flash_attention_2", "gradient_checkpointing": True},
                "keep": {"tracker": "trackio"},
                "max_tokens_per_batch": 1000,
            },
        ),
    ],
)
def test_every_line_is_the_one_that_was_reviewed(name: str, recipe: dict[str, Any], more: dict[str, Any]) -> None:
    lines = verl_lines(verl_settings(recipe, **more), OUT)
    golden = Path(__file__).parent / "golden" / f"{name}.txt"
    assert [f"{line.key} = {line.value!r}" for line in lines] == golden.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"recipe": {"curriculum": {"highest": 0.9}}}, "recipe.curriculum"),
        ({"recipe": {"rollout": {"sampling": {"temperature": 0.0}, "limits": {"context_tokens": 99}}}}, "temperature"),
        ({"recipe": {"rollout": {}}}, "context_tokens"),
        ({"recipe": {"dialect": "direct:video"}}, "direct@1:video shows videos as such"),
        ({"engine": {"source": "vllm"}}, "engine: verl starts"),
        ({"model": {"language": "lora"}}, "model.language"),
        ({"model": {"vision": "projector"}}, "model.vision"),
        ({"model": {"picture_pixels": 99}}, "model.picture_pixels"),
        ({"generation": {"decoding_batches": 4}}, "generation.decoding_batches"),
        ({"retry": {"tries": 1}}, "retry"),
        ({"trainer": {"gpus": 4, "tensor_parallel": 3}}, "tensor_parallel"),
        ({"trainer": {"device": "cpu", "nodes": 2}}, "one machine"),
        ({"trainer": {"gpus": 3}}, "trainer.gpus: an update has 8 rollouts (2 groups of 4), which 3 GPUs"),
        ({"trainer": {"gpus": 4, "nodes": 3}}, "which 12 GPUs"),
        ({"trainer": {"options": ["trainer.nnodes=2"]}}, "trainer.nnodes comes from trainer.nodes; set that"),
        ({"trainer": {"options": ["++trainer.nnodes=2"]}}, "trainer.options: trainer.nnodes comes from trainer.nodes"),
        ({"trainer": {"options": ["trainer.nnodes"]}}, "'trainer.nnodes' is no setting; write a.b=value"),
        ({"recipe": {"optimizer": {"updates": 2}}, "trainer": {"gpus": 8}}, "1 group of 4"),
    ],
)
def test_what_verl_cannot_follow_is_refused_by_name(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)):
        check_on_verl(verl_settings(**more))


def test_the_settings_of_a_run_are_not_refused() -> None:
    check_on_verl(verl_settings())
    apart = ["actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size=3"]
    check_on_verl(verl_settings(trainer={"gpus": 12, "options": apart}))  # 4 ranks, each of 3 GPUs
    check_on_verl(verl_settings(trainer={"options": ["+a.b=1", "actor_rollout_ref.rollout.name=vllm"]}))
    assert notes(verl_settings())[-1].startswith("a step that keeps nothing")
    assert any("sequence-mean" in note for note in notes(verl_settings({"loss": {"aggregate": "sequence-mean"}})))


@pytest.mark.parametrize("name", RECIPES)
def test_the_bundled_recipes_are_mapped_or_say_why_not(name: str) -> None:
    overrides = ["model.source=checkpoint", 'tasks.source=["visual-search"]']
    settings = load_rl_settings(name, None, [*overrides, "trainer.name=verl"])
    if settings.recipe.curriculum is not None:
        with pytest.raises(SettingsError, match="curriculum"):
            check_on_verl(settings)
        verl = verl_of(settings).model_copy(update={"pass_rates": "runs/a/pass-rates.jsonl"})
        settings = settings.model_copy(update={"trainer": verl})
    check_on_verl(settings)
    found = config(settings)
    assert found["actor_rollout_ref.rollout.max_model_len"] == settings.recipe.rollout.limits.context_tokens  # type: ignore[union-attr]
    assert found["actor_rollout_ref.rollout.n"] == 8
    assert find_recipe("rl", name).exists()
    assert load_recipe(name).steps == found["trainer.total_training_steps"]


def test_the_plan_says_where_each_line_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["rl", "codedance", "--model", "checkpoint", "--tasks", "visual-search", "--on", "verl"]
    assert main([*command, "--nodes", "2", "--gpus", "8", "--plan"]) == 0
    printed = capsys.readouterr().out
    assert "trainer.nnodes = 2  # trainer.nodes\n" in printed
    assert "actor_rollout_ref.actor.clip_ratio_c = 3.0  # recipe.loss.dual_clip\n" in printed


def test_a_plan_refuses_a_checkpoint_whose_pictures_verl_would_misread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def planned(model: Path | str) -> tuple[int, str]:
        code = main(["rl", "codedance", "--model", str(model), "--tasks", "visual-search", "--on", "verl", "--plan"])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    (tmp_path / "config.json").write_text('{"model_type": "internvl"}', encoding="utf-8")
    code, said = planned(tmp_path)
    assert code == 2
    assert "family internvl" in said
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    code, said = planned(tmp_path)
    assert code == 2
    assert "says no family" in said
    code, said = planned("Qwen/Qwen2.5-VL-7B-Instruct")
    assert (code, "its family is not known" in said) == (0, False)
    code, said = planned("some/checkpoint")
    assert code == 0
    assert "# model.source: its family is not known here, and is looked at when the run begins" in said
    code, said = planned("./nowhere")
    assert code == 2
    assert "./nowhere" in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--on", "verl", "--plan", "--gpu-memory", "80"], "--gpu-memory is for"),
        (["--on", "trl"], "trainers has no 'trl'"),
        (["--on", "verl", "--processes", "2"], "--processes is for Saccade's own trainer"),
        (["--set", "trainer.gpus=4"], "trainer.gpus: no such setting"),
        (["--nodes", "2", "--plan", "--gpu-memory", "80"], "--nodes is for another trainer"),
        (["--gpus", "8"], "--gpus is for another trainer"),
    ],
)
def test_the_command_line_refuses_what_does_not_go_together(
    more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rl", "codedance", "--model", "checkpoint", "--tasks", "visual-search", *more]) == 2
    assert said in capsys.readouterr().err
