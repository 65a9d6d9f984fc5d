"""One run with the weights of CodeDance's released code for mathematics and for pictures."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewards.rollouts import TASK, answered, ran, rollout

from saccade.rewards.codedance import PRESETS
from saccade.rewards.reward import RewardGroup
from saccade.rl.recipe import load_recipe

RECIPE = """
dialect = "codedance@1"

[reward]
preset = "codedance@1:repo"
parameters = { gamma = 2.0 }

[reward.by_tag.math]
accuracy_weight = 1.2
format_weight = 0.4
base = 1.0

[reward.by_tag.plain]
format_weight = 0.0
"""


@pytest.mark.parametrize(
    ("tags", "preset", "changes"),
    [
        (("math",), "repo-math", {}),
        (("plain", "math"), "repo-math", {}),  # the first of the recipe
        (("other",), "repo", {}),
        ((), "repo", {}),
        (("plain",), "repo", {"format_weight": 0.0}),
    ],
)
def test_each_task_has_the_parameters_of_its_tag(
    tags: tuple[str, ...], preset: str, changes: dict[str, float], tmp_path: Path
) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    task = TASK.model_copy(update={"tags": tags})
    right = rollout(ran("a", "a"), answered(), task=task)
    wrong = rollout(ran("b", "b"), answered("blue"), task=task, correct=0.0, id="b")
    group = RewardGroup((right, wrong))
    expected = PRESETS[preset].model_copy(update={"gamma": 2.0, **changes})
    reward = load_recipe(path).load_reward()
    assert reward(group) == expected(group)
    assert reward(RewardGroup((right,))) == expected(RewardGroup((right,)))
    assert reward(RewardGroup(())) == ()


def test_by_hand(tmp_path: Path) -> None:
    """Half of the group is right, so w = 0.5 - 0.2: 1 + 1.5 w = 1.45 for pictures, 1.2 + 2 w = 1.8 for mathematics."""
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.replace(":repo", ":paper"))
    reward = load_recipe(path).load_reward()
    for tag, total in (("vision", 1.45), ("math", 1.8)):
        task = TASK.model_copy(update={"tags": (tag,)})
        right = rollout(ran("a", "a"), answered(), task=task)
        wrong = rollout(answered("blue"), task=task, correct=0.0)
        assert reward(RewardGroup((right, wrong)))[0].total == pytest.approx(total)
