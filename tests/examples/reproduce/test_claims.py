"""What claims measure, on examinations and steps that are small enough to work out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.examples.reproduce.support import NEAR, calling, drawn, named, rollout, write_rollouts, write_steps
from tests.rewards.rollouts import answered, ran

from examples.reproduce.claims import CLAIMS, load_claim, recorded, share
from examples.reproduce.evidence import (
    Claim,
    ClaimVerdict,
    Evidence,
    Expectation,
    Finding,
    MeasuredEffect,
    blocks,
    judge,
    overall_verdict,
)
from examples.reproduce.exam import Places, read_exam
from examples.reproduce.outcome import rows_of
from examples.reproduce.run import arm_settings, complete_settings
from examples.reproduce.settings import RECIPES, Arm, Reproduction, TaskSet, TimeSpent, make_plan, seconds_per_rollout
from saccade.core.settings import load_settings
from saccade.errors import SettingsError
from saccade.record.task import Task
from saccade.record.trajectory import EpisodeLimits
from saccade.training.rl.select import Grpo, OversampleFilterRank, TurnLevel


def evidence_of(claim: str, root: Path) -> Evidence:
    settings = load_settings(Reproduction, RECIPES / f"{claim}.toml")
    by_arm = {arm.name: arm_settings(settings, arm, 0) for arm in settings.arms}
    return Evidence(Places(root, settings), by_arm)


def findings_of(claim: Claim, evidence: Evidence) -> dict[str, Finding]:
    measured = claim.measure(evidence)
    return {item.name: judge(item, measured[item.name]) for item in claim.expectations(evidence.settings)}


@pytest.fixture(scope="module")
def circles(tmp_path_factory: pytest.TempPathFactory) -> list[Task]:
    root = tmp_path_factory.mktemp("circles")
    return [named(drawn("touching-circles", root, number), f"circles-{number}") for number in range(6)]


@pytest.fixture(scope="module")
def signs(tmp_path_factory: pytest.TempPathFactory) -> list[Task]:
    root = tmp_path_factory.mktemp("signs")
    return [named(drawn("visual-search", root, number, **NEAR), f"search-{number}") for number in range(6)]


def looking(task: Task, *, at: Task, right: float = 1.0):
    """One crop, of where the evidence of `at` lies."""
    left, top, right_edge, bottom = (int(edge) for edge in at.evidence[0].xyxy)
    code = f"image_clue_0.crop(({left - 2}, {top - 2}, {right_edge + 2}, {bottom + 2})).show()"
    return rollout(task, [ran(code, "crop"), answered(task.answer or "x")], right=right)


def test_what_an_examination_shows(signs: list[Task], circles: list[Task], tmp_path: Path) -> None:
    far = max(signs[1:], key=lambda task: abs(task.evidence[0].xyxy[0] - signs[0].evidence[0].xyxy[0]))
    rollouts = [looking(signs[0], at=signs[0]), looking(signs[1], at=signs[1], right=0.0), looking(far, at=signs[0])]
    rollouts = list({item.id: item for item in rollouts}.values())
    write_rollouts(tmp_path, [*rollouts, calling(circles[0], 2, right=1.0)])
    first, *_, last = read_exam(tmp_path)
    assert (first.set, first.right, first.calls, first.looked, first.saw_evidence, first.faithful) == (
        "search", 1.0, 1, True, True, 1.0,
    )  # fmt: skip
    assert (last.set, last.searched, last.looked, last.calls, last.faithful) == ("circles", False, False, 2, 0.0)
    found = {item.task: item for item in read_exam(tmp_path)}
    if far is not signs[1]:
        assert found[signs[1].id].saw_evidence
        assert found[signs[1].id].faithful == 0.0
    assert not found[far.id].saw_evidence
    assert found[far.id].searched
    assert found[far.id].boxed
    assert last.boxed


def test_calls_fall_or_rise_and_stay(circles: list[Task], tmp_path: Path) -> None:
    claim, evidence = load_claim("tool-reward"), evidence_of("tool-reward", tmp_path)
    outcome, accumulative = evidence.settings.arms
    write_rollouts(evidence.places.start_exam(outcome), [calling(task, 1, right=1.0) for task in circles])
    write_rollouts(evidence.places.exam(outcome, 0), [calling(task, 0, right=1.0) for task in circles])
    write_rollouts(evidence.places.exam(accumulative, 0), [calling(task, 3, right=0.0) for task in circles])
    write_steps(evidence.places.arm(accumulative, 0), [{"tool_calls": min(3.0, at / 4)} for at in range(24)])
    findings = findings_of(claim, evidence)
    assert {name: item.estimate for name, item in findings.items()} == {
        "fall": -1.0, "rise": 2.0, "stay": pytest.approx(3.0 - 2.6875), "apart": 3.0, "accuracy": -1.0,
    }  # fmt: skip
    assert overall_verdict(findings.values()) is ClaimVerdict.HOLDS
    write_steps(evidence.places.arm(accumulative, 0), [{"tool_calls": 3.0 * (at < 16)} for at in range(24)])
    assert judge(findings["stay"].expectation, claim.measure(evidence)["stay"]).verdict is ClaimVerdict.FAILS


def test_a_start_that_cannot_look_decides_nothing(circles: list[Task], signs: list[Task], tmp_path: Path) -> None:
    claim = load_claim("faithful")
    bare = [task.model_copy(update={"evidence": ()}) for task in circles]
    for name, start, said in (
        ("blind", [looking(task, at=signs[(at + 1) % 6], right=0.0) for at, task in enumerate(signs)], "cannot look"),
        ("programs", [calling(task, 1, right=1.0) for task in bare], "asks for a look"),
        ("sees", [looking(task, at=task, right=0.0) for task in signs], ""),
        ("guesses", [calling(task, 0, right=0.0) for task in signs], ""),
    ):
        evidence = evidence_of("faithful", tmp_path / name)
        tapo, accuracy = evidence.settings.arms
        write_rollouts(evidence.places.start_exam(tapo), start)
        write_rollouts(evidence.places.exam(tapo, 0), [looking(task, at=task) for task in signs])
        plain = [rollout(task, [answered(task.answer or "")], right=1.0) for task in signs]
        write_rollouts(evidence.places.exam(accuracy, 0), plain)
        measured = claim.measure(evidence)
        first = judge(claim.expectations(evidence.settings)[0], measured["faithful"])
        assert first.estimate == 1.0
        assert said in first.missing
        assert first.verdict is (ClaimVerdict.OPEN if said else ClaimVerdict.HOLDS)


def test_of_a_start_that_never_looks_what_it_learned_tells(signs: list[Task], tmp_path: Path) -> None:
    claim = load_claim("lift")
    for name, elsewhere, said in (("sees", 0, ""), ("blind", 1, "a start that never looks cannot look: 0 of 6")):
        evidence = evidence_of("lift", tmp_path / name)
        arm = evidence.settings.arms[0]
        write_rollouts(evidence.places.start_exam(arm), [calling(task, 0, right=0.0) for task in signs])
        looks = [looking(task, at=signs[(at + elsewhere) % 6]) for at, task in enumerate(signs)]
        write_rollouts(evidence.places.exam(arm, 0), looks)
        missing = claim.measure(evidence)[arm.name].missing
        assert said in missing
        assert bool(said) is bool(missing)


def test_entropy_of_the_second_half(signs: list[Task], tmp_path: Path) -> None:
    claim, evidence = load_claim("adaptive"), evidence_of("adaptive", tmp_path)
    adaptive, lump, sequence = evidence.settings.arms
    easy = [named(task, f"easy-{at}") for at, task in enumerate(signs)]
    hard = [named(task, f"hard-{at}") for at, task in enumerate(signs)]
    write_rollouts(evidence.places.start_exam(adaptive), [looking(task, at=task) for task in (*easy, *hard)])
    write_rollouts(
        evidence.places.exam(adaptive, 0),
        [*(rollout(item, [answered()], right=1.0) for item in easy), *(looking(task, at=task) for task in hard)],
    )
    write_rollouts(
        evidence.places.exam(lump, 0), [*(looking(task, at=task) for task in easy), looking(signs[0], at=signs[1])]
    )
    write_steps(evidence.places.arm(adaptive, 0), [{"entropy": 1.0}] * 20)
    write_steps(evidence.places.arm(sequence, 0), [{"entropy": 2.0}] * 10 + [{"entropy": 0.5}] * 9 + [{}])
    found = findings_of(claim, evidence)
    assert {name: item.estimate for name, item in found.items()} == {
        "calls": -1.0, "accuracy": 0.0, "kept": 0.0, "called": 1.0, "entropy": 0.5,
    }  # fmt: skip
    assert overall_verdict(found.values()) is ClaimVerdict.HOLDS


@pytest.mark.parametrize(
    ("calls", "right", "verdicts", "verdict"),
    [
        # No calls at all, right in fewer tasks than the start: fewer calls on easy tasks, won by collapse.
        (0, 0.0, {"calls": "HOLDS", "kept": "FAILS", "called": "FAILS"}, ClaimVerdict.FAILS),
        (0, 1.0, {"calls": "HOLDS", "kept": "HOLDS", "called": "FAILS"}, ClaimVerdict.FAILS),
        (2, 0.0, {"calls": "HOLDS", "kept": "FAILS", "called": "HOLDS"}, ClaimVerdict.FAILS),
        (2, 1.0, {"calls": "HOLDS", "kept": "HOLDS", "called": "HOLDS"}, ClaimVerdict.HOLDS),
    ],
)
def test_a_claim_is_not_won_by_collapse(
    calls: int, right: float, verdicts: dict[str, str], verdict: ClaimVerdict, signs: list[Task], tmp_path: Path
) -> None:
    claim, evidence = load_claim("adaptive"), evidence_of("adaptive", tmp_path)
    adaptive, lump, sequence = evidence.settings.arms
    easy = [named(task, f"easy-{at}") for at, task in enumerate(signs)]
    hard = [named(task, f"hard-{at}") for at, task in enumerate(signs)]
    write_rollouts(evidence.places.start_exam(adaptive), [looking(task, at=task) for task in (*easy, *hard)])
    trained = [*(calling(task, 0, right=1.0) for task in easy), *(calling(task, calls, right=right) for task in hard)]
    write_rollouts(evidence.places.exam(adaptive, 0), trained)
    write_rollouts(evidence.places.exam(lump, 0), [looking(task, at=task) for task in (*easy, *hard)])
    write_steps(evidence.places.arm(adaptive, 0), [{"entropy": 1.0}] * 20)
    write_steps(evidence.places.arm(sequence, 0), [{"entropy": 0.5}] * 20)
    found = findings_of(claim, evidence)
    assert {name: found[name].verdict.name for name in verdicts} == verdicts
    assert overall_verdict(found.values()) is verdict


def test_ranking_on_recorded_groups(circles: list[Task], tmp_path: Path) -> None:
    claim, evidence = load_claim("std-sorting"), evidence_of("std-sorting", tmp_path)
    arm = evidence.settings.arm("sorted")
    # Of eight groups in a step the first four differ in calls alone, the others in their answers.
    calls, answers = [(1, 1.0), (1, 1.0), (1, 1.0), (2, 1.0)], [(1, 1.0), (1, 1.0), (0, 0.0), (0, 0.0)]
    rollouts = [
        calling(circles[0], count, right=right, group=f"{circles[0].id}@{place}", number=number)
        for place in range(32)
        for number, (count, right) in enumerate(calls if place % 8 < 4 else answers)
    ]
    write_rollouts(evidence.places.arm(arm, 0) / "rollouts", rollouts)
    steps = list(recorded(evidence, arm, 0))
    assert [len(step) for step in steps] == [8] * 4
    rule = evidence.arms["sorted"].recipe.selection
    assert share(rule(steps[0])) == 0.0
    assert share(rule.model_copy(update={"rank": False})(steps[0])) == 0.75
    for name in ("sorted", "unsorted"):
        write_steps(evidence.places.arm(evidence.settings.arm(name), 0), [{"right_with_negative_advantage": 0.1}] * 4)
    found = findings_of(claim, evidence)
    assert found["share"].estimate == -0.75
    # Rewards 1.1, 1.1, 0, 0: advantages are 0.55 off the mean, and divided by std 0.635 they are 0.866 off.
    assert found["variance"].estimate == pytest.approx(0.75 - 0.3025, abs=1e-5)
    assert found["training"].verdict is ClaimVerdict.FAILS
    assert overall_verdict(found.values()) is ClaimVerdict.HOLDS


@pytest.mark.parametrize("name", CLAIMS)
def test_without_arms_nothing_is_decided(name: str, tmp_path: Path) -> None:
    claim, evidence = load_claim(name), evidence_of(name, tmp_path)
    findings = [*findings_of(claim, evidence).values()]
    assert overall_verdict(findings) is ClaimVerdict.OPEN
    assert rows_of(evidence) == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("rollouts.every=2", r"rollouts\.every=1"),
        ("rounds.rounds=2", r"rounds\.rounds=1"),
        ('selection={rule="none"}', "oversample-filter-rank"),
    ],
)
def test_what_cannot_be_measured_is_refused_beforehand(change: str, said: str, tmp_path: Path) -> None:
    claim, evidence = load_claim("std-sorting"), evidence_of("std-sorting", tmp_path)
    claim.check(evidence.settings, evidence.arms)
    first = evidence.settings.arm("sorted")
    plain = [item for item in first.change if not item.startswith("selection")]
    arm = first.model_copy(update={"change": (*plain, change)})
    every = tuple(item for item in evidence.settings.every_arm if not item.startswith("selection"))
    settings = evidence.settings.model_copy(update={"arms": (arm,), "every_arm": every})
    by_arm = {"sorted": arm_settings(settings, arm, 0)}
    with pytest.raises(SettingsError, match=said):
        claim.check(settings, by_arm)


def test_lift_and_tail_patch(signs: list[Task], circles: list[Task], tmp_path: Path) -> None:
    lift, evidence = load_claim("lift"), evidence_of("lift", tmp_path / "lift")
    starts = {evidence.places.start_exam(arm) for arm in evidence.settings.arms}
    assert len(starts) == 2, "of pictures and of clips"
    for folder in starts:
        write_rollouts(folder, [looking(task, at=task, right=0.0) for task in signs])
    for at, arm in enumerate(evidence.settings.arms):
        right = [float(number > 2 * at) for number in range(6)]
        sat = [looking(task, at=task, right=value) for task, value in zip(signs, right, strict=True)]
        write_rollouts(evidence.places.exam(arm, 0), sat)
    found = [*findings_of(lift, evidence).values()]
    assert [item.estimate for item in found] == pytest.approx([5 / 6, 3 / 6, 1 / 6, 0.0, 0.0])
    assert [item.verdict for item in found[::3]] == [ClaimVerdict.HOLDS, ClaimVerdict.FAILS]
    assert not found[4].expectation.decides, "clips are no visual search"

    tail, evidence = load_claim("tail-patch"), evidence_of("tail-patch", tmp_path / "tail")
    for arm, right in zip(evidence.settings.arms, (0.0, 1.0, 0.0), strict=True):
        write_rollouts(evidence.places.exam(arm, 0), [calling(task, 1, right=right) for task in circles])
    write_steps(
        evidence.places.arm(evidence.settings.arms[0], 0), [{"accuracy": min(1.0, at / 10)} for at in range(30)]
    )
    found = [*findings_of(tail, evidence).values()]
    assert [item.estimate for item in found] == [1.0, 1.0, pytest.approx(0.0)]
    assert overall_verdict(found) is ClaimVerdict.HOLDS


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
