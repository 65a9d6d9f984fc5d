"""The settings that come with the claims, what cannot be meant, and the rule by which intervals decide."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from examples.reproduce.claims import CLAIMS, load_claim
from examples.reproduce.evidence import ClaimVerdict, Expectation, MeasuredEffect, blocks, judge, overall_verdict
from examples.reproduce.run import arm_settings, complete_settings
from examples.reproduce.settings import RECIPES, Arm, Reproduction, TaskSet, TimeSpent, make_plan, seconds_per_rollout
from saccade.core.settings import load_settings
from saccade.errors import SettingsError
from saccade.record.trajectory import EpisodeLimits
from saccade.training.rl.select import Grpo, OversampleFilterRank, TurnLevel


@pytest.mark.parametrize("name", CLAIMS)
def test_the_settings_of_a_claim_fit_it(name: str) -> None:
    claim = load_claim(name)
    assert claim.name == name
    settings = load_settings(Reproduction, RECIPES / f"{name}.toml")
    assert set(claim.needs) <= {arm.name for arm in settings.arms}
    expected = claim.expectations(settings)
    assert any(item.decides for item in expected)
    assert len({item.name for item in expected}) == len(expected)
    for arm in settings.arms:
        made = arm_settings(settings, arm, 3)
        own = {"pyvision-video": "tiny:video", "with-tools": "tiny:tools", "without-tools": "tiny:think"}
        spoken = own.get(arm.name, "tiny:direct" if name == "tail-patch" else "tiny:look")
        assert made.recipe.dialect == arm.dialect == spoken
        assert made.recipe.seed == (1003 if arm.after else 3)
        assert (made.recipe.curriculum is not None) is arm.curriculum


def settings_of(claim: str, arm: str):
    settings = load_settings(Reproduction, RECIPES / f"{claim}.toml")
    return arm_settings(settings, settings.arm(arm), 0).recipe


def test_an_arm_keeps_the_other_limits_of_its_recipe() -> None:
    settings = load_settings(Reproduction, RECIPES / "tool-reward.toml")
    arm = settings.arms[0].model_copy(update={"change": (*settings.arms[0].change, "rollout.limits.images=3")})
    limits = arm_settings(settings, arm, 0).recipe.rollout.limits
    assert limits == EpisodeLimits(turns=5, images=3, context_tokens=32_768)


def test_arms_differ_in_what_the_claim_is_about() -> None:
    outcome, accumulative = settings_of("tool-reward", "outcome-only"), settings_of("tool-reward", "accumulative")
    assert outcome.load_reward().tool_weight == 0.0
    assert accumulative.load_reward().tool_weight == 0.1
    assert outcome.model_copy(update={"reward": accumulative.reward}) == accumulative
    assert outcome.rollout.limits == EpisodeLimits(turns=5, context_tokens=32_768)
    assert settings_of("lift", "codev").rollout.limits == EpisodeLimits(context_tokens=32_768)

    ranked, plain = settings_of("std-sorting", "sorted"), settings_of("std-sorting", "unsorted")
    assert isinstance(ranked.selection, OversampleFilterRank)
    assert ranked.selection.groups < ranked.rounds.tasks
    assert plain.selection == ranked.selection.model_copy(update={"rank": False})

    adaptive, lump, sequence = (settings_of("adaptive", name) for name in ("codedance", "deepeyes", "sequence-only"))
    assert lump.reward.preset == "deepeyes@1:repo"
    assert isinstance(lump.advantage, Grpo)
    assert sequence.advantage == TurnLevel(weight=0.0)
    assert sequence.reward == adaptive.reward

    vista = settings_of("lift", "vista-r1").load_reward()
    assert (vista.protocol, vista.repeats.turns[0]) == ("code", 64)
    assert settings_of("faithful", "accuracy-only").load_reward().tool_weight == 0.0
    assert settings_of("faithful", "tapo").load_reward().tool_weight == 0.5
    band = settings_of("tail-patch", "tail-patch").curriculum
    assert band is not None
    assert (band.lowest, band.highest) == (0.125, 0.375)


TASKS = TaskSet(name="some", worlds=("touching-circles",))
ARM = Arm(name="arm", recipe="pyvision-image")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"task_sets": [TASKS, TASKS], "arms": [ARM]}, "share a name"),
        ({"task_sets": [TASKS], "arms": [ARM, ARM]}, "share a name"),
        ({"task_sets": [TASKS], "arms": [Arm(name="start", recipe="x")]}, "no arm can be named start"),
        (
            {"task_sets": [TASKS], "arms": [Arm(name="a", recipe="x", after="b"), Arm(name="b", recipe="x")]},
            "before it",
        ),
        ({"task_sets": [TASKS], "arms": [Arm(name="a", recipe="x", tasks=("other",))]}, "no task set other"),
        ({"task_sets": [TASKS], "arms": [ARM], "start": {"steps": 3}}, "needs demonstrations"),
    ],
)
def test_settings_that_cannot_be_meant(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Reproduction.model_validate(settings)


def test_a_recipe_that_is_not_there() -> None:
    arm = Arm(name="arm", recipe="pyvision-images")
    with pytest.raises(SettingsError, match=r"no recipe.*'pyvision-image'"):
        arm_settings(Reproduction(task_sets=(TASKS,), arms=(arm,)), arm, 0)


def test_an_unknown_claim() -> None:
    with pytest.raises(SettingsError, match="std-sorting"):
        load_claim("std-sorted")


def planned(minutes: float, seeds: tuple[int, ...] = (0,)):
    two = ["rounds.tasks=5", "rounds.groups=1", "rounds.rounds=1", "rollout.group_size=4"]
    arms = (ARM, Arm(name="other", recipe="codev", curriculum=True))
    settings = Reproduction(
        task_sets=(TASKS,), arms=arms, every_arm=tuple(two), steps=50, fewest_steps=4, minutes=minutes, seeds=seeds
    )
    sized = {
        arm.name: complete_settings(arm_settings(settings, arm, 0), "checkpoint", Path("tasks"), 64, 50) for arm in arms
    }
    return make_plan(settings, sized, TimeSpent(so_far=60.0, per_exam=0.5, exams=120, per_rollout=0.25))


def test_steps_are_as_many_as_the_time_allows() -> None:
    # 600 s, less 60 that are gone, 60 of examinations and 128 for the one choice of tasks; 40 rollouts a step.
    assert planned(10).steps == int((600 - 60 - 60 - 128) / (40 * 0.25 * 1.15))
    assert planned(60).steps == 50
    assert planned(0).steps == 50
    with pytest.raises(SettingsError, match="enough for 3 steps"):
        planned(4.8)
    with pytest.raises(SettingsError, match="2 seed"):
        planned(5, seeds=(0, 1))


def test_what_a_rollout_costs() -> None:
    steps = [
        {
            "rollouts": 10,
            "seconds/decoding": 3.0,
            "seconds/sandbox": 1.0,
            "seconds/scoring": 0.0,
            "seconds/update": 1.0,
        },
        {"rollouts": 10, "seconds/decoding": 2.0},
    ]
    assert seconds_per_rollout(steps) == 0.5


MORE = Expectation("more", "more", "above", 0.2)
LESS = Expectation("less", "less", "below", -0.1)


def of(*values: float) -> dict[str, float]:
    return {f"task{number}": value for number, value in enumerate(values)}


@pytest.mark.parametrize(
    ("expectation", "values", "verdict"),
    [
        (MORE, [0.5, 0.4, 0.6, 0.5, 0.45], ClaimVerdict.HOLDS),
        (MORE, [0.1, 0.15, 0.05, 0.1], ClaimVerdict.FAILS),
        (MORE, [1.0, -1.0, 1.0, -0.5, 0.5], ClaimVerdict.OPEN),
        (MORE, [0.2, 0.2, 0.2, 0.2], ClaimVerdict.FAILS),
        (LESS, [-0.5, -0.4, -0.5, -0.6], ClaimVerdict.HOLDS),
        (LESS, [0.0, 0.1, -0.05, 0.0], ClaimVerdict.FAILS),
        (LESS, [-1.0, 1.0, -1.0, 0.0], ClaimVerdict.OPEN),
    ],
)
def test_intervals_decide(expectation: Expectation, values: list[float], verdict: ClaimVerdict) -> None:
    assert judge(expectation, MeasuredEffect((of(*values),))).verdict is verdict


def test_every_seed_must_agree() -> None:
    good, bad = of(*[0.9] * 6), of(*[0.1] * 6)
    found = judge(MORE, MeasuredEffect((good, bad)))
    assert found.estimate == pytest.approx(0.5)
    assert found.interval is not None
    assert found.interval.low > MORE.threshold
    assert found.verdict is ClaimVerdict.OPEN
    assert judge(MORE, MeasuredEffect((good, good))).verdict is ClaimVerdict.HOLDS


def test_seeds_are_averaged_pair_by_pair() -> None:
    found = judge(MORE, MeasuredEffect((of(1.0, 0.0), of(0.0, 1.0))))
    assert found.interval == (0.5, 0.5)
    assert found.seeds == (0.5, 0.5)
    assert found.pairs == 2


def test_what_is_missing_decides_nothing() -> None:
    found = judge(MORE, MeasuredEffect((of(0.9, 0.9, 0.9, 0.9),), "the start cannot look"))
    assert found.estimate == pytest.approx(0.9)
    assert found.verdict is ClaimVerdict.OPEN
    assert judge(MORE, MeasuredEffect((of(0.9, 0.9, 0.9),))).verdict is ClaimVerdict.OPEN
    assert judge(MORE, MeasuredEffect(({},))).verdict is ClaimVerdict.OPEN


def test_a_claim_is_as_good_as_its_parts() -> None:
    holds = judge(MORE, MeasuredEffect((of(*[0.9] * 4),)))
    fails = judge(MORE, MeasuredEffect((of(*[0.0] * 4),)))
    undecided = judge(MORE, MeasuredEffect((of(1.0, -1.0, 1.0, -1.0),)))
    shown = judge(Expectation("shown", "shown", "above", 0.2, decides=False), MeasuredEffect((of(*[0.0] * 4),)))
    assert overall_verdict([holds, holds, shown]) is ClaimVerdict.HOLDS
    assert overall_verdict([holds, undecided]) is ClaimVerdict.OPEN
    assert overall_verdict([undecided, fails, holds]) is ClaimVerdict.FAILS
    assert overall_verdict([shown]) is ClaimVerdict.OPEN


def test_blocks_of_steps() -> None:
    assert blocks([1.0, 3.0]) == {"0": 1.0, "1": 3.0}
    assert blocks([float(value) for value in range(16)]) == {str(at): 2 * at + 0.5 for at in range(8)}
    assert blocks([None, None, *[2.0] * 14]) == {str(at): 2.0 for at in range(1, 8)}
    assert len(blocks([1.0] * 17)) == 6
    assert blocks([]) == {}
