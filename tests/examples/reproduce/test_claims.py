"""What claims measure, on examinations and steps that are small enough to work out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.examples.reproduce.support import NEAR, calling, drawn, named, rollout, write_rollouts, write_steps
from tests.rewards.rollouts import answered, ran

from examples.reproduce.claims import CLAIMS, load_claim, recorded, share
from examples.reproduce.evidence import Claim, ClaimVerdict, Evidence, Finding, judge, overall_verdict
from examples.reproduce.exam import Places, read_exam
from examples.reproduce.outcome import rows_of
from examples.reproduce.run import arm_settings
from examples.reproduce.settings import RECIPES, Reproduction
from saccade.core.settings import load_settings
from saccade.errors import SettingsError
from saccade.record.task import Task


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
