from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from saccade.core.recipes import find_recipe, recipe_names
from saccade.core.settings import load_settings, save_settings
from saccade.dialects.base import load_dialect
from saccade.episode.flow import limits_with
from saccade.errors import RegistryError, SettingsError
from saccade.record.trajectory import EpisodeLimits
from saccade.rewards.codedance import CodeDanceReward
from saccade.rewards.judges.model import fines_form
from saccade.tasks.benchmarks.registry import load_card
from saccade.tasks.sources.resolve import SourceDefaults, kind_of
from saccade.tasks.sources.task_set import expanded, open_tasks
from saccade.training.rl.recipe import Recipe, RlLossSettings, load_recipe
from saccade.training.rl.select import TAIL_PATCH, Grpo, OversampleFilterRank, TurnLevel

NAMES = ["pyvision-image", "pyvision-video", "codedance", "vista-r1", "codev"]
MINIMAL = 'dialect = "codev@1"\n[reward]\npreset = "deepeyes@1"\n[rounds]\ngroups = 1\n'


@pytest.mark.parametrize("profile", [None, "tiny"])
@pytest.mark.parametrize("name", NAMES)
def test_recipes_load_and_save_resolved(name: str, profile: str | None, tmp_path: Path) -> None:
    recipe = load_recipe(name, profile)
    save_settings(recipe, tmp_path / "resolved.json")
    assert load_settings(Recipe, tmp_path / "resolved.json") == recipe
    assert recipe.profile == {}
    assert recipe.dialect.partition("-")[0].partition("@")[0] == name.partition("-")[0]


def test_recipes_say_what_the_papers_say() -> None:
    image, codedance, vista, codev = (load_recipe(n) for n in NAMES if n != "pyvision-video")
    assert image.advantage == Grpo(divide_by_std=False)
    assert image.selection == OversampleFilterRank(groups=16)
    assert (image.rounds.tasks, image.rollout.group_size, image.steps) == (32, 8, 700)
    assert codedance.advantage == TurnLevel(weight=0.2)
    assert codedance.loss.kl_weight == 0
    assert (vista.rollout.sampling.temperature, vista.loss.kl_weight) == (0.7, 1e-3)
    assert vista.optimizer.learning_rate == 5e-7
    assert codev.advantage == Grpo(divide_by_std=False)
    assert codev.curriculum is not None
    assert codev.curriculum.highest == 0.9
    # Only PyVision-RL's and CodeDance's released code has a dual clip; VISTA's loss is a mean over rollouts.
    assert [item.loss.dual_clip for item in (image, codedance, vista, codev)] == [3.0, 3.0, 0.0, 0.0]
    assert [item.loss.aggregate for item in (image, vista)] == ["token-mean", "sequence-mean"]
    assert RlLossSettings().dual_clip == 0.0
    assert isinstance(image.selection, OversampleFilterRank)
    assert image.selection.broken == "rollout"


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_bounds_its_turns_and_states_its_numbers(name: str) -> None:
    recipe = load_recipe(name)
    limits = limits_with(load_dialect(recipe.dialect).limits, **(recipe.rollout.limits or EpisodeLimits()).model_dump())
    assert limits.turns is not None
    assert limits.context_tokens is not None
    assert recipe.rollout.sampling.max_tokens is not None
    written = tomllib.loads(find_recipe("rl", name).read_text())
    assert {"aggregate", "clip_low", "clip_high", "dual_clip"} <= written["loss"].keys()
    assert {"learning_rate", "weight_decay", "clip"} <= written["optimizer"].keys()


def test_limits_of_the_papers() -> None:
    image, _, codedance, vista, _ = (load_recipe(name).rollout for name in NAMES)
    turns = [load_dialect(load_recipe(name).dialect).limits.turns for name in NAMES]
    assert turns == [5, 5, 6, 3, 5]  # four calls and an answer; 6 in all; at most 3; the last is Saccade's choice
    assert (image.sampling.max_tokens, image.limits) == (10_240, EpisodeLimits(context_tokens=32_768))
    assert codedance.limits == EpisodeLimits(context_tokens=20_480, response_tokens=10_240)
    assert vista.limits is not None
    assert vista.limits.response_tokens == 26_780


def test_profiles_change_only_what_they_name() -> None:
    plain, tiny = load_recipe("codev"), load_recipe("codev", "tiny", ["seed=3"])
    assert (plain.reward.judge, tiny.reward.judge) == ("model", "boxes")
    assert tiny.reward.preset == plain.reward.preset
    assert tiny.rounds.rounds == plain.rounds.rounds
    assert (plain.seed, tiny.seed) == (0, 3)
    tail = load_recipe("vista-r1", "tail-patch").curriculum
    assert tail is not None
    assert (tail.lowest, tail.highest) == (TAIL_PATCH.lowest, TAIL_PATCH.highest)


def test_overrides_win_over_a_profile() -> None:
    assert load_recipe("codedance", "tiny", ["steps=7"]).steps == 7


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ("[loss]\nkl_wieght = 1\n", "kl_weight"),
        ("[loss]\ndual_clip = 0.5\n", "dual_clip"),
        ('[selection]\nrule = "best"\n', "selection"),
        ('[selection]\nrule = "dynamic-sampling"\ngroups = 1\n[rollout]\ngroup_size = 0\n', "rollout.group_size"),
        ("steps = 0\n", "steps"),
    ],
)
def test_mistakes_are_named(more: str, match: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(more + MINIMAL if more.startswith("steps") else MINIMAL + more)
    with pytest.raises(SettingsError, match=match):
        load_recipe(path)


@pytest.mark.parametrize(
    ("overrides", "match"),
    [
        (["rounds.groups=999"], "roll out"),
        (["selection.rule=dynamic-sampling", "selection.groups=4", "rounds.groups=8"], "can give"),
        (["reward.judge=model"], "judge_model"),
        (["reward.preset=codev@1"], "boxes"),
        (["reward.parameters={tool_wieght = 1.0}"], "tool_weight"),
        (["reward.preset=codedance@1", "reward.by_tag={math = {bace = 1.0}}"], "base"),
        (["reward.preset=codev@1", "reward.judge=boxes", "reward.by_tag={math = {tool_weight = 0.1}}"], "leave it out"),
        (["reward.preset=pyvision-rl@1", "advantage.rule=turn-level"], "called 'returns'; it has none"),
        (["reward.preset=codev@1", "reward.judge=boxes", "advantage.rule=turn-level"], "'returns'; it has tool"),
        (["reward.preset=codedance@1", "advantage={rule='turn-level', part='return'}"], "it has execution, returns"),
        (["reward.preset=thyme@1"], "reward.consistency_judge: thyme@1 pays for thoughts that agree; name a model"),
        (["reward.consistency_judge=openai:gpt-4.1"], "pays for no consistency; leave it out"),
        (["reward.judge=boxes"], "reward.judge: deepeyes@1 judges no tool outputs; leave it out"),
        (["reward.open_tags=['math']"], "are for reward.answer_judge, which is not named"),
        (["reward.judge_rules.concurrent=2"], "reward.judge_rules: there is no judge; name one"),
        (["reward.answer_prompt.prompt_file=a.txt"], "reward.answer_prompt: is for reward.answer_judge, which is not"),
        (
            ["reward.consistency_prompt={replies='number'}"],
            "reward.consistency_prompt: is for reward.consistency_judge",
        ),
        (["reward.judge_rules.prompt_file=a.txt"], "reward.judge_rules.prompt_file: is for reward.judge = model"),
    ],
)
def test_settings_that_do_not_fit_together(overrides: list[str], match: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(MINIMAL)
    with pytest.raises(SettingsError, match=match):
        load_recipe(path, overrides=overrides)


def test_a_judge_of_weight_0_need_not_be_named(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(MINIMAL)
    load_recipe(path, overrides=["reward.preset=thyme@1", "reward.parameters={consistency_weight = 0}"])


def test_unknown_names_suggest_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(MINIMAL)
    for override, match in (("dialect=codex@1", "codev"), ("reward.preset=deepeye", "deepeyes")):
        with pytest.raises(RegistryError, match=match):
            load_recipe(path, overrides=[override])
    with pytest.raises(SettingsError, match="tiny"):
        load_recipe("codev", "tinny")


def test_a_recipe_is_read_without_torch() -> None:
    code = "import sys; from saccade.training.rl.recipe import load_recipe; load_recipe('codev'); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "transformers", "cv2"} & set(run.stdout.split())


@pytest.mark.parametrize(
    ("profile", "dialect", "hints", "tools"),
    [
        (None, "vista@1", False, ()),
        ("no-tools", "direct@1:think", False, ()),
        ("no-thoughts", "vista@1:tools-only", False, ()),
        ("neither", "direct@1:short", False, ()),
        ("hints", "vista@1", True, ()),
        ("chart-tools", "vista@1", False, ("chartocr", "chartdet", "opencv")),
        ("dapo", "vista@1", False, ()),
    ],
)
def test_the_settings_of_vista_and_rewards_that_do_not_fine_their_form(
    profile: str | None, dialect: str, hints: bool, tools: tuple[str, ...]
) -> None:
    recipe = load_recipe("vista-r1", profile)
    assert (recipe.dialect, recipe.tool_hints, recipe.tools) == (dialect, hints, tools)
    assert not fines_form(recipe.load_reward(), load_dialect(dialect))


def test_data_mixtures_of_vista() -> None:
    assert [source.name for source in load_recipe("vista-r1", "unigeo-only").source] == ["vista-unigeo"]
    paper = expanded(["vista-train"])
    assert (len(paper), sum(source.most or 0 for source in paper)) == (15, 22_170)
    assert all(kind_of(source.name) == "card" for source in paper)
    worlds = open_tasks(["vista-worlds"], SourceDefaults(most=2))
    assert worlds.shares is not None
    assert len(worlds.parts) == 13
    named = expanded(["vista-worlds=3", "maze=1"])
    assert sum(source.weight or 0 for source in named if source.name != "maze") == pytest.approx(3)


def _at(recipe: Recipe, name: str) -> object:
    found: object = recipe
    for step in name.split("."):
        found = found[step] if isinstance(found, dict) else getattr(found, step)
    return found


@pytest.mark.parametrize(
    ("recipe", "arm", "told"),
    [
        ("codedance", "outcome-only", {"reward.parameters": {"tool_weight": 0.0}, "advantage.rule": "grpo"}),
        ("codedance", "no-turn", {"reward.preset": "codedance@1:paper", "advantage.rule": "grpo"}),
        ("codedance", "deepeyes", {"reward.preset": "deepeyes@1:repo", "advantage.rule": "grpo"}),
        ("codev", "accuracy-only", {"reward.parameters": {"tool_weight": 0.0, "redline": 0.0}}),
        ("codev", "consistency", {"reward.preset": "thyme@1:repo", "reward.parameters": {"format_weight": 0.0}}),
        ("pyvision-image", "no-tool-reward", {"reward.parameters": {"tool_weight": 0.0}}),
        ("pyvision-image", "no-rank", {"selection.rank": False}),
        ("pyvision-image", "standard-deviation", {"advantage.divide_by_std": True}),
        ("pyvision-image", "two-calls", {"rollout.limits.turns": 3}),
        ("codev", "zero-rl", {"reward.preset": "codev@1:paper", "machine.model.source": "Qwen/Qwen2.5-VL-7B-Instruct"}),
        ("codev", "gpt-5-nano", {"reward.judge_model": "openai:gpt-5-nano"}),
        ("vista-r1", "sparse", {"reward.preset": "vista-r1@1:sparse"}),
    ],
)
def test_the_papers_ablations_are_profiles(recipe: str, arm: str, told: dict[str, object]) -> None:
    loaded, whole = load_recipe(recipe, arm), load_recipe(recipe)
    for name, value in told.items():
        assert _at(loaded, name) == value
    assert (loaded.rounds, loaded.steps, loaded.optimizer) == (whole.rounds, whole.steps, whole.optimizer)


def test_several_profiles_follow_each_other() -> None:
    arm = load_recipe("codedance", "tiny,no-turn")
    assert (arm.steps, arm.advantage.rule, arm.reward.answer_judge) == (80, "grpo", "")
    assert load_recipe("codev", "tiny,consistency").reward.judge == "none"
    with pytest.raises(SettingsError, match=r"no profile 'no-tern'.*no-turn"):
        load_recipe("codedance", "tiny,no-tern")


PARTS = [name for name in recipe_names("sources") if not name.startswith("vista")]


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_names_what_the_paper_trains_on_and_who_judges_answers(name: str) -> None:
    recipe, tiny = load_recipe(name), load_recipe(name, "tiny")
    assert expanded(recipe.source)
    assert all(kind_of(source.name) == "card" for source in expanded(recipe.source))
    assert bool(recipe.reward.answer_judge) == (name != "vista-r1")
    assert not tiny.reward.answer_judge


@pytest.mark.parametrize("name", PARTS)
def test_mixtures_name_cards_and_their_splits(name: str) -> None:
    for source in expanded([name]):
        card = load_card(source.name)
        assert source.split in {card.split, *card.splits}, source


def test_codedance_pays_its_mathematical_sources_otherwise() -> None:
    reward = load_recipe("codedance").reward
    own = reward.load_with(("data_source=thinklite_eureka",), {})
    assert isinstance(own, CodeDanceReward)
    assert (own.accuracy_weight, own.format_weight, own.base) == (1.2, 0.4, 1.0)
    usual = reward.load_with(("data_source=chart",), {})
    assert isinstance(usual, CodeDanceReward)
    assert (usual.accuracy_weight, usual.format_weight, usual.base) == (1.0, 0.2, 0.5)


def test_the_curriculum_and_the_settings_of_another_rule_can_be_taken_out() -> None:
    assert load_recipe("codev").curriculum is not None
    assert load_recipe("codev", overrides=["curriculum=none"]).curriculum is None
    assert load_recipe("codedance", overrides=["advantage.rule=grpo"]).advantage.rule == "grpo"
