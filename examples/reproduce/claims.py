"""The claims of the papers about reinforcement learning, and what measures each of them.

A claim about looking can be tried only if the start can cut out what is evidence. A start that never cuts anything out
shows neither; then what was trained from it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Final

import numpy as np

from examples.reproduce.evidence import Claim, Evidence, Expectation, MeasuredEffect, blocks
from examples.reproduce.exam import ExamAnswer
from examples.reproduce.settings import Arm, Reproduction
from saccade.core.registry import did_you_mean
from saccade.episode.run_folder import TRAJECTORIES
from saccade.errors import SettingsError
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory
from saccade.rewards.reward import Reward, RewardGroup
from saccade.training.rl.rollout import Rollout, RolloutGroup, group_of
from saccade.training.rl.select import Grpo, OversampleFilterRank, Selection
from saccade.training.rl.settings import RlSettings

LOOKS: Final = 0.2
"""Share of the rollouts with a crop from which a policy can look: in so many a crop holds the evidence."""


def searched(item: ExamAnswer) -> bool:
    """Return whether a task is visual search."""
    return item.searched


def why_not(evidence: Evidence, arm: Arm, asks: Callable[[ExamAnswer], bool] = searched) -> str:
    """Return why this start cannot decide the claim; empty if it can. Only tasks that `asks` is true of count."""
    start = [item for item in evidence.start(arm).values() if asks(item)]
    if not start:
        return "none of its tasks asks for a look"
    who, looked = "the start", [item for item in start if item.looked]
    if not looked:
        who = "what was trained from a start that never looks"
        trained = (item for seed in evidence.settings.seeds for item in evidence.exam(arm, seed).values())
        looked = [item for item in trained if item.looked]
    found = sum(item.saw_evidence for item in looked)
    if not looked or found < LOOKS * len(looked):
        return f"{who} cannot look: {found} of {len(looked)} rollouts with a crop held the evidence"
    return ""


# lift. An arm that is trained on videos is shown next to the others: its tasks are no visual search.

LIFT: Final = 0.20


def _lift_expectations(settings: Reproduction) -> tuple[Expectation, ...]:
    return tuple(
        Expectation(
            arm.name,
            f"accuracy of {arm.name} minus that of the start",
            "above",
            LIFT,
            decides="video" not in arm.dialect,
        )
        for arm in settings.arms
    )


def _lift_measure(evidence: Evidence) -> Mapping[str, MeasuredEffect]:
    found = {}
    for arm in evidence.settings.arms:
        gained = evidence.gained(arm, lambda item: item.right)
        found[arm.name] = MeasuredEffect(gained.by_seed, why_not(evidence, arm))
    return found


_LIFT: Final = Claim(
    "lift",
    "RL lifts held-out accuracy on visual search by 20 points or more over its cold start, with every recipe",
    "all five papers",
    _lift_expectations,
    _lift_measure,
    (("accuracy", "accuracy of rollouts"), ("tool_calls", "calls of a rollout"), ("reward", "reward")),
)


# tool-reward. With only the outcome as the reward calls fall; with the accumulative tool reward they rise and stay.

OUTCOME: Final = "outcome-only"
ACCUMULATIVE: Final = "accumulative"
STAY: Final = -0.15
"""Calls of a rollout by which the last third of the steps may lie below the third before it."""


def _tool_reward_expectations(settings: Reproduction) -> tuple[Expectation, ...]:
    return (
        Expectation("fall", f"calls of {OUTCOME} minus those of the start", "below", 0.0),
        Expectation("rise", f"calls of {ACCUMULATIVE} minus those of the start", "above", 0.0),
        Expectation(
            "stay",
            f"calls of {ACCUMULATIVE} in the last third of its steps minus the third before",
            "above",
            STAY,
            "blocks of steps",
        ),
        Expectation("apart", f"calls of {ACCUMULATIVE} minus those of {OUTCOME}", "above", 0.0, decides=False),
        Expectation("accuracy", f"accuracy of {ACCUMULATIVE} minus that of {OUTCOME}", "above", 0.0, decides=False),
    )


def _tool_reward_measure(evidence: Evidence) -> Mapping[str, MeasuredEffect]:
    outcome, accumulative = evidence.settings.arm(OUTCOME), evidence.settings.arm(ACCUMULATIVE)
    return {
        "fall": evidence.gained(outcome, lambda item: item.calls),
        "rise": evidence.gained(accumulative, lambda item: item.calls),
        "stay": evidence.later(accumulative, "tool_calls"),
        "apart": evidence.between(accumulative, outcome, lambda item: item.calls),
        "accuracy": evidence.between(accumulative, outcome, lambda item: item.right),
    }


_TOOL_REWARD: Final = Claim(
    "tool-reward",
    "with outcome-only reward tool calls fall; with the accumulative tool reward they rise and stay",
    "PyVision-RL, figure 7",
    _tool_reward_expectations,
    _tool_reward_measure,
    (("tool_calls", "calls of a rollout"), ("accuracy", "accuracy of rollouts"), ("response_length", "tokens written")),
    (OUTCOME, ACCUMULATIVE),
)


# std-sorting. Measured on one run's own groups, step by step: the groups that the filters leave, cut to a batch once by
# their spread and once in the order in which they came; and the advantages of the ranked batch, once divided by the
# standard deviation and once not. If there is an arm without ranking, the share of both over training is shown too.

SORTED: Final = "sorted"
UNSORTED: Final = "unsorted"
_STEPS: Final = "blocks of steps"
_SHARE: Final = "right_with_negative_advantage"


def _std_sorting_expectations(settings: Reproduction) -> tuple[Expectation, ...]:
    expectations = [
        Expectation("share", "right rollouts with a negative advantage: ranked minus not ranked", "below", 0.0, _STEPS),
        Expectation("variance", "variance of advantages: divided by std minus not divided", "above", 0.0, _STEPS),
    ]
    if any(arm.name == UNSORTED for arm in settings.arms):
        says = f"the same share over training: {SORTED} minus {UNSORTED}"
        expectations.append(Expectation("training", says, "below", 0.0, _STEPS, decides=False))
    return tuple(expectations)


def _std_sorting_wrong(settings: Reproduction, arms: Mapping[str, RlSettings]) -> str:
    recipe = arms[SORTED].recipe
    if not isinstance(recipe.selection, OversampleFilterRank):
        return f"arm {SORTED} must select by oversample-filter-rank, and selects by {recipe.selection.rule}"
    if recipe.selection.groups >= recipe.rounds.tasks or recipe.rounds.rounds != 1:
        return (
            f"arm {SORTED} needs rounds.rounds=1 and fewer selection.groups ({recipe.selection.groups}) than "
            f"rounds.tasks ({recipe.rounds.tasks}), else nothing is ranked out"
        )
    return "" if arms[SORTED].rollouts.every == 1 else f"arm {SORTED} must keep its rollouts: rollouts.every=1"


def _std_sorting_measure(evidence: Evidence) -> Mapping[str, MeasuredEffect]:
    settings = evidence.settings
    arm = settings.arm(SORTED)
    share, variance = [], []
    for seed in settings.seeds:
        both = [_of_step(step, evidence, arm) for step in recorded(evidence, arm, seed)]
        share.append(blocks([item[0] for item in both]))
        variance.append(blocks([item[1] for item in both]))
    found = {"share": MeasuredEffect(tuple(share)), "variance": MeasuredEffect(tuple(variance))}
    if any(item.name == UNSORTED for item in settings.arms):
        found["training"] = evidence.between_steps(arm, settings.arm(UNSORTED), _SHARE)
    return found


def recorded(evidence: Evidence, arm: Arm, seed: int) -> Iterator[list[RolloutGroup]]:
    """Yield the groups of every step whose rollouts were kept, with the rewards of the arm.

    Raises:
        RecordError: they cannot be read.
    """
    recipe = evidence.arms[arm.name].recipe
    reward = recipe.load_reward()
    path = evidence.places.arm(arm, seed) / "rollouts" / TRAJECTORIES
    if not path.exists():  # the arm could not be trained
        return
    rollouts = sorted(read_lines(path, Trajectory), key=lambda item: (_place(item), item.id))
    groups = [tuple(item) for _, item in groupby(rollouts, _place)]
    numbered = [(_place(item[0]), _scored(item, reward(RewardGroup(item)))) for item in groups]
    for _, step in groupby(numbered, lambda item: item[0] // recipe.rounds.tasks):
        yield [group for _, group in step]


def _scored(trajectories: Sequence[Trajectory], rewards: Sequence[Reward]) -> RolloutGroup:
    return group_of([Rollout(item, reward=reward) for item, reward in zip(trajectories, rewards, strict=True)])


def _place(trajectory: Trajectory) -> int:
    return int(trajectory.group.rpartition("@")[2])


def _of_step(groups: Sequence[RolloutGroup], evidence: Evidence, arm: Arm) -> tuple[float | None, float | None]:
    """Return the difference of the share, and of the variance; None where nothing was selected."""
    rule = evidence.arms[arm.name].recipe.selection
    assert isinstance(rule, OversampleFilterRank), "checked before anything was run"
    ranked, plain = rule(groups), rule.model_copy(update={"rank": False})(groups)
    shares = share(ranked), share(plain)
    difference = None if shares[0] is None or shares[1] is None else shares[0] - shares[1]
    if not ranked.kept:
        return difference, None
    return difference, _variance(ranked, divide=True) - _variance(ranked, divide=False)


def share(selection: Selection) -> float | None:
    """Return the share of trained right rollouts that have a negative advantage; None without any right ones."""
    compared = Grpo(divide_by_std=False)(selection)
    signs = [item.advantage.sequence < 0 for item in compared if item.right and item.advantage is not None]
    return sum(signs) / len(signs) if signs else None


def _variance(selection: Selection, *, divide: bool) -> float:
    compared = Grpo(divide_by_std=divide)(selection)
    return float(np.var([item.advantage.sequence for item in compared if item.advantage is not None]))


_STD_SORTING: Final = Claim(
    "std-sorting",
    "std sorting lowers the share of right rollouts with negative advantage; removing std normalisation lowers the "
    "variance of advantages",
    "PyVision-RL, figures 6 and 16",
    _std_sorting_expectations,
    _std_sorting_measure,
    ((_SHARE, "right rollouts with a negative advantage"), ("accuracy", "accuracy of rollouts")),
    (SORTED,),
    _std_sorting_wrong,
)


# adaptive. A policy that never calls calls less on easy tasks too. So the claim has two floors: accuracy must not fall
# below that of the start, and hard tasks, where calls help, must still be called for.

EASY: Final = "easy"
"""The task set that is easy."""
HARD: Final = "hard"
"""The task set in which calls help."""
ADAPTIVE: Final = "codedance"
LUMP: Final = "deepeyes"
SEQUENCE: Final = "sequence-only"
AS_GOOD: Final = -0.05
"""Accuracy by which it may be worse and still counts as equal."""
CALLED: Final = 0.5
"""Share of the hard tasks in which a policy must call to have adapted, and not only stopped calling."""
LATE: Final = 0.5
"""Fraction of the steps from which on entropy is compared."""


def _adaptive_expectations(settings: Reproduction) -> tuple[Expectation, ...]:
    expectations = [
        Expectation("calls", f"calls on {EASY} tasks: {ADAPTIVE} minus {LUMP}", "below", 0.0),
        Expectation("accuracy", f"accuracy on {EASY} tasks: {ADAPTIVE} minus {LUMP}", "above", AS_GOOD),
        Expectation("kept", f"accuracy on all tasks: {ADAPTIVE} minus its start", "above", AS_GOOD),
        Expectation("called", f"share of {HARD} tasks in which {ADAPTIVE} calls at all", "above", CALLED),
    ]
    if any(arm.name == SEQUENCE for arm in settings.arms):
        says = f"entropy in the second half of the steps: {ADAPTIVE} minus {SEQUENCE}"
        expectations.append(Expectation("entropy", says, "above", 0.0, "blocks of steps"))
    return tuple(expectations)


def _adaptive_wrong(settings: Reproduction, arms: Mapping[str, RlSettings]) -> str:
    sets = [item.name for item in settings.task_sets]
    missing = [name for name in (EASY, HARD) if name not in sets]
    return f"it needs the task set(s) {', '.join(missing)}, and has {', '.join(sets)}" if missing else ""


def _adaptive_measure(evidence: Evidence) -> Mapping[str, MeasuredEffect]:
    settings = evidence.settings
    adaptive, lump = settings.arm(ADAPTIVE), settings.arm(LUMP)
    calls = evidence.between(adaptive, lump, lambda item: item.calls, EASY)
    found = {
        # Without pictures that come back the DeepEyes reward pays for no call.
        "calls": MeasuredEffect(calls.by_seed, why_not(evidence, adaptive)),
        "accuracy": evidence.between(adaptive, lump, lambda item: item.right, EASY),
        "kept": evidence.gained(adaptive, lambda item: item.right),
        "called": evidence.of(adaptive, lambda item: float(item.calls > 0), HARD),
    }
    if any(arm.name == SEQUENCE for arm in settings.arms):
        found["entropy"] = evidence.between_steps(adaptive, settings.arm(SEQUENCE), "entropy", LATE)
    return found


_ADAPTIVE: Final = Claim(
    "adaptive",
    "CodeDance's adaptive reward makes fewer calls on easy tasks than the DeepEyes reward at equal or better accuracy, "
    "and still calls on hard ones; the turn-level term delays entropy collapse",
    "CodeDance, table 3 and figure 4",
    _adaptive_expectations,
    _adaptive_measure,
    (("tool_calls", "calls of a rollout"), ("entropy", "entropy of a token"), ("accuracy", "accuracy of rollouts")),
    (ADAPTIVE, LUMP),
    _adaptive_wrong,
)


# faithful. The rate of faithful tool use is measured by gold boxes.

TAPO: Final = "tapo"
ACCURACY: Final = "accuracy-only"


def _faithful_expectations(settings: Reproduction) -> tuple[Expectation, ...]:
    return (
        Expectation("faithful", f"faithful rate (right, evidence cut out): {TAPO} minus {ACCURACY}", "above", 0.0),
        Expectation("accuracy", f"accuracy: {TAPO} minus {ACCURACY}", "above", 0.0, decides=False),
    )


def _faithful_measure(evidence: Evidence) -> Mapping[str, MeasuredEffect]:
    tapo, accuracy = evidence.settings.arm(TAPO), evidence.settings.arm(ACCURACY)
    faithful = evidence.between(tapo, accuracy, lambda item: item.faithful)
    return {
        "faithful": MeasuredEffect(faithful.by_seed, why_not(evidence, tapo, lambda item: item.boxed)),
        "accuracy": evidence.between(tapo, accuracy, lambda item: item.right),
    }


_FAITHFUL: Final = Claim(
    "faithful",
    "TAPO raises the faithful tool-use rate over accuracy-only",
    "CodeV, table 5",
    _faithful_expectations,
    _faithful_measure,
    (
        ("accuracy", "accuracy of rollouts"),
        ("reward/tool", "mean verdict on calls"),
        ("tool_calls", "calls of a rollout"),
    ),
    (TAPO, ACCURACY),
)


# tail-patch. Compared with where the plateau was, and with training for as long over all tasks: else any further
# training would do.

BASE: Final = "plateau"
TAIL: Final = "tail-patch"
FURTHER: Final = "further"


def _tail_patch_expectations(settings: Reproduction) -> tuple[Expectation, ...]:
    return (
        Expectation("lift", f"accuracy: {TAIL} minus {BASE}", "above", 0.0),
        Expectation("slice", f"accuracy: {TAIL} minus {FURTHER}, as many steps over all tasks", "above", 0.0),
        Expectation(
            "plateau",
            f"accuracy of {BASE}'s rollouts in the last third of its steps minus the third before",
            "below",
            0.05,
            "blocks of steps",
            decides=False,
        ),
    )


def _tail_patch_measure(evidence: Evidence) -> Mapping[str, MeasuredEffect]:
    base, tail, further = (evidence.settings.arm(name) for name in (BASE, TAIL, FURTHER))
    return {
        "lift": evidence.between(tail, base, lambda item: item.right),
        "slice": evidence.between(tail, further, lambda item: item.right),
        "plateau": evidence.later(base, "accuracy"),
    }


_TAIL_PATCH: Final = Claim(
    "tail-patch",
    "tail-patch on the hard-but-learnable slice lifts accuracy after the plateau",
    "VISTA-Gym, figure 7",
    _tail_patch_expectations,
    _tail_patch_measure,
    (("accuracy", "accuracy of rollouts"), ("reward", "reward")),
    (BASE, TAIL, FURTHER),
)


# tools. One start, on tasks whose answer cannot be seen without tools.

WITH: Final = "with-tools"
WITHOUT: Final = "without-tools"


def _tools_expectations(settings: Reproduction) -> tuple[Expectation, ...]:
    return (
        Expectation("tools", f"accuracy: {WITH} minus {WITHOUT}", "above", 0.0),
        Expectation("training", f"accuracy of {WITH} minus that of its start", "above", 0.0),
        Expectation("calls", f"calls of {WITH} minus those of its start", "above", 0.0, decides=False),
        Expectation("eye", f"accuracy of {WITHOUT} minus that of its start", "above", 0.0, decides=False),
    )


def _tools_measure(evidence: Evidence) -> Mapping[str, MeasuredEffect]:
    tools, without = evidence.settings.arm(WITH), evidence.settings.arm(WITHOUT)
    return {
        "tools": evidence.between(tools, without, lambda item: item.right),
        "training": evidence.gained(tools, lambda item: item.right),
        "calls": evidence.gained(tools, lambda item: item.calls),
        "eye": evidence.gained(without, lambda item: item.right),
    }


_TOOLS: Final = Claim(
    "tools",
    "reinforcement learning with typed tools comes to a higher accuracy than without",
    "VISTA-Gym, table 2",
    _tools_expectations,
    _tools_measure,
    (("accuracy", "accuracy of rollouts"), ("tool_calls", "calls of a rollout"), ("reward", "reward")),
    (WITH, WITHOUT),
)
CLAIMS: Final = MappingProxyType(
    {claim.name: claim for claim in (_LIFT, _TOOL_REWARD, _STD_SORTING, _ADAPTIVE, _FAITHFUL, _TAIL_PATCH, _TOOLS)}
)


def load_claim(name: str) -> Claim:
    """Find the claim of that name.

    Raises:
        SettingsError: there is none; suggests the nearest.
    """
    if name not in CLAIMS:
        hint = did_you_mean(name, CLAIMS) or f"They are: {', '.join(CLAIMS)}."
        raise SettingsError(f"there is no claim {name!r}. {hint}")
    return CLAIMS[name]
