"""What rewards read, and the rules that are our own: redlines, repetition, form, the registry."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.rewards.rollouts import TASK, answered, boxed, called, file, lost, part, ran, rollout, scored, wrote

from saccade.dialects.base import load_dialect
from saccade.errors import RegistryError, SettingsError
from saccade.record.content import ParseError
from saccade.record.execution import ExecutionPicture, ExecutionRepair, Status
from saccade.record.trajectory import Turn, total
from saccade.rewards.codedance import PRESETS
from saccade.rewards.codev import Redline, redlines
from saccade.rewards.judges.model import fines_form, turn_parts
from saccade.rewards.reward import (
    REWARDS,
    JudgeVerdict,
    Reward,
    RewardGroup,
    accuracy,
    boxed_answer,
    calls,
    failed,
    follows_protocol,
    load_reward,
    one_thought_one_answer,
    only_actions,
    silent,
    tags_in_order,
    with_reward,
)
from saccade.rewards.vista import Repetition, RepetitionRule, repetition
from saccade.tools.context import ProblemKind
from saccade.training.rl.recipe import load_recipe


def test_accuracy() -> None:
    assert accuracy(rollout(answered(), correct=0.7)) == 0.7
    assert accuracy(rollout(ran())) == 0.0
    assert accuracy(rollout(answered("r" * 999))) == 1.0
    assert accuracy(rollout(answered("r" * 1000))) == 0.0
    assert accuracy(rollout(answered(), correct=None)) is None
    assert accuracy(rollout(answered(), scores=())) is None
    assert accuracy(lost(answered())) is None


def test_calls_and_failures_are_statuses() -> None:
    turns = (ran(), ran(status=Status.TIMEOUT), ran(status=Status.LOST), wrote("Hm."), answered())
    assert calls(rollout(*turns)) == (0, 1)
    assert [failed(turn) for turn in turns] == [False, True, False, False, False]
    assert not failed(called(status=Status.ERROR, problem=ProblemKind.TOOL_FAILURE))
    assert failed(called(status=Status.ERROR, problem=ProblemKind.ARGUMENT_NAME))


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (ran(stdout=""), True),
        (ran(stdout=" \n"), True),
        (ran(stdout="0"), False),
        (ran("a", "a", stdout=""), False),
        (ran(stdout="", value="3"), False),
        (ran(stdout="", stderr="warning"), False),
        (ran(stdout="", status=Status.ERROR), False),
        (answered(), False),
    ],
)
def test_silent(turn: Turn, expected: bool) -> None:
    assert silent(turn) is expected


def crossed(*turns: Turn) -> list[tuple[Redline, ...]]:
    return list(redlines(rollout(*turns)))


def test_redline_coordinates() -> None:
    clamped = ran("a", "a", repairs=(ExecutionRepair(name="clamp_crop", note="clipped"),))
    other = ran("b", "b", repairs=(ExecutionRepair(name="missing_import"),))
    refused = called(status=Status.ERROR, problem=ProblemKind.ARGUMENT_FORMAT)
    assert crossed(clamped, other) == [(), ()]  # what was clamped is forgiven
    assert crossed(refused) == [(Redline.INVALID_COORDINATES, Redline.AVOIDABLE_ERROR)]


def test_redline_repetition() -> None:
    crop = ran("a", "a")
    assert crossed(crop, crop, ran("b", "b", "a"), answered()) == [(), (Redline.REPEATED_NOOP,), (), ()]
    assert crossed(ran("show", "photo")) == [(Redline.REPEATED_NOOP,)]
    assert crossed(ran(), ran()) == [(), ()]


def test_redline_scratch_files() -> None:
    picture = ExecutionPicture(image=part("a"), source="file", path="a.png")
    back = ran("save")
    assert back.execution is not None
    returned = back.model_copy(
        update={"execution": back.execution.model_copy(update={"pictures": (picture,), "files": (file("a.png"),)})}
    )
    assert crossed(returned, ran("save", files=(file("notes.txt"),))) == [(), (Redline.SCRATCH_FILE,)]


@pytest.mark.parametrize(
    ("turn", "lines"),
    [
        (ran(status=Status.ERROR), (Redline.AVOIDABLE_ERROR,)),
        (ran(status=Status.KILLED), (Redline.AVOIDABLE_ERROR,)),
        (ran(stdout="Error: Traceback"), ()),
        (ran(status=Status.LOST), ()),
        (called(status=Status.REFUSED, problem=ProblemKind.UNAVAILABLE), ()),
    ],
)
def test_redline_errors(turn: Turn, lines: tuple[Redline, ...]) -> None:
    assert crossed(turn) == [lines]


PARAGRAPH = " ".join(f"{a}{b}t" for a in "bcdfg" for b in "aeiou")
"""25 words."""
PAGE = " ".join(f"{a}{b}{c}" for a in "bcdfghjkl" for b in "aeiou" for c in "mnprs")
"""225 others."""


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("", 0),
        ("!" * 128, 3),
        ("-" * 500, 0),
        ("| --- " * 40, 0),
        (" " * 500, 0),
        ("look again, " * 3, 0),
        ("look again, " * 4, 1),
        ("look again, " * 8, 2),
        ("look again, " * 16, 3),
        ("one two three four five six seven eight nine ten " * 4, 1),
        ("The sign is red, because the sign in the crop is red and not blue.", 0),
        ("grid = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]\nprint(sum(map(sum, grid)))", 0),
        # Numbers and variables repeat in honest text.
        ("The bars are 5, 5, 5, 5, 5 so the sum is 25.", 0),
        ("2 + 2 + 2 + 2 + 2", 0),
        ("x + x + x + x + x = 5x", 0),
        ("0, 0, 0, 0, 0", 0),
        ("3." + "3" * 33, 0),
        ("The sides are 5 cm, 5 cm, 5 cm, 5 cm and 5 cm.", 0),
        ("Bar 3, Bar 3, Bar 3, Bar 3, Bar 3", 0),
        ("[0, 0, 0], " * 12, 0),
        ("no, no, no, no", 0),
        # But not without end.
        ("0, " * 32, 1),
        ("0, " * 500, 3),
        ("3" * 600, 3),
        # A paragraph of any length, with what ends it.
        (f"{PARAGRAPH}. " * 3, 0),
        (f"{PARAGRAPH}. " * 4, 1),
        (f"{PARAGRAPH}. " * 10, 2),
        (f"{PARAGRAPH}.\n\n" * 16, 3),
        (f"Well. {PAGE}. " * 3, 0),
        (f"Well. {PAGE}. " * 10, 2),
        # One whose own sentences stand in it several times.
        ((f"{PARAGRAPH}. " * 3 + PAGE + ". ") * 4, 1),
        # Scripts without spaces.
        ("\u5f88\u597d" * 4, 1),
    ],
)
def test_repetition(text: str, level: int) -> None:
    assert repetition([text]) == Repetition(level)


def test_the_same_turn_again_is_a_repetition() -> None:
    turn = "<think>Crop it.</think><tool_call>{}</tool_call>"
    levels = [repetition([turn] * number) for number in (1, 3, 4, 8, 16)]
    assert levels == [0, 0, 1, 2, 3]
    assert repetition([turn, "other"] * 8) == Repetition.NONE
    assert repetition([turn] * 16, RepetitionRule(turns=(17, 18, 19))) == Repetition.NONE
    assert repetition([]) == Repetition.NONE


THINK = "<think>So.</think>"


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (f"{THINK}\n<answer>red</answer>", True),
        ("<answer>red</answer>", False),
        (f"{THINK}<answer>red</answer> done", False),
        (f"{THINK}{THINK}<answer>red</answer>", False),
        (f"<think><answer>red</answer></think>", False),  # noqa: F541
        (f"{THINK}<answer>red</answer><answer>red</answer>", False),
        (f"{THINK}<answer>red", False),
    ],
)
def test_protocol(text: str, fits: bool) -> None:
    assert follows_protocol(rollout(called(), wrote(text, answered().action))) is fits


def test_protocol_of_calls() -> None:
    assert follows_protocol(rollout(answered()))
    assert not follows_protocol(rollout(called()))
    assert not follows_protocol(rollout(wrote("<tool_call>{}</tool_call>", called().action), answered()))
    assert not follows_protocol(rollout(wrote("Hm."), answered()))


def test_form_without_thoughts() -> None:
    asked = wrote("<code>\nprint(1)\n</code>", ran().action)
    boxed_turn = wrote("<answer>\n\\boxed{red}\n</answer>", answered().action)
    assert only_actions(rollout(asked, boxed_turn))
    assert only_actions(rollout(boxed_turn))
    assert not only_actions(rollout(asked))
    assert not only_actions(rollout(wrote("Hm."), boxed_turn))
    assert not only_actions(rollout(asked, wrote("<answer>red", answered().action)))
    assert not only_actions(rollout(asked, wrote(f"{boxed_turn.text}, I think", answered().action)))
    group = RewardGroup((rollout(asked, boxed_turn),))
    paid = {name: load_reward("vista-r1", {"protocol": name})(group)[0].total for name in ("vista", "code")}
    assert paid == {"vista": -1.0, "code": 2.0}


def test_other_forms() -> None:
    assert tags_in_order(rollout(ran(), answered()), ("think", "code", "answer"))
    assert tags_in_order(rollout(ran()), ("think", "code", "answer"))
    assert not tags_in_order(rollout(wrote("Hm."), answered()), ("think",))
    inside = wrote("<think>So <code>1</code>", ran().action)
    assert tags_in_order(rollout(inside), ("code", "answer"))
    assert not tags_in_order(rollout(inside), ("think", "code"))
    assert boxed_answer(rollout(boxed()))
    assert not boxed_answer(rollout(answered()))
    assert not boxed_answer(rollout(ran()))
    assert one_thought_one_answer(rollout(answered()))
    assert not one_thought_one_answer(rollout(ran(), answered()))
    assert not one_thought_one_answer(rollout(wrote(f"{THINK}\n\n<answer>red</answer>", answered().action)))


def test_a_group_is_of_one_task_and_its_verdicts_fit() -> None:
    other = rollout(answered(), task=rollout().task.model_copy(update={"id": "u"}))
    with pytest.raises(ValueError, match="one task"):
        RewardGroup((rollout(), other))
    with pytest.raises(ValueError, match="verdicts need"):
        RewardGroup((rollout(answered()),), ((JudgeVerdict(score=1), None),))


def test_presets_are_found_and_changed() -> None:
    names = {entry: REWARDS.presets(entry) for entry in REWARDS.ids()}
    assert names["codedance@1"] == ("paper", "paper-math", "repo", "repo-math")
    for entry, found in names.items():
        assert [load_reward(f"{entry}:{name}") for name in found]
        assert load_reward(entry) == load_reward(f"{entry}:{found[0]}")
    assert load_reward("pyvision-rl", {"tool_weight": 0.0}) != load_reward("pyvision-rl")
    with pytest.raises(RegistryError, match="paper"):
        load_reward("codedance@1:papre")
    with pytest.raises(SettingsError, match="tool_weight"):
        load_reward("pyvision-rl", {"tool_wieght": 0.0})
    with pytest.raises(SettingsError, match="gamma"):
        load_reward("codedance", {"gamma": -1})


def test_parts_by_name() -> None:
    (reward,) = load_reward("codedance")(RewardGroup((rollout(ran(), answered()),)))
    assert Reward.model_validate_json(reward.model_dump_json()) == reward
    with pytest.raises(KeyError):
        reward.part("nothing")
    with pytest.raises(KeyError):
        reward.turn_part("nothing")


def test_a_reward_is_kept_beside_the_grade() -> None:
    trajectory = rollout(called(), answered(), correct=1.0)
    (reward,) = load_reward("vista-r1")(RewardGroup((trajectory,)))
    kept = with_reward(trajectory, reward)
    assert {score.name: score.value for score in kept.scores} == {
        "correct": 1,
        "reward.repetition": 0,
        "reward.format": 1,
        "reward.correct": 1,
    }
    assert total(kept.scores) == reward.total == 2


def test_the_box_is_found_in_bounded_time() -> None:
    assert not boxed_answer(rollout(wrote("<answer>\n\\boxed{" * 20_000, answered().action)))


def test_a_rule_may_count_from_the_second_time() -> None:
    rule = RepetitionRule(phrases=(2, 3, 4))
    levels = [repetition(["look at it again " * number], rule) for number in (1, 2, 3, 4)]
    assert levels == [0, 1, 2, 3]
    assert repetition(["Then I look at it again look at it again and stop"], rule) == Repetition.MODERATE
    assert repetition(["Then I look at it again, look at it again, and stop"]) == Repetition.NONE


@pytest.mark.parametrize("words", [19, 20, 21, 22, 40])
def test_a_phrase_of_any_length_repeats(words: int) -> None:
    phrase = " ".join(f"w{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(words))
    levels = [repetition([f"Well then {' '.join([phrase] * times)} so"]) for times in (3, 4, 7, 8, 15, 16)]
    assert levels == [0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("unit", "steps"),
    [
        ("a", (32, 64, 128)),
        ("3", (128, 256, 512)),
        ("no ", (8, 16, 32)),
        ("see it ", (4, 8, 16)),
        ("4 ", (32, 64, 128)),
        ("x + ", (32, 64, 128)),
        ("5 cm, ", (32, 64, 128)),
    ],
)
def test_every_unit_has_three_steps(unit: str, steps: tuple[int, int, int]) -> None:
    for level, step in enumerate(steps):
        assert [repetition([unit * (step + more)]) for more in (-1, 0)] == [level, level + 1]


@pytest.mark.parametrize("field", ["characters", "digits", "words", "phrases", "numbers", "turns"])
def test_every_step_is_a_setting(field: str) -> None:
    texts = {
        "characters": ["a" * 3],
        "digits": ["7" * 3],
        "words": ["no no no"],
        "phrases": ["see it see it see it"],
        "numbers": ["4 4 4"],
        "turns": [" so it is\n", "so it is", "so it is"],
    }[field]
    assert repetition(texts) == 0
    assert repetition(texts, RepetitionRule.model_validate({field: (2, 3, 4)})) == 2
    assert repetition(texts, RepetitionRule.model_validate({field: (1, 2, 3)})) == 3


def test_forms_of_what_is_no_whole_episode() -> None:
    for form in (follows_protocol, only_actions):
        assert form(rollout()) is False
        assert form(rollout(called())) is False
    refused = called().model_copy(update={"action": ParseError(reason="no such tool"), "execution": None})
    assert not follows_protocol(rollout(refused, answered()))
    twice = wrote("So.\n<answer>\n\\boxed{\\boxed{red}}\n</answer>", answered().action)
    assert not boxed_answer(rollout(twice))
    assert boxed_answer(rollout(boxed()))


def test_redlines_of_what_did_not_run_and_of_two_files() -> None:
    idle = ran().model_copy(update={"execution": None})
    assert redlines(rollout(idle, answered())) == ((), ())
    kept = ran("x", files=(file("a.png"), file("b.png")))
    assert kept.execution is not None
    shown = ExecutionPicture(image=part("a"), source="file", path="a.png")
    kept = kept.model_copy(update={"execution": kept.execution.model_copy(update={"pictures": (shown,)})})
    assert redlines(rollout(kept, answered())) == ((), ())


def test_a_reward_tried_on_an_invented_rollout() -> None:
    def broken(group: RewardGroup) -> tuple[Reward, ...]:
        raise KeyError("no tag")

    assert turn_parts(load_reward("codedance")) == tuple(
        item.name for item in scored(load_reward("codedance"), rollout(ran(), answered()))[0].turns
    )
    assert turn_parts(load_reward("pyvision-rl")) == ()
    assert turn_parts(broken) is None
    vista, codev = load_dialect("vista"), load_dialect("codev")
    assert fines_form(load_reward("vista-r1"), load_dialect("pyvision"))
    assert not fines_form(load_reward("vista-r1"), vista)
    assert not fines_form(load_reward("pyvision-rl"), codev)
    assert not fines_form(load_reward("codev:with-format"), codev)
    assert not fines_form(load_reward("deepeyes"), codev)  # its form is 0 or less
    assert not fines_form(broken, codev)


def test_rewards_of_ones_own(tmp_path: Path) -> None:
    own = tmp_path / "paid.py"
    own.write_text("class Kind: pass\nSEVEN = 7\ndef paid(group): return ()\n")
    for name in ("Kind", "SEVEN"):
        with pytest.raises(RegistryError, match="not a function of a Group"):
            load_reward(f"{own}:{name}")
    assert load_reward(f"{own}:paid")(RewardGroup(())) == ()
    with pytest.raises(SettingsError, match=r"paid takes no parameters; leave out weight"):
        load_reward(f"{own}:paid", {"weight": 1})


@pytest.mark.parametrize(("word", "level"), [("5cm", 0), ("cm", 1), ("x", 0), ("é", 1)])
def test_what_counts_as_a_word(word: str, level: int) -> None:
    """Eight times in a row: a figure with its unit is a number, a letter alone a variable."""
    assert repetition([f"{word} " * 8]) == Repetition(level)


def test_what_counts_as_a_phrase_a_word_and_a_rule() -> None:
    rare = RepetitionRule(words=(100, 200, 300))
    assert repetition(["no " * 32], rare) == Repetition.NONE  # two of a word are no phrase of two words
    every = RepetitionRule(words=(2, 3, 4), phrases=(2, 3, 4), numbers=(2, 3, 4))
    assert repetition(["I see it now"], every) == Repetition.NONE
    assert repetition(["-- " * 32]) == Repetition.NONE
    assert repetition(["- " * 32]) == repetition(["a_b " * 8]) == Repetition.MODERATE


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
    for tag, expected in (("vision", 1.45), ("math", 1.8)):
        task = TASK.model_copy(update={"tags": (tag,)})
        right = rollout(ran("a", "a"), answered(), task=task)
        wrong = rollout(answered("blue"), task=task, correct=0.0)
        assert reward(RewardGroup((right, wrong)))[0].total == pytest.approx(expected)
