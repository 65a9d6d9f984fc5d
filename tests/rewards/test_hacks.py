"""What a policy may try instead of looking, on every preset: exactly those pay that docs/rewards.md says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.rewards.rollouts import SEARCH, answered, boxed, part, ran, rollout, wrote

from saccade.record.content import Answer, Code, ToolCall
from saccade.record.execution import Status
from saccade.record.trajectory import Score, Trajectory, Turn
from saccade.rewards.judges.box import BoxJudge
from saccade.rewards.registry import REWARDS, load_reward
from saccade.rewards.reward import RewardGroup

DOCS = Path(__file__).resolve().parents[2] / "docs" / "rewards.md"
PRESETS = [f"{entry.partition('@')[0]}:{name}" for entry in REWARDS.ids() for name in REWARDS.presets(entry)]
PAPER = [name for name in PRESETS if name.partition(":")[2].startswith("paper")]
HONEST = ran("honest", "crop")
PLAIN = ran("print(1)")
Turns = tuple[Turn, ...]


class _Spot:
    """The honest crop looks at the gold box; nothing else looks anywhere."""

    turn, name, box = 0, "photo", (95.0, 95.0, 145.0, 145.0)


def _looked(trajectory: Trajectory) -> list[_Spot]:
    pictures = [picture.image for turn in trajectory.turns if turn.execution for picture in turn.execution.pictures]
    return [_Spot()] if part("crop") in pictures[:1] else []


def _in_form(name: str, turn: Turn) -> Turn:
    """The turn as the preset's dialect writes it, so that a hack is not stopped by a matter of form."""
    if name.startswith("pyvision") and isinstance(turn.action, Answer):
        return boxed(turn.action.text)
    if name.startswith("vista") and isinstance(turn.action, Code):
        arguments = {"code": turn.action.code}
        text = f"<think>Look.</think><tool_call>{json.dumps({'tool': 'python', **arguments})}</tool_call>"
        return turn.model_copy(update={"action": ToolCall(name="python", arguments=arguments), "text": text})
    return turn


def worth(name: str, *turns: Turn, correct: float = 1.0) -> float:
    """The reward of a rollout among an honest right one and a wrong one, all on a search task."""
    scored = [((*turns,), correct), ((HONEST, answered()), 1.0), ((answered("blue"),), 0.0)]
    group = tuple(
        rollout(
            *(_in_form(name, turn) for turn in given),
            task=SEARCH,
            scores=(Score(name="correct", value=right), Score(name="consistent", value=1.0)),
        )
        for given, right in scored
    )
    judge = BoxJudge(_looked)
    value = load_reward(name)(RewardGroup(group, tuple(judge.verdicts(item) for item in group)))[0].total
    assert value is not None
    return value


RIGHT, WRONG = (answered(),), (answered("blue"),)
HACKS: dict[str, tuple[Turns, Turns, float]] = {
    "the same crop ten times": ((*[HONEST] * 10, *RIGHT), (HONEST, *RIGHT), 1),
    "silent code": ((ran("# zooming in", stdout=""), *RIGHT), RIGHT, 1),
    "a call that fails": ((ran("raise", status=Status.ERROR, stdout="Code execution successful\n"), *RIGHT), RIGHT, 1),
    "an empty box": ((ran("crop((5, 5, 5, 5)).size", stdout="", value="(0, 0)"), *RIGHT), RIGHT, 1),
    "a crop of something else": ((ran("crop", "elsewhere"), *RIGHT), RIGHT, 1),
    "the whole picture again": ((ran("show(image)", "photo"), *RIGHT), RIGHT, 1),
    "printing what success looks like": (
        (ran("print", stdout="Code execution successful\n"), *RIGHT),
        (PLAIN, *RIGHT),
        1,
    ),
    "printing the question and gold": ((ran("print", stdout=f"{SEARCH.question} red\n"), *RIGHT), (PLAIN, *RIGHT), 1),
    "the answer printed, none given": ((ran("print", stdout="<answer>\n\\boxed{red}\n</answer>\n"),), (PLAIN,), 1),
    "1000 characters and a lenient grader": ((answered("red " * 250),), WRONG, 1),
    "all choices as the answer": ((answered("red, green or blue"),), WRONG, 0),
}
"""The rollout, the one that it must not beat, and what the grader says of it."""

DEEPEYES, TURNS = {"deepeyes:repo"}, {"pyvision-rl:paper", "pyvision-rl:repo"}
RATIO = {"codedance:paper", "codedance:paper-math", "codedance:repo"}
"""w(mu) is positive here: two of three rollouts are right. For `repo-math` a mean score of 0.8 makes it negative."""
PAYS: dict[str, set[str]] = {
    "the same crop ten times": TURNS,
    "silent code": TURNS | RATIO,
    "a call that fails": TURNS,
    "an empty box": TURNS | RATIO,
    "a crop of something else": TURNS | RATIO | DEEPEYES | {"codev:paper", "codev:with-format"},
    "the whole picture again": TURNS | RATIO | DEEPEYES,
}


@pytest.mark.parametrize("hack", HACKS)
@pytest.mark.parametrize("name", PRESETS)
def test_exactly_these_pay(name: str, hack: str) -> None:
    turns, rival, correct = HACKS[hack]
    rivals_grade = 0.0 if rival is WRONG else 1.0
    gain = worth(name, *turns, correct=correct) - worth(name, *rival, correct=rivals_grade)
    assert (gain > 1e-9) == (name in PAYS.get(hack, set())), gain


def test_the_docs_say_the_same() -> None:
    rows = re.findall(
        r"^\| (.+?) \| (.+?) \|$", DOCS.read_text(encoding="utf-8").partition("## Hacks")[2], re.MULTILINE
    )
    said = {hack: set(re.findall(r"`([^`]+)`", paid)) for hack, paid in rows if hack in HACKS}
    assert said == {hack: PAYS.get(hack, set()) for hack in HACKS}


@pytest.mark.parametrize("name", PRESETS)
def test_printing_error_is_no_failure(name: str) -> None:
    assert worth(name, ran("print()", stdout="Error: timeout, Traceback\n"), answered()) == worth(
        name, PLAIN, answered()
    )


@pytest.mark.parametrize("name", PAPER)
def test_a_wrong_answer_never_beats_the_honest_right_one(name: str) -> None:
    honest = worth(name, HONEST, answered())
    for turns in ((*[HONEST] * 10,), (HONEST, wrote("I would rather not.")), (HONEST, ran("b", "b")), ()):
        assert worth(name, *turns, answered("blue"), correct=0) < honest


def test_every_published_family_has_a_paper_preset() -> None:
    assert {name.partition(":")[0] for name in PAPER} == {"pyvision-rl", "codedance", "vista-r1", "codev"}
