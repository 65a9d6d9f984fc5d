"""The settings of `saccade reproduce`: tasks, the weakened start, the arms, the examination.

A claim's file in `recipes/reproduce/` holds them; what a claim says, and what decides it, is in `claims/` and is no
setting.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from saccade.record.settings import Settings

DemonstrationKind = Literal["right", "known", "guess", "glance", "middle", "astray", "again", "stumble", "consult"]
"""How a demonstration goes: see `saccade.reproduce.plays`."""
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
    """Of an arm's training. With several, who calls must be a program that can be imported again, and its
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
        """The task set of that name. Raises StopIteration if there is none."""
        return next(item for item in self.task_sets if item.name == name)

    def arm(self, name: str) -> Arm:
        """The arm of that name. Raises StopIteration if there is none."""
        return next(item for item in self.arms if item.name == name)

    def sets_of(self, arm: Arm) -> tuple[str, ...]:
        """Names of the sets that an arm is trained on and examined by."""
        return arm.tasks or tuple(item.name for item in self.task_sets)
