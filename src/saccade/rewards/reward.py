"""Define and load reward presets: pure functions from a group of trajectories to named parts for each of them.

Nothing here grades: the score `correct` must be on a trajectory before a preset sees it. Presets read typed statuses
and the model's own text, never printed output. If a part could not be computed, its value and the total are None: the
rollout is left out of training and of group means, and never counts as zero.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, Self, cast, runtime_checkable

from pydantic import BaseModel, FiniteFloat, ValidationError, model_validator

from saccade.core.registry import PresetRegistry, described
from saccade.core.seam import misfit, seam
from saccade.core.settings import mistaken, mistakes_of
from saccade.dialects.base import find_tag_faults
from saccade.errors import SettingsError
from saccade.grading.registry import load_grader, scored_by_rule
from saccade.record.content import Answer, Code, Name, ParseError, Record, Text, ToolCall
from saccade.record.execution import Status
from saccade.record.task import Task
from saccade.record.trajectory import CORRECT, Score, Trajectory, Turn, total
from saccade.tools.context import ProblemKind


class NoVerdict(StrEnum):
    """Why a judge gave no score."""

    MALFORMED = "malformed"
    """The judge's replies did not have the requested form."""
    OUTAGE = "outage"
    """The judge could not be reached."""
    REFUSED = "refused"
    """The judge's backend refused the request, and no retry could help."""
    NO_EVIDENCE = "no_evidence"
    """The judge needs gold boxes, and the task has none."""
    NOT_ASKED = "not_asked"
    """The rollout is only monitored, so no judge was asked."""
    UNSEEN = "unseen"
    """The pictures of the call could not be read or placed."""


class JudgeVerdict(Record):
    """What a judge says of one call: a score from 0 to 1, or why there is none.

    A missing verdict never counts as zero: a rollout whose reward needs it is left out of training.
    """

    score: FiniteFloat | None = None
    invalid: NoVerdict | None = None
    detail: Text = ""
    """For a person."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.score is None) == (self.invalid is None):
            raise ValueError("a verdict has either a score or the reason why there is none")
        return self


class Judge(Protocol):
    """Judges the calls of a trajectory by what they returned."""

    async def judge(self, trajectory: Trajectory, turns: Collection[int]) -> tuple[JudgeVerdict | None, ...]:
        """Return a verdict for each turn whose number is in `turns`, all of them calls; None for other turns."""


class TurnPart(Record):
    """A named part with a value for each turn of a trajectory; None where it does not apply."""

    name: Name
    values: tuple[FiniteFloat | None, ...]


class Reward(Record):
    """The reward of one trajectory, as parts."""

    parts: tuple[Score, ...]
    """All parts, also those of weight 0; their weighted sum is the reward of the sequence."""
    turns: tuple[TurnPart, ...] = ()
    """Parts of the turns, not in the sum: advantage rules use them."""

    @property
    def total(self) -> float | None:
        """Return the weighted sum of the parts; None if one with a weight has no value."""
        return total(self.parts)

    def part(self, name: str) -> Score:
        """Return the part with this name. Raises KeyError."""
        return {part.name: part for part in self.parts}[name]

    def turn_part(self, name: str) -> tuple[float | None, ...]:
        """Return the values of a turn part. Raises KeyError."""
        return {part.name: part for part in self.turns}[name].values


def with_reward(trajectory: Trajectory, reward: Reward) -> Trajectory:
    """Add every part to the trajectory as a score named `reward.PART`.

    Earlier scores get weight 0, so that the weighted sum is the reward; turn parts stay in the `Reward`.
    """
    had = [score.model_copy(update={"weight": 0.0}) for score in trajectory.scores]
    parts = [part.model_copy(update={"name": f"reward.{part.name}"}) for part in reward.parts]
    return trajectory.with_scores([*had, *parts])


@dataclass(frozen=True, slots=True)
class RewardGroup:
    """Rollouts of one task, in the order in which rewards are returned."""

    trajectories: tuple[Trajectory, ...]
    verdicts: tuple[tuple[JudgeVerdict | None, ...], ...] = ()
    """A judge's verdict on each turn of each trajectory, None where it was not asked; empty without a judge."""

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
        """Return a reward for each trajectory, in order."""


@runtime_checkable
class NeedsJudge(Protocol):
    """A preset whose groups need a judge's verdicts; see `needs_judge`.

    Its groups hold trajectories in which a picture that repeats an earlier one is that one (`with_repeats`).
    """

    def turns_to_judge(self, trajectory: Trajectory) -> Collection[int]:
        """Return the numbers of the calls that the judge must be asked about."""


@runtime_checkable
class NeedsConsistency(Protocol):
    """A preset that pays for thoughts that agree with the answer: the score `consistent`, given by a model."""

    def needs_consistency(self, trajectory: Trajectory) -> bool:
        """Tell whether the model must be asked about a graded trajectory."""


@runtime_checkable
class SearchesTasks(Protocol):
    """A preset with a part that pays only for tasks of one kind."""

    @property
    def search_tags(self) -> tuple[str, ...]:
        """Return the tags of such tasks, for messages."""

    def searches(self, task: Task) -> bool:
        """Tell whether a task is of that kind."""


def paid(preset: RewardPreset, group: RewardGroup) -> tuple[Reward, ...]:
    """Return the rewards of a group. Raises `OwnCodeError` where a preset of a user's own gives something else."""
    return seam(preset, tuple, list, each=(Reward,), count=len(group.trajectories))(group)


def needs_judge(preset: RewardPreset) -> bool:
    """Tell whether a preset pays for a judge's verdicts; it does not where its own `judged` is false (weight 0)."""
    return isinstance(preset, NeedsJudge) and bool(getattr(preset, "judged", True))


def pays_for_consistency(preset: RewardPreset) -> bool:
    """Tell whether a preset pays for thoughts that agree with the answer, with a weight, as in `needs_judge`."""
    return isinstance(preset, NeedsConsistency) and bool(getattr(preset, "judged", True))


def reward_each(group: RewardGroup, reward: Callable[[int, Trajectory], Reward]) -> tuple[Reward, ...]:
    """Apply `reward` to each trajectory and its number; a lost one gets the same parts without values."""
    rewards = [reward(number, trajectory) for number, trajectory in enumerate(group.trajectories)]
    return tuple(
        unscored(item, "an outage ended the episode") if trajectory.lost else item
        for item, trajectory in zip(rewards, group.trajectories, strict=True)
    )


def unscored(reward: Reward, detail: str) -> Reward:
    """Return the same parts without values, for the reason `detail`."""
    return Reward(
        parts=tuple(part.model_copy(update={"value": None, "detail": detail}) for part in reward.parts),
        turns=tuple(TurnPart(name=part.name, values=(None,) * len(part.values)) for part in reward.turns),
    )


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean of the known values; None if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True)
class ByTag:
    """Dispatches to a different preset by task tag; the first of `tagged` that a task has counts."""

    usual: RewardPreset
    tagged: Mapping[str, RewardPreset]

    def of(self, task: Task) -> RewardPreset:
        return next((preset for tag, preset in self.tagged.items() if tag in task.tags), self.usual)

    def __call__(self, group: RewardGroup) -> tuple[Reward, ...]:
        return self.of(group.trajectories[0].task)(group) if group.trajectories else ()


# Facts about a trajectory. Only typed statuses decide; printed text is never searched, so it cannot change a reward.

LONGEST_ANSWER: Final = 1000
"""An answer of this many characters or more is wrong, as in the code of DeepEyes and PyVision-RL."""
_OURS: Final = (ProblemKind.TOOL_FAILURE, ProblemKind.UNAVAILABLE)


def accuracy(trajectory: Trajectory) -> float | None:
    """Return the score `correct`, 0 to 1; 0 without an answer or with an overlong one; None if not graded."""
    score = next((score.value for score in trajectory.scores if score.name == CORRECT), None)
    if score is None or trajectory.lost:
        return None
    answer = trajectory.answer
    return 0.0 if answer is None or len(answer) >= LONGEST_ANSWER else score


def is_call(turn: Turn) -> bool:
    """Tell whether the turn ran code or a tool, without an outage."""
    return turn.execution is not None and turn.execution.status is not Status.LOST


def calls(trajectory: Trajectory) -> tuple[int, ...]:
    """Return the numbers of the turns that ran code or a tool."""
    return tuple(number for number, turn in enumerate(trajectory.turns) if is_call(turn))


def silent(turn: Turn) -> bool:
    """Tell whether a call succeeded without text, value or picture."""
    run = turn.execution
    if run is None or run.status is not Status.OK:
        return False
    return not run.pictures and not any((text or "").strip() for text in (run.stdout, run.stderr, run.value))


def succeeded(turn: Turn) -> bool:
    """Tell whether a call succeeded."""
    return turn.execution is not None and turn.execution.status is Status.OK


def failed(turn: Turn) -> bool:
    """Tell whether a call failed because of what the model wrote, not by an outage or a tool's own failure."""
    return is_call(turn) and not succeeded(turn) and (turn.execution is None or turn.execution.problem not in _OURS)


def returned_pictures(trajectory: Trajectory) -> int:
    """Count the pictures that calls returned."""
    return sum(len(turn.execution.pictures) for turn in trajectory.turns if turn.execution is not None)


# The form of the model's own text. Observations are never looked at.

_THYME: Final = re.compile(r"<think>.*</think>\s<answer>.*</answer>\s*", re.DOTALL)
_BOX: Final = ("<answer>\n\\boxed{", "}\n</answer>")
_PROTOCOL: Final = {
    "tool_call": re.compile(r"\s*<think>.*</think>\s*<tool_call>.*</tool_call>\s*", re.DOTALL),
    "answer": re.compile(r"\s*<think>.*</think>\s*<answer>.*</answer>\s*", re.DOTALL),
}
_TAG_OF: Final[dict[type, str]] = {Code: "code", ToolCall: "tool_call", Answer: "answer"}
_BARE: Final = {tag: re.compile(rf"\s*<{tag}>.*</{tag}>\s*", re.DOTALL) for tag in ("code", "tool_call", "answer")}


def tags_in_order(trajectory: Trajectory, tags: Collection[str]) -> bool:
    """Tell whether every turn has an action and balanced pairs of each tag, and the answer is not overlong.

    Tags may nest, as CodeV writes code inside a thought. A missing answer is no fault of form, as in DeepEyes and
    CodeDance.
    """
    for turn in trajectory.turns:
        if isinstance(turn.action, ParseError) or any(find_tag_faults(turn.text, (tag,)) for tag in tags):
            return False
    return trajectory.answer is None or len(trajectory.answer) < LONGEST_ANSWER


def follows_protocol(trajectory: Trajectory) -> bool:
    """Check VISTA's form: each turn thinks and then calls once; the last one thinks and then answers once."""
    turns = trajectory.turns
    if not turns or not isinstance(turns[-1].action, Answer):
        return False
    return all(_is_turn(turn, "tool_call") for turn in turns[:-1]) and _is_turn(turns[-1], "answer")


def only_actions(trajectory: Trajectory) -> bool:
    """Check VISTA's form without thoughts: each turn is only a call or code, the last only an answer."""
    tags = [_TAG_OF.get(type(turn.action), "") for turn in trajectory.turns]
    if not tags or tags[-1] != "answer" or "answer" in tags[:-1]:
        return False
    return all(
        tag
        and not find_tag_faults(turn.text, tuple(_BARE))
        and turn.text.count(f"<{tag}>") == 1
        and _BARE[tag].fullmatch(turn.text) is not None
        for turn, tag in zip(trajectory.turns, tags, strict=True)
    )


def boxed_answer(trajectory: Trajectory) -> bool:
    r"""Check PyVision-RL's gate: the last turn holds `<answer>\n\boxed{...}\n</answer>` exactly once."""
    text = "" if trajectory.answer is None else trajectory.turns[-1].text
    _, opened, rest = text.partition(_BOX[0])
    inside, closed, _ = rest.partition(_BOX[1])
    once = text.count("<answer>") == text.count("</answer>")
    again = any(mark in inside for mark in ("<interpreter>", "<answer>", "\\boxed"))
    return bool(opened and closed) and once and not again


def one_thought_one_answer(trajectory: Trajectory) -> bool:
    """Check Thyme's form: the whole text is one thought, one white space character and one answer."""
    text = "".join(turn.text for turn in trajectory.turns)
    once = all(text.count(tag) == 1 for tag in ("<think>", "</think>", "<answer>", "</answer>"))
    return once and _THYME.fullmatch(text) is not None


def _is_turn(turn: Turn, tag: str) -> bool:
    kinds = (Answer,) if tag == "answer" else (ToolCall, Code)
    if not isinstance(turn.action, kinds) or find_tag_faults(turn.text, ("think", "tool_call", "answer")):
        return False
    once = turn.text.count("<think>") == 1 and turn.text.count(f"<{tag}>") == 1
    return once and _PROTOCOL[tag].fullmatch(turn.text) is not None


# Presets by id (`name`, `name@version`, `codedance@1:repo`), and rubrics that score single episodes. An entry maps
# preset names to ready presets (see `PresetRegistry`); packages add entries in the group `saccade.rewards`.


def _lacks(value: object) -> str:
    if isinstance(value, type) or not callable(value):
        return f"it is {described(value)}, not a function of a Group or an object that is called with one"
    return misfit(value.__call__, RewardPreset.__call__, "__call__")


REWARDS: Final = PresetRegistry[RewardPreset](
    "rewards",
    {
        "pyvision-rl@1": "saccade.rewards.peers:PRESETS",
        "codedance@1": "saccade.rewards.codedance:PRESETS",
        "vista-r1@1": "saccade.rewards.vista:PRESETS",
        "codev@1": "saccade.rewards.codev:PRESETS",
        "deepeyes@1": "saccade.rewards.peers:DEEPEYES_PRESETS",
        "thyme@1": "saccade.rewards.peers:THYME_PRESETS",
        "pixel-reasoner@1": "saccade.rewards.peers:PIXEL_REASONER_PRESETS",
    },
    _lacks,
)


def load_reward(name: str, parameters: Mapping[str, object] | None = None) -> RewardPreset:
    """Load a preset by id or from the user's own code, with some of its parameters replaced.

    Raises `RegistryError`: nothing has that id or preset (suggests the nearest), it cannot be imported, or it is no
    reward; `SettingsError`: a parameter is unknown or wrong; names every mistake.
    """
    preset = REWARDS.load(name)
    if not parameters:
        return preset
    if not isinstance(preset, BaseModel):
        raise SettingsError(f"{name} takes no parameters; leave out {', '.join(parameters)}")
    try:
        return cast(RewardPreset, type(preset).model_validate({**preset.model_dump(), **parameters}))
    except ValidationError as error:
        raise mistaken(mistakes_of(type(preset), error), f"the parameters of {name}") from error


class Rubric(Protocol):
    """Scores one trajectory."""

    def __call__(self, trajectory: Trajectory) -> tuple[Score, ...]:
        """Return the parts, each under a different name."""


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """One part, `correct`: 1.0 if the answer is the gold answer, else 0.0; None for a task without gold answer.

    Equal means the same text but for letter case, kinds and amounts of white space, and Unicode's ways to write one
    character (NFC). Nothing else is forgiven: no letter for a choice, no unit, no `4.0` for `4`, no full stop.
    """

    weight: float = 1.0

    def __call__(self, trajectory: Trajectory) -> tuple[Score, ...]:
        gold, answer = trajectory.task.answer, trajectory.answer
        value = None if gold is None else float(answer is not None and _plain(answer) == _plain(gold))
        return (Score(name=CORRECT, value=value, weight=self.weight, detail="exact match"),)


@dataclass(frozen=True, slots=True)
class Graded:
    """One part, `correct`, as in an evaluation: by `grader`, else the task's own, else the one for its answer type.

    None for a task that cannot be graded. Raises `RegistryError` for a grader that does not exist.
    """

    grader: str = ""

    def __post_init__(self) -> None:
        if self.grader:
            load_grader(self.grader)

    def __call__(self, trajectory: Trajectory) -> tuple[Score, ...]:
        return (scored_by_rule(trajectory.answer, trajectory.task, self.grader),)


class Rewarded:
    """The parts of a reward preset, as `reward.PART`, and `correct` with weight 0.

    An environment plays one rollout at a time, so group statistics (CodeDance's mu, VISTA's difficulty) are computed
    over a group of one.
    """

    def __init__(self, preset: str, parameters: Mapping[str, object] | None = None, grader: str = "") -> None:
        """Load the preset with this id, changed by `parameters`, and a grader as for `Graded`.

        Raises `RegistryError`: there is no such preset or grader; `SettingsError`: a parameter is wrong, or the preset
        needs a judge, which environments lack.
        """
        self._reward = load_reward(preset, parameters)
        self._grade = Graded(grader)
        if needs_judge(self._reward) or pays_for_consistency(self._reward):
            raise SettingsError(
                f"the reward {preset} needs a judge, and an environment has none. Take another, or a "
                "rubric of your own that asks one."
            )

    def __call__(self, trajectory: Trajectory) -> tuple[Score, ...]:
        graded = trajectory.with_scores(self._grade(trajectory))
        return with_reward(graded, *self._reward(RewardGroup((graded,)))).scores


def as_rubric(wanted: Rubric | str | None) -> Rubric:
    """Return a rubric unchanged, make one of a preset's id (raises as `Rewarded`), or take the task's grader."""
    if wanted is None:
        return Graded()
    return Rewarded(wanted) if isinstance(wanted, str) else wanted


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
