"""What a policy may try instead of looking: which presets pay, as docs/rewards.md says."""

from __future__ import annotations

import json

import pytest
from tests.rewards.rollouts import PHOTO, SEARCH, answered, part, ran, rollout, wrote

from saccade.record.action import Code, ToolCall
from saccade.record.status import Status
from saccade.record.trajectory import Trajectory
from saccade.record.turn import Turn
from saccade.rewards.judges.box import BoxJudge
from saccade.rewards.registry import REWARDS, load_reward, presets
from saccade.rewards.reward import Group

PAPER = [f"{entry}:{name}" for entry in REWARDS.ids() for name in presets(entry) if name.startswith("paper")]
HONEST = ran("honest", "crop")


class _Spot:
    """The honest crop looks at the gold box; nothing else looks anywhere."""

    turn, name, box = 0, "photo", (95.0, 95.0, 145.0, 145.0)


def _looked(trajectory: Trajectory) -> list[_Spot]:
    pictures = [picture.image for turn in trajectory.turns if turn.execution for picture in turn.execution.pictures]
    return [_Spot()] if part("crop") in pictures[:1] else []


def _in_protocol(turn: Turn) -> Turn:
    """VISTA's form asks for tool calls; the code becomes the argument."""
    if not isinstance(turn.action, Code):
        return turn
    call = json.dumps({"tool": "python", "code": turn.action.code})
    action = ToolCall(name="python", arguments={"code": turn.action.code})
    return turn.model_copy(update={"action": action, "text": f"<think>Look.</think><tool_call>{call}</tool_call>"})


def worth(name: str, *turns: Turn, correct: float = 1.0) -> float:
    """The reward of a rollout among an honest right one and a wrong one, all on a search task."""
    rivals = (rollout(HONEST, answered(), task=SEARCH), rollout(answered("blue"), correct=0, task=SEARCH))
    if name.startswith("vista"):
        turns = tuple(map(_in_protocol, turns))
    group = (rollout(*turns, correct=correct, task=SEARCH), *rivals)
    judge = BoxJudge(_looked)
    rewards = load_reward(name)(Group(group, tuple(judge.verdicts(item) for item in group)))
    assert rewards[0].total is not None
    return rewards[0].total


def test_there_are_paper_presets() -> None:
    assert {name.partition("@")[0] for name in PAPER} == {"pyvision-rl", "codedance", "vista-r1", "codev"}


PAYS_PER_CALL = {"pyvision-rl@1:paper"}
"""Equation 1 pays for the number of calls, whatever they do."""


@pytest.mark.parametrize("name", PAPER)
def test_the_same_crop_ten_times(name: str) -> None:
    once, ten = worth(name, HONEST, answered()), worth(name, *[HONEST] * 10, answered())
    assert (ten > once) == (name in PAYS_PER_CALL)


@pytest.mark.parametrize("name", PAPER)
def test_silent_code(name: str) -> None:
    comment = ran("# zooming into the region of interest", stdout="")
    assert (worth(name, comment, answered()) > worth(name, answered())) == (name in PAYS_PER_CALL)


@pytest.mark.parametrize("name", PAPER)
def test_printing_error_is_no_failure_and_hiding_one_is(name: str) -> None:
    said = worth(name, ran("print()", stdout="Error: timeout, Traceback\n"), answered())
    quiet = worth(name, ran("print()", stdout="Mean: 0.1\n"), answered())
    assert said == quiet
    hidden = ran("raise", status=Status.ERROR, stdout="Code execution successful\n")
    assert worth(name, hidden, answered()) <= quiet


@pytest.mark.parametrize("name", PAPER)
def test_an_answer_inside_tool_output_is_none(name: str) -> None:
    printed = ran("print(gold)", stdout="<answer>\n\\boxed{red}\n</answer>\n")
    without = ran("print(gold)", stdout="1\n")
    assert worth(name, printed) == worth(name, without)
    assert worth(name, printed) < worth(name, printed, answered())


@pytest.mark.parametrize("name", PAPER)
def test_a_very_long_answer_is_wrong_whatever_the_grader_says(name: str) -> None:
    echo = answered("red " * 250)
    short, long = worth(name, answered()), worth(name, echo)
    assert long < short
    assert long <= worth(name, echo, correct=0)


@pytest.mark.parametrize("name", PAPER)
def test_the_question_echoed_as_output_is_no_evidence(name: str) -> None:
    echo = ran("print(question)", stdout=SEARCH.question + " red\n")
    plain = ran("print(1)")
    assert worth(name, echo, answered()) == worth(name, plain, answered())


@pytest.mark.parametrize("name", PAPER)
def test_gold_echoed_from_the_prompt_is_worth_what_the_grader_says(name: str) -> None:
    echo = answered("red, green or blue")
    assert worth(name, echo, correct=0) == worth(name, answered("blue"), correct=0)


@pytest.mark.parametrize("name", PAPER)
def test_an_empty_box_brings_nothing(name: str) -> None:
    empty = ran("crop((5, 5, 5, 5))", status=Status.ERROR, stdout="")
    cost = worth(name, empty, answered()) - worth(name, answered())
    assert (cost > 0) == (name in PAYS_PER_CALL)


@pytest.mark.parametrize("name", PAPER)
def test_showing_the_whole_picture_again_is_no_search(name: str) -> None:
    again = ran("show(image)", "photo")
    assert again.execution is not None
    assert again.execution.pictures[0].image.sha256 == PHOTO.sha256
    assert worth(name, again, answered()) <= worth(name, HONEST, answered())


@pytest.mark.parametrize("name", PAPER)
def test_a_wrong_answer_never_beats_the_honest_right_one(name: str) -> None:
    honest = worth(name, HONEST, answered())
    for turns in ((*[HONEST] * 10,), (HONEST, wrote("I would rather not.")), (HONEST, ran("b", "b")), ()):
        assert worth(name, *turns, answered("blue"), correct=0) < honest
