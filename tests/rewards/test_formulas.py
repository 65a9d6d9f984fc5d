"""Every formula against numbers worked by hand."""

from __future__ import annotations

import pytest
from tests.rewards.rollouts import SEARCH, answered, boxed, called, lost, ran, rollout, scored, wrote

from saccade.record.execution import Status
from saccade.record.trajectory import Score
from saccade.rewards.codedance import PRESETS as CODEDANCE
from saccade.rewards.codedance import CodeDanceReward, adaptive_weight, discounted
from saccade.rewards.codev import PRESETS as CODEV
from saccade.rewards.codev import CodeVReward
from saccade.rewards.peers import DEEPEYES_PRESETS as DEEPEYES
from saccade.rewards.peers import PIXEL_REASONER_PRESETS as PIXEL
from saccade.rewards.peers import PRESETS as PYVISION
from saccade.rewards.peers import THYME_PRESETS as THYME
from saccade.rewards.peers import ThymeReward
from saccade.rewards.reward import JudgeVerdict, NoVerdict, Rewarded, pays_for_consistency
from saccade.rewards.vista import PRESETS as VISTA

FAILED = Status.ERROR


@pytest.mark.parametrize(("calls", "correct", "total"), [(0, 1, 1.0), (1, 1, 1.1), (4, 1, 1.4), (4, 0, 0.0)])
def test_pyvision_rl(calls: int, correct: float, total: float) -> None:
    turns = [ran("x", f"p{number}") for number in range(calls)]
    (reward,) = scored(PYVISION["paper"], rollout(*turns, boxed(), correct=correct))
    assert reward.total == pytest.approx(total)
    assert reward.part("calls").value == calls


def test_pyvision_rl_repo_has_a_gate() -> None:
    inline = wrote("<answer>\\boxed{red}</answer>", answered().action)
    good, bad = scored(PYVISION["repo"], rollout(ran(), boxed()), rollout(ran(), inline))
    assert good.total == pytest.approx(1.1)
    assert bad.total == 0.0
    assert "form" in bad.part("accuracy").detail


@pytest.mark.parametrize(
    ("mra", "paper", "repo", "binary"),
    [(1.0, 1.2, 1.2, 1.2), (0.6, 0.6, 0.8, 1.2), (0.5, 0.5, 0.7, 1.2), (0.4, 0.4, 0.4, 0.0), (0.0, 0.0, 0.0, 0.0)],
)
def test_numbers_of_videos_by_each_rule(mra: float, paper: float, repo: float, binary: float) -> None:
    two_calls = rollout(ran(), ran(), boxed(), correct=mra)
    totals = [scored(PYVISION[name], two_calls)[0].total for name in ("paper", "repo", "binary")]
    assert totals == pytest.approx([paper, repo, binary])


@pytest.mark.parametrize(
    ("mu", "weight"), [(0, 0.782), (0.25, 0.681), (0.5, 0.3), (0.625, 0.069), (0.75, -0.081), (1, -0.182)]
)
def test_codedance_weight(mu: float, weight: float) -> None:
    assert adaptive_weight(mu, gamma=4, beta=0.2) == pytest.approx(weight, abs=6e-4)


def test_codedance_weight_is_zero_where_the_facts_say() -> None:
    assert adaptive_weight(0.673287, gamma=4, beta=0.2) == pytest.approx(0, abs=1e-5)
    assert adaptive_weight(0.774653, gamma=4, beta=0.1) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize(
    ("penalties", "returns"),
    [([-0.5, 0, 0], [-0.5, 0, 0]), ([0, -0.5, 0], [-0.1, -0.5, 0]), ([-0.5, -0.5, 0], [-0.6, -0.5, 0]), ([], [])],
)
def test_codedance_returns(penalties: list[float], returns: list[float]) -> None:
    assert discounted(penalties, 0.2) == pytest.approx(returns)


def test_codedance_sequence() -> None:
    half = rollout(ran(), ran(status=FAILED), answered())
    wrong = rollout(ran(), answered("blue"), correct=0)
    first, second = scored(CODEDANCE["paper"], half, wrong)
    # mu = 0.5, w = 0.3: 1 + 1.5 * 0.5 * 0.3 and 0 + 0.5 * 1 * 0.3
    assert first.total == pytest.approx(1.225)
    assert second.total == pytest.approx(0.15)
    assert first.turn_part("execution") == (0.0, -0.5, None)
    assert first.turn_part("returns") == pytest.approx((-0.1, -0.5, None))


def test_codedance_turns_without_a_call_are_discounted() -> None:
    # r = 0, 0, -0.5, 0, -0.5, answer: G_5 = -0.5, G_4 = -0.1, G_3 = -0.5 - 0.02, G_2 = -0.104, G_1 = -0.0208
    said, broken = wrote("<think>I look.</think>"), ran(status=FAILED)
    (reward,) = scored(CODEDANCE["paper"], rollout(ran(), said, broken, said, broken, answered()))
    assert reward.turn_part("execution") == (0.0, 0.0, -0.5, 0.0, -0.5, None)
    assert reward.turn_part("returns") == pytest.approx((-0.0208, -0.104, -0.52, -0.1, -0.5, None))
    # Without an answer the last turn is a turn as the others.
    (ended,) = scored(CODEDANCE["paper"], rollout(broken, said))
    assert ended.turn_part("returns") == (-0.5, 0.0)


def test_codedance_silent_success_is_no_failure() -> None:
    quiet = ran("x = 1", stdout="")
    # mu = 0.5, w = 0.3: both calls succeeded, 1 + 1.5 · 0.3; counted as a failure, 1 + 1.5 · 0.5 · 0.3.
    group = (rollout(quiet, ran(), answered()), rollout(answered("blue"), correct=0))
    for name, total, penalty in (("paper", 1.45, 0.0), ("strict", 1.225, -0.5)):
        preset = CodeDanceReward(silent_fails=True) if name == "strict" else CODEDANCE["paper"]
        reward = scored(preset, *group)[0]
        assert reward.total == pytest.approx(total)
        assert reward.turn_part("execution") == (penalty, 0.0, None)


def test_codedance_outcome_alone() -> None:
    outcome = CodeDanceReward(tool_weight=0.0)
    rewards = scored(outcome, rollout(ran(), answered()), rollout(ran(status=FAILED), answered("blue"), correct=0))
    assert [item.total for item in rewards] == pytest.approx([1.0, 0.0])


def test_codedance_repo_takes_mu_from_the_score() -> None:
    untidy = wrote("<answer>red</answer></think>", answered().action)
    group = (rollout(answered()), rollout(untidy))
    paper, repo = (scored(CODEDANCE[name], *group)[0].part("mu").value for name in ("paper", "repo"))
    assert (paper, repo) == (1.0, pytest.approx(0.9))


def test_codedance_math() -> None:
    (reward,) = scored(CODEDANCE["paper-math"], rollout(ran(), answered()))
    assert reward.total == pytest.approx(1.2 + 2 * (adaptive_weight(1, 4, 0.2)))


CALL = called("a")


@pytest.mark.parametrize(
    ("turns", "correct", "values"),
    [
        ((CALL, answered()), 1, {"paper": 2, "dense": 1, "sparse": 1}),
        ((CALL, answered()), 0, {"paper": 1, "dense": -0.5, "sparse": 0}),
        ((CALL, wrote("<answer>red</answer>", answered().action)), 1, {"paper": -1, "dense": -1.5, "sparse": 0}),
        ((wrote("no" + " no" * 7), answered()), 1, {"paper": -1.5, "dense": -1.5, "sparse": 0}),
        ((wrote("no" + " no" * 15), answered()), 1, {"paper": -2, "dense": -1.5, "sparse": 0}),
        ((wrote("no" + " no" * 31), answered()), 1, {"paper": -3, "dense": -1.5, "sparse": 0}),
    ],
)
def test_vista(turns: tuple[object, ...], correct: float, values: dict[str, float]) -> None:
    trajectory = rollout(*turns, correct=correct)  # type: ignore[arg-type]
    assert {name: scored(VISTA[name], trajectory)[0].total for name in values} == pytest.approx(values)


@pytest.mark.parametrize(("rights", "weight"), [((1, 1), 0.5), ((1, 0), 0.75), ((0, 0), 1.0)])
def test_vista_difficulty(rights: tuple[int, int], weight: float) -> None:
    # D is 2, 1.5 and 1; w = 0.5 clamp(2 - D, 0, 1) + 0.5
    group = [rollout(CALL, answered(), correct=right) for right in rights]
    totals = [reward.total for reward in scored(VISTA["difficulty"], *group)]
    assert totals == pytest.approx([(1 + right) * weight for right in rights])


def test_vista_difficulty_never_weighs_above_one() -> None:
    # D is the mean of -1 and -3: 2 - D is clamped to 1.
    group = [rollout(wrote("<answer>red</answer>", answered().action)), rollout(wrote("no " * 32), answered())]
    rewards = scored(VISTA["difficulty"], *group)
    assert [reward.part("difficulty").value for reward in rewards] == [-2.0, -2.0]
    assert [reward.total for reward in rewards] == pytest.approx([-1.0, -3.0])


def test_codev() -> None:
    turns = (ran("a", "a"), ran("b", "b"), ran("c", "c"), answered())
    (reward,) = scored(CODEV["paper"], rollout(*turns, task=SEARCH), verdicts=[(1, 0.5, 0.25, None)])
    assert reward.part("tool").value == pytest.approx(1.75 / 3)
    assert reward.total == pytest.approx(1 + 0.5 * 1.75 / 3)
    assert reward.turn_part("tool") == (1, 0.5, 0.25, None)


def test_codev_pays_each_rollout_by_its_own_verdicts() -> None:
    first, second = (rollout(ran(name, name), answered(), task=SEARCH) for name in "ab")
    rewards = scored(CODEV["paper"], first, second, verdicts=[(1, None), (0.25, None)])
    assert [reward.part("tool").value for reward in rewards] == [1, 0.25]
    assert CodeVReward.model_validate({"tool_weight": 0.2}) == CodeVReward(tool_weight=0.2)


def test_codev_redline_takes_the_place_of_a_verdict() -> None:
    turns = (ran("a", "a"), ran("a", "a"), answered())
    (reward,) = scored(CODEV["paper"], rollout(*turns, task=SEARCH), verdicts=[(1, 1, None)])
    assert reward.turn_part("tool") == (1, -1, None)
    assert reward.part("tool").value == 0.0
    assert reward.part("redlines").detail == "repeated_noop"


def test_codev_without_search_pays_nothing_but_redlines() -> None:
    clean, broken = scored(CODEV["paper"], rollout(ran("a", "a"), answered()), rollout(ran(status=FAILED), answered()))
    assert (clean.total, broken.total) == (1.0, 0.5)


def test_codev_without_verdict_has_no_reward() -> None:
    trajectory = rollout(ran("a", "a"), answered(), task=SEARCH)
    outage = JudgeVerdict(invalid=NoVerdict.OUTAGE)
    (reward,) = scored(CODEV["paper"], trajectory, verdicts=[(outage, None)])
    assert reward.total is None
    assert reward.part("tool").value is None
    assert reward.part("tool").detail == "outage"
    with pytest.raises(ValueError, match="verdicts"):
        scored(CODEV["paper"], trajectory)


def test_codev_needs_verdicts_though_few_rollouts_call() -> None:
    silent, called_once = rollout(answered(), task=SEARCH), rollout(ran("a", "a"), answered(), task=SEARCH)
    with pytest.raises(ValueError, match="verdicts"):
        scored(CODEV["paper"], silent, called_once)
    assert scored(CODEV["paper"], silent, rollout(answered("blue"), task=SEARCH))[0].total == 1.0


def test_codev_keeps_the_answer_in_charge() -> None:
    with pytest.raises(ValueError, match="smaller"):
        CodeVReward(tool_weight=1.0)
    (reward,) = scored(CODEV["with-format"], rollout(answered()))
    assert reward.total == pytest.approx(1.3)


@pytest.mark.parametrize(
    ("turns", "correct", "visual", "math"),
    [
        ((ran("a", "a"), answered()), 1, 2.0, 1.2),
        ((ran("a"), answered()), 1, 0.8, 1.2),
        ((ran("a", "a"), answered()), 0, 0.0, 0.0),
        ((wrote("<think>"), answered()), 0, -0.2, -0.4),
        ((answered("r" * 1000),), 1, -0.2, -0.4),
    ],
)
def test_deepeyes(turns: tuple[object, ...], correct: float, visual: float, math: float) -> None:
    trajectory = rollout(*turns, correct=correct)  # type: ignore[arg-type]
    assert scored(DEEPEYES["repo"], trajectory)[0].total == pytest.approx(visual)
    assert scored(DEEPEYES["math"], trajectory)[0].total == pytest.approx(math)


def test_thyme() -> None:
    scores = (Score(name="correct", value=1.0), Score(name="consistent", value=1.0))
    good = rollout(answered(), scores=scores)
    wrong = rollout(answered(), correct=0)
    unjudged = rollout(answered())
    totals = [scored(THYME["repo"], item)[0].total for item in (good, wrong, unjudged)]
    assert totals == [2.0, 0.5, None]
    assert scored(THYME["repo"], rollout(wrote("<think>a"), answered()))[0].part("format").value == 0


def test_thyme_asks_about_what_may_be_paid() -> None:
    asks = THYME["repo"].needs_consistency
    assert asks(rollout(answered(), correct=0.5)) is True
    for trajectory in (rollout(answered(), correct=0), rollout(answered(), correct=None), lost(ran())):
        assert asks(trajectory) is False
    weightless = ThymeReward(consistency_weight=0)
    assert weightless.needs_consistency(rollout(answered())) is False
    assert scored(weightless, rollout(answered()))[0].total == 1.5
    assert [pays_for_consistency(preset) for preset in (weightless, THYME["repo"], PYVISION["paper"])] == [
        False,
        True,
        False,
    ]
    assert Rewarded("thyme@1:repo", {"consistency_weight": 0})(rollout(answered()))  # needs no judge


def test_pixel_reasoner() -> None:
    one = rollout(ran(), answered())
    two = rollout(ran(), ran(), ran(), answered(), correct=0)
    none = rollout(answered())
    rewards = scored(PIXEL["verl-tool"], one, two, *[none] * 8)
    # A fifth of the group called: 0.5 * (0.3 - 0.2) = 0.05; two calls too many cost 0.1.
    assert [reward.total for reward in rewards[:3]] == pytest.approx([1.05, -0.05, 1.0])
    assert scored(PIXEL["verl-tool"], one)[0].total == pytest.approx(1.0)


ALL = {
    f"{family}:{name}": preset
    for family, presets in {
        "pyvision-rl": PYVISION,
        "codedance": CODEDANCE,
        "vista-r1": VISTA,
        "codev": CODEV,
        "deepeyes": DEEPEYES,
        "thyme": THYME,
        "pixel-reasoner": PIXEL,
    }.items()
    for name, preset in presets.items()
}


@pytest.mark.parametrize("name", ALL)
def test_an_outage_is_no_zero_and_touches_nobody(name: str) -> None:
    preset = ALL[name]
    scores = (Score(name="correct", value=1.0), Score(name="consistent", value=1.0))
    good = rollout(ran("a", "a"), answered(), scores=scores)
    alone = scored(preset, good)[0]
    with_lost = scored(preset, lost(ran("a", "a", status=Status.LOST)), good)
    assert with_lost[0].total is None
    assert all(part.value is None for part in with_lost[0].parts)
    assert with_lost[1] == alone


@pytest.mark.parametrize("name", ALL)
def test_ungraded_is_no_zero(name: str) -> None:
    (reward,) = scored(ALL[name], rollout(answered(), correct=None))
    assert reward.total is None


@pytest.mark.parametrize("name", ALL)
def test_parts_are_named_once_and_sum_up(name: str) -> None:
    group = (rollout(ran("a", "a"), answered()), rollout(ran(status=FAILED), correct=0))
    for reward in scored(ALL[name], *group):
        names = [part.name for part in reward.parts]
        assert len(names) == len(set(names))
        if reward.total is not None:
            assert reward.total == pytest.approx(sum(part.weight * (part.value or 0.0) for part in reward.parts))


def test_half_an_answer_is_right_for_codedance_and_not_for_deepeyes() -> None:
    (half,) = scored(CODEDANCE["paper"], rollout(ran("x", "p"), answered(), correct=0.5))
    assert half.part("tools").value == pytest.approx((0.5 + 1) * 0.3)
    for correct, used in ((0.5, 0.0), (0.51, 1.0)):
        (reward,) = scored(DEEPEYES["repo"], rollout(ran("x", "p"), answered(), correct=correct))
        assert reward.part("tool").value == used


def test_codevs_form_is_tags_in_order_and_an_answer() -> None:
    bare = wrote("<code>x <answer>red</answer>", answered().action)
    for turns, form in (((ran(), answered()), 1.0), ((ran(),), 0.0), ((ran(), bare), 0.0)):
        assert scored(CODEV["with-format"], rollout(*turns))[0].part("format").value == form
    assert CODEV["paper"].turns_to_judge(lost(ran())) == ()


def test_vista_says_what_is_repeated_and_weighs_by_difficulty_alone() -> None:
    plain, again = scored(VISTA["paper"], rollout(called(), answered()), rollout(*[wrote("no " * 9)], answered()))
    assert (plain.part("repetition").detail, again.part("repetition").detail) == ("", "moderate")
    (unknown,) = scored(VISTA["difficulty"], rollout(called(), answered(), correct=None))
    assert {part.weight for part in unknown.parts if part.name in ("format", "correct")} == {1.0}
