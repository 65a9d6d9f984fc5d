"""What a run checks before its first step: its memory, who samples, and its tasks."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch
from tests.rewards.rollouts import SEARCH, TASK
from tests.training.rl.train.support import rl_settings

from saccade.cli.main import main
from saccade.core.recipes import find_recipe, recipe_names
from saccade.core.settings import load_saved, save_settings
from saccade.dialects.base import load_dialect
from saccade.errors import SettingsError, UnavailableError
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.record.task import Task
from saccade.rewards.judges.answer import AnswerJudge
from saccade.rewards.reward import ByTag, load_reward
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.settings import SourceSettings
from saccade.tasks.sources.task_set import open_tasks
from saccade.tokens.batch import copied_bytes
from saccade.tokens.caches import GIB
from saccade.tokens.sequences import cache_bytes_of
from saccade.training.memory import MemoryPlan, Phase, PlanItem, usable
from saccade.training.rl.engine import cache_of_batch, most_context
from saccade.training.rl.engines.settings import EngineSettings
from saccade.training.rl.recipe import RewardSettings
from saccade.training.rl.run import plan_memory, train
from saccade.training.rl.scoring import AnswerGrading, Scorer
from saccade.training.rl.settings import MAY_CHANGE, MAY_DIFFER, MAY_GROW, RlSettings, check_settings, load_rl_settings
from saccade.training.rl.tasks import MOST, TaskList, as_list, check_form, check_rewards, check_tasks, validation_tasks
from saccade.training.settings import ModelSettings, check_folder
from saccade.training.weights import load_trainable

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
    low = plan_memory(load_rl_settings("codedance", "tiny", [*given, "model.precision=bfloat16"]), 1, "cpu")
    real = load_trainable(ModelSettings(source=str(tiny), precision="bfloat16"), torch.device("cpu"), 0)
    (copies,) = (item.bytes for item in low.phases[1].items if item.what == "weights in the arithmetic's precision")
    assert copies == copied_bytes(real.model) > 0
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


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "profile", "size"),
    [
        ("codedance", "one-gpu", "7B"),
        ("codedance", "one-gpu-full", "3B"),
        ("codev", "one-gpu", "7B"),
        ("pyvision-image", "one-gpu-full", "3B"),
    ],
)
def test_one_gpu_of_80_gib_holds_what_its_profiles_train(name: str, profile: str, size: str) -> None:
    model = f"model.source=Qwen/Qwen2.5-VL-{size}-Instruct"
    plan = plan_memory(load_rl_settings(name, profile, [model]), 1, "cuda", 80.0)
    plan.check(80.0)
    assert 0 < plan.recomputed <= 36
    assert f"{plan.recomputed} layers recompute" in plan.text(80.0)


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
    fitting = load_rl_settings("codedance", None, [*NAMED, f"generation.cache={row}"])
    assert budget(fitting) == 2048 * 512
    small = load_rl_settings("codedance", None, [*NAMED, f"generation.cache={row / 2}"])
    with pytest.raises(SettingsError, match=r"2048 tokens.*at least 0\.000977.*context_tokens"):
        budget(small)
    shorter = load_rl_settings(
        "codedance", None, [*NAMED, f"generation.cache={row / 2}", "rollout.limits.context_tokens=1000"]
    )
    assert budget(shorter) == 1024 * 512


def test_a_run_whose_servers_cannot_start_leaves_no_run_behind(tiny: Path, tasks: Path, tmp_path: Path) -> None:
    """Who mends the setting would be told else that the folder holds a run with other settings."""
    settings = rl_settings(tiny, tasks, engine={"source": "vllm", "program": "no-such"})
    with pytest.raises(UnavailableError, match=r"engine\.program"):
        train(settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_may_be_resumed_with_other_servers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def resumed(*others: str) -> None:
        check_folder(
            load_rl_settings("codedance", None, [*NAMED, *others]), tmp_path, True, MAY_DIFFER, MAY_GROW, MAY_CHANGE
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
    judge = "reward.answer_judge=vllm:Qwen/Qwen2.5-72B-Instruct@http://judge:8000/v1"
    resumed("engine.source=http://a:1", judge)
    assert "another address: recipe.reward.answer_judge" in caplog.messages[-1]
    with pytest.raises(SettingsError, match=r"reward\.answer_judge"):
        resumed("engine.source=http://a:1", judge.replace("72B", "32B"))


TAGGED = TASK.model_copy(update={"tags": ("data_source=chart",)})
OPEN = TASK.model_copy(update={"grader": "judge"})
JUDGE = AnswerJudge(ScriptedModel([]))


@pytest.mark.parametrize(
    ("dialect", "reward", "warned"),
    [
        ("vista", "vista-r1", False),
        ("direct:think", "vista-r1", False),
        ("direct", "vista-r1", True),
        ("pyvision-rl-image", "vista-r1", True),
        ("codedance", "codedance", False),
        ("codev", "codev", False),
        ("deepeyes", "deepeyes", False),
        ("pyvision-rl-image", "pyvision-rl", False),
    ],
)
def test_a_reward_of_another_form_than_the_dialects_is_said(
    dialect: str, reward: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    check_form(load_dialect(dialect), load_reward(reward), (dialect, reward))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == warned
    assert all(f"The reward {reward} wants another form than the dialect {dialect}" in line for line in said)


def test_parameters_by_a_tag_that_no_task_has_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    usual = load_reward("codedance@1:paper")
    preset = ByTag(usual, {"data_source=chart": usual, "math": usual})
    check_tasks(TaskList(("a", "b"), lambda name, _: TAGGED), Scorer(preset), MediaStore(tmp_path))
    assert [record.getMessage() for record in caplog.records] == [
        "reward.by_tag.math has no effect: none of the 2 tasks has that tag."
    ]


@pytest.mark.parametrize(
    ("task", "reward", "answers", "says"),
    [
        (TAGGED, "codev@1:paper", AnswerGrading(), "search_tags; they have: data_source=chart"),
        (SEARCH, "codev@1:paper", AnswerGrading(), ""),
        (TASK.model_copy(update={"tags": ("data_source=vstar",)}), "codev@1:paper", AnswerGrading(), ""),
        (TAGGED, "codedance@1:paper", AnswerGrading(), ""),
        (TAGGED, "codedance@1:paper", AnswerGrading(judge=JUDGE), "never asked"),
        (TAGGED, "codedance@1:paper", AnswerGrading(judge=JUDGE, open_tags=("data_source=chart",)), ""),
        (OPEN, "codedance@1:paper", AnswerGrading(judge=JUDGE), ""),
        (OPEN, "codedance@1:paper", AnswerGrading(), "reward.answer_judge names no model"),
    ],
)
def test_a_part_that_nothing_feeds_is_said(
    task: Task, reward: str, answers: AnswerGrading, says: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[str] = []

    def make(name: str, _: MediaStore) -> Task:
        made.append(name)
        return task

    tasks = TaskList(tuple(map(str, range(1000))), make)
    check_tasks(tasks, Scorer(load_reward(reward), answers=answers), MediaStore(tmp_path))
    assert len(made) == MOST
    assert int(made[-1]) > 900
    logged = " ".join(record.getMessage() for record in caplog.records)
    assert (says in logged) if says else not logged


def test_what_a_run_is_watched_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "a?", "answer": "x"}\n{"question": "b?", "answer": "y"}\n', encoding="utf-8")
    named = validation_tasks([str(rows)], ["maze"], 1)
    assert named is not None
    assert len(named.ids) == 1
    worlds = validation_tasks([], ["maze", str(rows)], 3)
    assert worlds is not None
    assert worlds.ids == as_list(open_tasks(["maze"], SourceDefaults(split="validation", most=3))).ids
    assert not caplog.messages
    assert validation_tasks([], [str(rows)], 3) is None
    assert caplog.messages == ["Nothing is validated: no world is trained on, and validation.source names no tasks."]


def test_tasks_are_drawn_in_shares_where_there_are_some() -> None:
    def listed(*weights: float | None) -> TaskList:
        names = ("maze", "touching-circles")
        sources = [
            SourceSettings(name=name, weight=weight, most=2) for name, weight in zip(names, weights, strict=False)
        ]
        return as_list(open_tasks(sources))

    assert [(len(each.groups), each.shares) for each in (listed(3, 1), listed(None, None), listed(2))] == [
        (2, (0.75, 0.25)), (0, ()), (0, ()),
    ]  # fmt: skip


def test_tasks_that_no_reward_can_be_paid_for_are_refused_before_the_first_step(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "a?", "answer": "x"}\n{"question": "b?"}\n', encoding="utf-8")
    with pytest.raises(
        SettingsError, match=r"1 of 2 tasks of .*rows\.jsonl have no gold answer \(the first: .*/rows-1"
    ):
        check_rewards(open_tasks([str(rows)]), RewardSettings(preset="codedance@1"))
    check_rewards(open_tasks([str(rows)]), RewardSettings(preset="my_reward.py:PAY"))  # may need none
    own = SourceSettings(name="maze", most=2, reward={"accuracy_wieght": 1.2})
    with pytest.raises(SettingsError, match=r"(?s)of maze \(.*accuracy_wieght.*accuracy_weight"):
        check_rewards(open_tasks([own]), RewardSettings(preset="codedance@1"))
