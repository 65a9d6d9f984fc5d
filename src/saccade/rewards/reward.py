"""What a reward preset is: a pure function from a group of trajectories to named parts for each of them.

Nothing here grades: the score `correct` must be on a trajectory before a preset sees it. Presets read typed statuses
and the model's own words, never what a program printed. A part that could not be computed has the value None, and then
the total is None too: such a rollout is left out of training and of every mean over the group, and never counts as
zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from pydantic import FiniteFloat

from saccade.dialects.base import find_tag_faults
from saccade.record.base import Name, Record
from saccade.record.content import Answer, Code, ParseError, ToolCall
from saccade.record.execution import Status
from saccade.record.task import Task
from saccade.record.trajectory import Score, Trajectory, Turn, total
from saccade.rewards.judges.verdict import JudgeVerdict
from saccade.tools.context import ProblemKind


class TurnPart(Record):
    """A named part with a value for each turn of a trajectory; None where the part says nothing of the turn."""

    name: Name
    values: tuple[FiniteFloat | None, ...]


class Reward(Record):
    """What one trajectory is worth."""

    parts: tuple[Score, ...]
    """Every part, those of weight 0 included; their weighted sum is the reward of the sequence."""
    turns: tuple[TurnPart, ...] = ()
    """Parts of the turns. They are not in the sum: an advantage rule uses them."""

    @property
    def total(self) -> float | None:
        """Weighted sum of the parts; None while one that counts has no value."""
        return total(self.parts)

    def part(self, name: str) -> Score:
        """The part of that name. Raises KeyError."""
        return {part.name: part for part in self.parts}[name]

    def turn_part(self, name: str) -> tuple[float | None, ...]:
        """The values of a part of the turns. Raises KeyError."""
        return {part.name: part for part in self.turns}[name].values


def with_reward(trajectory: Trajectory, reward: Reward) -> Trajectory:
    """The trajectory with every part as a score named `reward.PART`, beside what graders and judges gave it.

    Scores that it had get weight 0, so that the weighted sum is the reward; parts of turns stay in the `Reward`.
    """
    had = [score.model_copy(update={"weight": 0.0}) for score in trajectory.scores]
    parts = [part.model_copy(update={"name": f"reward.{part.name}"}) for part in reward.parts]
    return trajectory.with_scores([*had, *parts])


@dataclass(frozen=True, slots=True)
class RewardGroup:
    """Rollouts of one task, in the order in which rewards are returned."""

    trajectories: tuple[Trajectory, ...]
    verdicts: tuple[tuple[JudgeVerdict | None, ...], ...] = ()
    """For each trajectory what a judge said of each turn, None where it was not asked; empty if there was no judge."""

    def __post_init__(self) -> None:
        """Raises ValueError for rollouts of different tasks, and for verdicts that do not fit the turns."""
        tasks = {trajectory.task.id for trajectory in self.trajectories}
        if len(tasks) > 1:
            raise ValueError(f"a group holds rollouts of one task, not of {sorted(tasks)}")
        if self.verdicts and [len(row) for row in self.verdicts] != [len(item.turns) for item in self.trajectories]:
            raise ValueError("verdicts need a row for each trajectory with an entry for each of its turns")


class RewardPreset(Protocol):
    """A reward with its parameters."""

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """A reward for each trajectory, in order."""


@runtime_checkable
class NeedsJudge(Protocol):
    """A preset whose groups need a judge's verdicts."""

    def turns_to_judge(self, trajectory: Trajectory) -> Collection[int]:
        """The numbers of the calls whose verdict counts; only about these is the judge asked."""


@runtime_checkable
class NeedsConsistency(Protocol):
    """A preset that pays for thoughts that agree with the answer: the score `consistent`, which a model must give."""

    def needs_consistency(self, trajectory: Trajectory) -> bool:
        """Whether the model must be asked about a graded trajectory."""


@runtime_checkable
class SearchesTasks(Protocol):
    """A preset of which a part pays only for tasks of one kind."""

    @property
    def search_tags(self) -> tuple[str, ...]:
        """Tags of such tasks, for messages."""

    def searches(self, task: Task) -> bool:
        """Whether a task is of that kind."""


def reward_each(group: RewardGroup, reward: Callable[[int, Trajectory], Reward]) -> tuple[Reward, ...]:
    """`reward` of each trajectory and its number; of a lost one the same parts without values."""
    rewards = [reward(number, trajectory) for number, trajectory in enumerate(group.trajectories)]
    return tuple(
        unscored(item, "an outage ended the episode") if trajectory.lost else item
        for item, trajectory in zip(rewards, group.trajectories, strict=True)
    )


def unscored(reward: Reward, detail: str) -> Reward:
    """The same parts without values, for the reason `detail`."""
    return Reward(
        parts=tuple(part.model_copy(update={"value": None, "detail": detail}) for part in reward.parts),
        turns=tuple(TurnPart(name=part.name, values=(None,) * len(part.values)) for part in reward.turns),
    )


def mean_of(values: Sequence[float | None]) -> float | None:
    """Mean of the values that are known; None if there is none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True)
class ByTag:
    """A reward preset that is another for tasks with one of some tags; their order decides where a task has several."""

    usual: RewardPreset
    tagged: Mapping[str, RewardPreset]

    def of(self, task: Task) -> RewardPreset:
        """The preset for a task."""
        return next((preset for tag, preset in self.tagged.items() if tag in task.tags), self.usual)

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        """A reward for each trajectory, in order."""
        return self.of(group.trajectories[0].task)(group) if group.trajectories else ()


# What rewards read from a trajectory: was it right, which turns called something, how those calls ended.
#
# Typed statuses decide. The text that a program or a tool printed is never searched, so nothing that is printed can
# make a call look better or worse.


CORRECT: Final = "correct"
"""Name of the grader's score, 0 to 1."""
LONGEST_ANSWER: Final = 1000
"""Characters from which an answer is wrong whatever a grader says, as in the code of DeepEyes and PyVision-RL."""
_OURS: Final = (ProblemKind.TOOL_FAILURE, ProblemKind.UNAVAILABLE)


def accuracy(trajectory: Trajectory, longest: int = LONGEST_ANSWER) -> float | None:
    """The score `correct`; 0 without an answer or with one of `longest` characters or more; None if not graded."""
    score = next((score.value for score in trajectory.scores if score.name == CORRECT), None)
    if score is None or trajectory.lost:
        return None
    answer = trajectory.answer
    return 0.0 if answer is None or len(answer) >= longest else score


def is_call(turn: Turn) -> bool:
    """Whether the turn ran code or a tool, and that was no outage."""
    return turn.execution is not None and turn.execution.status is not Status.LOST


def calls(trajectory: Trajectory) -> tuple[int, ...]:
    """Numbers of the turns that ran code or a tool."""
    return tuple(number for number, turn in enumerate(trajectory.turns) if is_call(turn))


def silent(turn: Turn) -> bool:
    """Whether a call ended well and gave nothing back: no text, no value, no picture."""
    run = turn.execution
    if run is None or run.status is not Status.OK:
        return False
    return not run.pictures and not any((text or "").strip() for text in (run.stdout, run.stderr, run.value))


def succeeded(turn: Turn) -> bool:
    """Whether a call ended well."""
    return turn.execution is not None and turn.execution.status is Status.OK


def failed(turn: Turn) -> bool:
    """Whether a call failed through what the model wrote: not through an outage or a tool's own failure."""
    return is_call(turn) and not succeeded(turn) and (turn.execution is None or turn.execution.problem not in _OURS)


def returned_pictures(trajectory: Trajectory) -> int:
    """Pictures that calls gave back."""
    return sum(len(turn.execution.pictures) for turn in trajectory.turns if turn.execution is not None)


# Whether the model's own words have the form that a reward asks for. Observations are never looked at.


_THYME: Final = re.compile(r"<think>.*</think>\s<answer>.*</answer>\s*", re.DOTALL)
_BOX: Final = ("<answer>\n\\boxed{", "}\n</answer>")
_PROTOCOL: Final = {
    "tool_call": re.compile(r"\s*<think>.*</think>\s*<tool_call>.*</tool_call>\s*", re.DOTALL),
    "answer": re.compile(r"\s*<think>.*</think>\s*<answer>.*</answer>\s*", re.DOTALL),
}
_BARE: Final = {tag: re.compile(rf"\s*<{tag}>.*</{tag}>\s*", re.DOTALL) for tag in ("code", "tool_call", "answer")}


def tags_in_order(trajectory: Trajectory, tags: Collection[str], longest: int = LONGEST_ANSWER) -> bool:
    """Whether every turn has an action and pairs of each tag, and the answer is shorter than `longest` characters.

    Tags may lie inside each other, as CodeV writes code inside a thought. A trajectory without an answer can be in
    order: DeepEyes and CodeDance do not count that as a matter of form.
    """
    for turn in trajectory.turns:
        if isinstance(turn.action, ParseError) or any(find_tag_faults(turn.text, (tag,)) for tag in tags):
            return False
    return trajectory.answer is None or len(trajectory.answer) < longest


def follows_protocol(trajectory: Trajectory) -> bool:
    """VISTA's form: each turn thinks and then calls once; the last one thinks and then answers once."""
    turns = trajectory.turns
    if not turns or not isinstance(turns[-1].action, Answer):
        return False
    return all(_is_turn(turn, "tool_call") for turn in turns[:-1]) and _is_turn(turns[-1], "answer")


def only_actions(trajectory: Trajectory) -> bool:
    """VISTA's form without thoughts: each turn is one call or piece of code, the last one answer."""
    turns = trajectory.turns
    if not turns or not isinstance(turns[-1].action, Answer):
        return False
    kinds = [(turn, *_called(turn)) for turn in turns[:-1]] + [(turns[-1], Answer, "answer")]
    return all(
        isinstance(turn.action, kind)
        and not find_tag_faults(turn.text, ("code", "tool_call", "answer"))
        and turn.text.count(f"<{tag}>") == 1
        and _BARE[tag].fullmatch(turn.text) is not None
        for turn, kind, tag in kinds
    )


def _called(turn: Turn) -> tuple[type[Code | ToolCall], str]:
    """What a turn that does not answer must be, and the tag around it."""
    return (ToolCall, "tool_call") if isinstance(turn.action, ToolCall) else (Code, "code")


def boxed_answer(trajectory: Trajectory) -> bool:
    r"""PyVision-RL's gate: the last turn holds exactly `<answer>\n\boxed{...}\n</answer>`, and nothing of it twice."""
    text = "" if trajectory.answer is None else trajectory.turns[-1].text
    _, opened, rest = text.partition(_BOX[0])
    inside, closed, _ = rest.partition(_BOX[1])
    once = text.count("<answer>") == text.count("</answer>")
    again = any(mark in inside for mark in ("<interpreter>", "<answer>", "\\boxed"))
    return bool(opened and closed) and once and not again


def one_thought_one_answer(trajectory: Trajectory) -> bool:
    """Thyme's form: all that was written is one thought, one white space character and one answer."""
    text = "".join(turn.text for turn in trajectory.turns)
    once = all(text.count(tag) == 1 for tag in ("<think>", "</think>", "<answer>", "</answer>"))
    return once and _THYME.fullmatch(text) is not None


def _is_turn(turn: Turn, tag: str) -> bool:
    kinds = (Answer,) if tag == "answer" else (ToolCall, Code)
    if not isinstance(turn.action, kinds) or find_tag_faults(turn.text, ("think", "tool_call", "answer")):
        return False
    once = turn.text.count("<think>") == 1 and turn.text.count(f"<{tag}>") == 1
    return once and _PROTOCOL[tag].fullmatch(turn.text) is not None
