"""The settings of `python -m examples.reproduce`, the plays of a weak start, and the plan of steps.

A claim's file in `recipes/` holds the settings; what a claim says, and what decides it, is in `claims.py` and is no
setting. Demonstrations for a start that is to be weak are good ones, and ones that go wrong in a known way:

right: as the demonstrator of the plug-in `worlds` plays it. known: the gold answer at once. guess: some answer at once.
glance: the picture once more as it is, one call or several, then the gold answer.
middle: the middle of the picture, cut out wherever the evidence is, then the gold answer.
astray: looks as if the evidence were somewhere else, then some answer. again: the first call several times over.
stumble: first the first call with a wrong name in it. consult: typed tools, as experts of `saccade synth` call them.

They depend only on the plan, the kind of play and a random stream. The arms get as many steps as were asked for, or as
fit the time; that is decided once, before the first arm.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from saccade.core.disk import write_atomic
from saccade.core.settings import Settings
from saccade.episode.flow import Plan
from saccade.errors import SettingsError
from saccade.models.base import Completion, MediaReader, Request
from saccade.plugins.worlds.experts.demonstrator import Demonstrator, gold, is_looked_for
from saccade.record.content import Action, Answer, Code, ImagePart
from saccade.record.task import AnswerType, Task
from saccade.record.trajectory import FinishReason
from saccade.tasks.worlds import Rng
from saccade.training.rl.settings import RlSettings

DemonstrationKind = Literal["right", "known", "guess", "glance", "middle", "astray", "again", "stumble", "consult"]
"""How a demonstration goes: see `examples.reproduce.settings`."""
RECIPES = Path(__file__).parent / "recipes"
"""The settings of each claim: `CLAIM.toml`."""
_NAME = r"[a-z0-9-]+"


class TaskSet(Settings):
    """Tasks of generated worlds."""

    name: str = Field(pattern=_NAME)
    worlds: tuple[str, ...] = Field(min_length=1)
    knobs: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """World without its version -> knob -> value."""
    train: PositiveInt = 64
    """Tasks of each world that are trained on: the first of its split `train`, after those of the demonstrations."""
    held_out: PositiveInt = 48
    """Tasks of each world that are examined: the first of its split `test`."""


class DemonstrationSet(Settings):
    """Demonstrations of one kind, from which the start is made."""

    tasks: str
    """Name of the set whose worlds and knobs are drawn."""
    play: DemonstrationKind = "right"
    n: PositiveInt
    """Tasks of each world."""
    dialect: str = "tiny:look"
    calls: int = Field(2, ge=1, le=8)
    """How often the play `again` makes its first call, and `glance` shows the picture."""


class StartSettings(Settings):
    """The cold start, weakened on purpose: a little fine-tuning on demonstrations, not all of them good."""

    demonstrations: tuple[DemonstrationSet, ...] = ()
    steps: NonNegativeInt = 0
    """0: the model as it is."""
    trajectories: PositiveInt = 16
    """Of a step."""
    method: Literal["adamw", "muon"] = "adamw"
    learning_rate: PositiveFloat = 5e-4
    average: Literal["tokens", "trajectories"] = "tokens"
    """`trajectories`: an answer at once counts as much as a long search, and habits get the shares of their sets."""
    seed: NonNegativeInt = 0

    @model_validator(mode="after")
    def _taught(self) -> Self:
        if self.steps and not self.demonstrations:
            raise ValueError("a start that is trained needs demonstrations; steps = 0 takes the model as it is")
        return self


class Arm(Settings):
    """One way to train from the start."""

    name: str = Field(pattern=_NAME)
    recipe: str
    """As `saccade rl` takes it: a name, or a file; its profile `tiny` holds."""
    change: tuple[str, ...] = ()
    """Settings of `saccade rl` in place of the recipe's, as NAME=VALUE; they come after `every_arm`."""
    curriculum: bool = False
    """Whether the recipe's choice of tasks by their pass rate holds: it rolls out every task once."""
    after: str = ""
    """The arm whose trained model it begins from; empty: the start."""
    tasks: tuple[str, ...] = ()
    """Names of sets; none: all."""
    dialect: str = "tiny:look"


class ExamSettings(Settings):
    """One rollout of every held-out task."""

    temperature: NonNegativeFloat = 1.0
    """1: the policy as it was trained. 0: its most likely words."""
    max_tokens: PositiveInt = 400
    """Of a turn."""


class Reproduction(Settings):
    """Everything that decides how a claim is tried."""

    model: str = "tiny"
    """The checkpoint that the start is made of: a folder, or `tiny` for the weights that come with Saccade."""
    task_sets: tuple[TaskSet, ...] = Field(min_length=1)
    start: StartSettings = StartSettings()
    every_arm: tuple[str, ...] = ()
    """Settings of `saccade rl` for all arms, as NAME=VALUE."""
    turns: PositiveInt | None = None
    """Most turns of an episode, in demonstrations, training and examination; None: those of the dialect."""
    arms: tuple[Arm, ...] = Field(min_length=1)
    steps: PositiveInt = 40
    """Of each arm, if the time allows."""
    fewest_steps: PositiveInt = 6
    """With less, nothing is tried."""
    seeds: tuple[NonNegativeInt, ...] = Field((0,), min_length=1)
    minutes: NonNegativeFloat = 30.0
    """For everything together; 0: no limit."""
    growth: float = Field(1.15, ge=1)
    """How much longer a rollout of the training takes than one of the probe: a policy learns to call."""
    exam: ExamSettings = ExamSettings()
    threads: NonNegativeInt = 1
    """Of torch on a CPU; 0: one for each core."""
    processes: PositiveInt = 1
    """Of an arm's training. With several, the caller must be a program that can be imported again, and its
    `ReproduceCallback` one that can be pickled."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        sets, arms = [item.name for item in self.task_sets], [arm.name for arm in self.arms]
        for what, names in (("task sets", sets), ("arms", arms)):
            if len(set(names)) < len(names):
                raise ValueError(f"two {what} share a name")
        if "start" in arms:
            raise ValueError("no arm can be named start: that is what all begin from")
        asked = [name for arm in self.arms for name in arm.tasks] + [kind.tasks for kind in self.start.demonstrations]
        unknown = sorted(set(asked) - set(sets))
        if unknown:
            raise ValueError(f"there is no task set {', '.join(unknown)}; the task sets are {', '.join(sets)}")
        for number, arm in enumerate(self.arms):
            if arm.after and arm.after not in arms[:number]:
                raise ValueError(f"arm {arm.name} comes after {arm.after}, which is no arm before it")
        return self

    def set_named(self, name: str) -> TaskSet:
        """Return the task set of that name. Raises StopIteration if there is none."""
        return next(item for item in self.task_sets if item.name == name)

    def arm(self, name: str) -> Arm:
        """Return the arm of that name. Raises StopIteration if there is none."""
        return next(item for item in self.arms if item.name == name)

    def sets_of(self, arm: Arm) -> tuple[str, ...]:
        """Return the names of the sets that an arm is trained on and examined by."""
        return arm.tasks or tuple(item.name for item in self.task_sets)


_NUMBERS = 9
"""Largest number that is guessed."""
_MARGIN = 5
"""The play `middle` leaves out one in so many of the picture's pixels at each side: a third of its area remains."""


class WeakDemonstrator:
    """A `Model` that plays one plan as its kind says: the demonstrator, made weaker."""

    name = "weak-demonstrator@1"

    def __init__(self, plan: Plan, kind: DemonstrationSet, notes: Mapping[str, str], rng: Rng) -> None:
        """Take the `notes` of the world's sample. Raises `SettingsError` if the play does not fit the task."""
        self._plan = plan
        self._kind = kind
        task, play = plan.task, kind.play
        self._answer = Answer(text=gold(task)) if play in ("known", "glance", "middle") else None
        if play in ("guess", "astray"):
            self._answer = Answer(text=guessed(task, rng))
        self._glances = {"glance": kind.calls, "middle": 1}.get(play, 0)
        """Calls that show the picture, or its middle, before the answer."""
        self._good = Demonstrator(plan, _elsewhere(task, notes, rng) if play == "astray" else notes)
        self._extra = {"again": kind.calls - 1, "stumble": 1}.get(play, 0)
        """Calls beyond those of the demonstrator, in front of them."""

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the next turn.

        Raises:
            ExpertStopped: the program that was to find the answer failed, or printed nothing.
            SettingsError: the play needs a call, and the dialect has none.
        """
        opening, rest = request.messages[:1], request.messages[1:]
        done = len(rest) // 2
        if done < self._glances:
            return self._written(_shown(self._plan, self._kind), request)
        if self._kind.play in ("known", "guess", "glance", "middle"):
            assert self._answer is not None
            return self._written(self._answer, request)
        # The demonstrator sees none of the calls that are not its own.
        seen = opening if done < self._extra else (*opening, *rest[2 * self._extra :])
        said = await self._good.complete(replace(request, messages=seen), media)
        action = self._plan.dialect.parse(said.text, said.finish)
        if not isinstance(action, Code):
            if not done:
                raise SettingsError(f"play {self._kind.play} needs code, and {self._plan.dialect.id} has none")
            return said if self._answer is None else self._written(self._answer, request)
        if self._kind.play == "stumble" and not done:
            return self._written(_misnamed(action, self._plan), request)
        return said

    async def close(self) -> None:
        """Holds nothing that needs closing."""

    def _written(self, action: Action, request: Request) -> Completion:
        text = self._plan.dialect.write(action)
        ended = any(text.endswith(mark) for mark in request.stop)
        return Completion(text, FinishReason.STOP_STRING if ended else FinishReason.STOP, model=self.name)


def guessed(task: Task, rng: Rng) -> str:
    """Guess an answer of the right kind that knows nothing of the gold one.

    Raises:
        SettingsError: nothing can be guessed.
    """
    if task.choices:
        return rng.choice(task.choices)
    if task.answer_type is AnswerType.YES_NO:
        return rng.choice(("yes", "no"))
    if task.answer_type is AnswerType.NUMBER:
        return str(rng.integer(0, _NUMBERS))
    raise SettingsError(f"{task.id} asks for {task.answer_type}, which cannot be guessed; use another play")


def _elsewhere(task: Task, notes: Mapping[str, str], rng: Rng) -> Mapping[str, str]:
    """Return the notes as if the asked sign stood at a random place."""
    if not is_looked_for(task):
        raise SettingsError(f"{task.id} is answered by a program, so no crop of it can go astray; use another play")
    part = next(item.part for item in task.media if item.name == task.evidence[0].image)
    assert isinstance(part, ImagePart)
    x, y = rng.integer(1, part.width - 2), rng.integer(1, part.height - 2)
    others = [line for line in notes["signs"].splitlines() if line.split()[0] != notes["plate"]]
    return {**notes, "signs": "\n".join([f"{notes['plate']} {x - 1} {y - 1} {x + 1} {y + 1}", *others])}


def _shown(plan: Plan, kind: DemonstrationSet) -> Code:
    name = next(iter(plan.opening.bindings))
    if kind.play == "glance":
        return Code(code=f"{name}.show()")
    box = f"(w // {_MARGIN}, h // {_MARGIN}, w - w // {_MARGIN}, h - h // {_MARGIN})"
    return Code(code=f"w, h = {name}.size\n{name}.crop({box}).show()")


def _misnamed(good: Code, plan: Plan) -> Code:
    """Return the program with the name of its picture cut short, which is no name."""
    name = next(iter(plan.opening.bindings))
    return Code(code=good.code.replace(name, name.rpartition("_")[0]))


PROBE_STEPS: Final = 2
_SECONDS: Final = ("seconds/decoding", "seconds/sandbox", "seconds/scoring", "seconds/update")


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """What was decided."""

    steps: int
    """Of each arm."""
    asked: int
    seconds_per_rollout: float
    """Playing and learning, as the probe took them; 0 without a probe."""


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """What the plan is made from, in seconds."""

    so_far: float
    per_exam: float
    """One rollout of the examination, or of a curriculum's choice: nothing is learned from it."""
    exams: int
    """Rollouts of all examinations that are to come."""
    per_rollout: float


def read_plan(path: Path) -> TrialPlan | None:
    """Read the plan that was made before; None if there is none."""
    return TrialPlan(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def write_plan(path: Path, plan: TrialPlan) -> None:
    """Keep the plan."""
    write_atomic(path, json.dumps(asdict(plan)) + "\n")


def make_plan(settings: Reproduction, arms: Mapping[str, RlSettings], spent: TimeSpent) -> TrialPlan:
    """Plan as many steps of every arm as fit.

    Raises:
        SettingsError: they are fewer than `fewest_steps`.
    """
    if not settings.minutes:
        return TrialPlan(settings.steps, settings.steps, spent.per_rollout)
    seeds = len(settings.seeds)
    per_step = seeds * spent.per_rollout * settings.growth * sum(map(_rollouts, arms.values()))
    only_played = spent.exams + seeds * sum(map(_once, arms.values()))
    left = 60 * settings.minutes - spent.so_far - only_played * spent.per_exam
    steps = min(settings.steps, int(left / per_step))
    if steps < settings.fewest_steps:
        raise SettingsError(
            f"{settings.minutes:g} minutes are enough for {max(0, steps)} steps of {len(arms)} arms with {seeds} "
            f"seed(s), and at least {settings.fewest_steps} are wanted (fewest_steps). Give more --minutes (0: no "
            "limit), fewer seeds, or smaller steps (--set)."
        )
    return TrialPlan(steps, settings.steps, spent.per_rollout)


def seconds_per_rollout(steps: Sequence[Mapping[str, float]]) -> float:
    """Return the seconds per rollout of the slower of a probe's steps."""
    return max(sum(step.get(name, 0.0) for name in _SECONDS) / max(1.0, step["rollouts"]) for step in steps)


def _rollouts(settings: RlSettings) -> int:
    """Return the rollouts of a step, at most."""
    rounds = settings.recipe.rounds
    return rounds.tasks * rounds.rounds * settings.recipe.rollout.group_size


def _once(settings: RlSettings) -> int:
    """Return the rollouts by which a curriculum chooses."""
    return (
        (settings.tasks.most or 0) * settings.recipe.rollout.group_size if settings.recipe.curriculum is not None else 0
    )
