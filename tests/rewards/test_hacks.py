"""What a policy may try instead of looking, on every preset: exactly those pay that docs/rewards.md says.

Every trick is played by a scripted model in a real sandbox; what the sandbox recorded is what the rewards read.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from tests.rewards.rollouts import answered, boxed, rollout, wrote
from tests.rewards.test_episodes import FAR, NEAR, WHOLE, crop, play

from saccade.episode.regions import StoredPixels, regions
from saccade.media.store import MediaStore
from saccade.record.content import Answer, Code, ToolCall
from saccade.record.execution import Status
from saccade.record.trajectory import Score, Trajectory, Turn
from saccade.rewards.judges.answer import BoxJudge
from saccade.rewards.reward import REWARDS, JudgeVerdict, RewardGroup, load_reward
from saccade.training.rl.scoring import with_repeats

DOCS = Path(__file__).resolve().parents[2] / "docs" / "rewards.md"
PRESETS = [f"{entry.partition('@')[0]}:{name}" for entry in REWARDS.ids() for name in REWARDS.presets(entry)]
PAPER = [name for name in PRESETS if name.partition(":")[2].startswith("paper")]
Turns = tuple[Turn, ...]

SUCCESS = "print('Code execution successful')"
CELLS = {
    "honest": crop(NEAR, "near"),
    "plain": "print(1)",
    "error": "print('Error: timeout, Traceback')",
    "silent": "# zooming in",
    "fails": f"{SUCCESS}\nraise ValueError",
    "empty": "image.crop((5, 5, 5, 5)).size",
    "elsewhere": crop(FAR, "far"),
    "success": SUCCESS,
    "gold": "print('Which? a')",
    "answer": "print('<answer>\\n\\\\boxed{a}\\n</answer>')",
    **WHOLE,
}


class Played:
    """One rollout of a real sandbox for each cell, and one of ten equal crops."""

    def __init__(self, folder: Path) -> None:
        self.store = MediaStore(folder)
        self._looked: dict[tuple[int, ...], tuple[Turns, Trajectory, tuple[JudgeVerdict | None, ...]]] = {}
        turns = {name: asyncio.run(play(self.store, "codev", cell)) for name, cell in CELLS.items()}
        self.task = turns["honest"].task
        self.turn = {name: episode.turns[0] for name, episode in turns.items()}
        # CodeV's dialect refuses an empty box; the others run it.
        self.turn["refused"] = self.turn["empty"]
        self.turn["empty"] = asyncio.run(play(self.store, "codedance", f"input_{CELLS['empty']}")).turns[0]
        self.same = asyncio.run(play(self.store, "codev", *[CELLS["honest"]] * 10)).turns[:10]

    def group(self, *given: tuple[Turns, float], name: str) -> RewardGroup:
        """Rollouts of these turns and grades, in the form of the dialect of preset `name`, with the boxes' verdicts."""
        looked = [self.looked(turns, name) for turns, _ in given]
        graded = [
            item.model_copy(update={"scores": (Score(name="correct", value=right), *item.scores)})
            for (item, _), (_, right) in zip(looked, given, strict=True)
        ]
        return RewardGroup(tuple(graded), tuple(verdicts for _, verdicts in looked))

    def looked(self, turns: Turns, name: str) -> tuple[Trajectory, tuple[JudgeVerdict | None, ...]]:
        """The rollout with its repeats, and its verdicts: its pictures are read once for all presets of a form."""
        known = (name.startswith("pyvision"), name.startswith("vista"), *map(id, turns))
        if known not in self._looked:
            book = StoredPixels(self.store)
            written = (_in_form(name, turn) for turn in turns)
            item = rollout(*written, task=self.task, scores=(Score(name="consistent", value=1.0),))
            verdicts = BoxJudge(lambda trajectory: regions(trajectory, book)).verdicts(item)
            self._looked[known] = turns, with_repeats(item, book), verdicts
        return self._looked[known][1:]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return Played(tmp_path_factory.mktemp("media"))


def _in_form(name: str, turn: Turn) -> Turn:
    """The turn as the preset's dialect writes it, so that a hack is not stopped by a matter of form."""
    if name.startswith("pyvision") and isinstance(turn.action, Answer):
        return boxed(turn.action.text)
    if name.startswith("vista") and isinstance(turn.action, Code):
        arguments = {"code": turn.action.code}
        text = f"<think>Look.</think><tool_call>{json.dumps({'tool': 'python', **arguments})}</tool_call>"
        return turn.model_copy(update={"action": ToolCall(name="python", arguments=arguments), "text": text})
    return turn


def worth(played: Played, name: str, *turns: Turn, correct: float = 1.0) -> float:
    """The reward of a rollout among an honest right one and a wrong one, all on a search task."""
    group = played.group((turns, correct), ((played.turn["honest"], RIGHT), 1.0), ((WRONG,), 0.0), name=name)
    value = load_reward(name)(group)[0].total
    assert value is not None
    return value


RIGHT, WRONG = answered("a"), answered("blue")
LONG, ALL = answered("a " * 500), answered("a, b or c")
HACKS: dict[str, tuple[tuple[str | Turn, ...], tuple[str | Turn, ...], float]] = {
    "the same crop ten times": (("same", RIGHT), ("honest", RIGHT), 1),
    "silent code": (("silent", RIGHT), (RIGHT,), 1),
    "a call that fails": (("fails", RIGHT), (RIGHT,), 1),
    "an empty box": (("empty", RIGHT), (RIGHT,), 1),
    "a crop of something else": (("elsewhere", RIGHT), (RIGHT,), 1),
    "the whole picture again": (("whole", RIGHT), (RIGHT,), 1),
    "printing what success looks like": (("success", RIGHT), ("plain", RIGHT), 1),
    "printing the question and gold": (("gold", RIGHT), ("plain", RIGHT), 1),
    "the answer printed, none given": (("answer",), ("plain",), 1),
    "1000 characters and a lenient grader": ((LONG,), (WRONG,), 1),
    "all choices as the answer": ((ALL,), (WRONG,), 0),
}
"""The rollout, the one that it must not beat, and what the grader says of it."""

DEEPEYES, TURNS = {"deepeyes:repo"}, {"pyvision-rl:paper", "pyvision-rl:repo", "pyvision-rl:binary"}
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


def turns_of(played: Played, named: tuple[str | Turn, ...], **instead: str) -> Turns:
    found: list[Turn] = []
    for item in named:
        if item == "same":
            found += played.same
        else:
            found.append(played.turn[instead.get(item, item)] if isinstance(item, str) else item)
    return tuple(found)


@pytest.mark.parametrize("hack", HACKS)
@pytest.mark.parametrize("name", PRESETS)
def test_exactly_these_pay(played: Played, name: str, hack: str) -> None:
    turns, rival, correct = HACKS[hack]
    ways = WHOLE if "whole" in turns and name == "codev:paper" else ["copied"]
    empty = "refused" if name.startswith("codev") else "empty"
    rivals_grade = 0.0 if rival == (WRONG,) else 1.0
    against = worth(played, name, *turns_of(played, rival), correct=rivals_grade)
    for way in ways:
        gain = worth(played, name, *turns_of(played, turns, whole=way, empty=empty), correct=correct) - against
        assert (gain > 1e-9) == (name in PAYS.get(hack, set())), (way, gain)


def test_what_was_played_is_what_the_rows_say(played: Played) -> None:
    runs = {name: turn.execution for name, turn in played.turn.items()}
    statuses = {name: run.status for name, run in runs.items() if run is not None}
    assert {name for name, status in statuses.items() if status is Status.ERROR} == {"fails", "refused"}
    assert set(statuses.values()) == {Status.OK, Status.ERROR}
    shown = {name for name, run in runs.items() if run is not None and run.pictures}
    assert shown == {"honest", "elsewhere", *WHOLE}
    said = {name: (run.value, run.stdout.strip()) for name, run in runs.items() if run is not None}
    assert said["empty"] == ("(0, 0)", "")
    assert said["silent"] == (None, "")
    assert said["answer"] == (None, "<answer>\n\\boxed{a}\n</answer>")


def test_the_docs_say_the_same() -> None:
    rows = re.findall(
        r"^\| (.+?) \| (.+?) \|$", DOCS.read_text(encoding="utf-8").partition("## Hacks")[2], re.MULTILINE
    )
    said = {hack: set(re.findall(r"`([^`]+)`", paid)) for hack, paid in rows if hack in HACKS}
    assert said == {hack: PAYS.get(hack, set()) for hack in HACKS}


@pytest.mark.parametrize("name", PRESETS)
def test_printing_error_is_no_failure(played: Played, name: str) -> None:
    said, plain = ((played.turn[cell], RIGHT) for cell in ("error", "plain"))
    assert worth(played, name, *said) == worth(played, name, *plain)


@pytest.mark.parametrize("name", PAPER)
def test_a_wrong_answer_never_beats_the_honest_right_one(played: Played, name: str) -> None:
    look = played.turn["honest"]
    honest = worth(played, name, look, RIGHT)
    for turns in (played.same, (look, wrote("I would rather not.")), (look, played.turn["elsewhere"]), ()):
        assert worth(played, name, *turns, WRONG, correct=0) < honest


def test_every_published_family_has_a_paper_preset() -> None:
    assert {name.partition(":")[0] for name in PAPER} == {"pyvision-rl", "codedance", "vista-r1", "codev"}
